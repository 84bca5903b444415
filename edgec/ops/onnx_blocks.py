"""ONNX DequantizeLinear of a constant by blocks: a scale for each `block_size` of one axis.

Where the scales of each channel are powers of two times its least one, shifted numbers are int8 in
steps of that: weights as all others, with one scale for each channel. Otherwise floats.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgec.errors import BadNode, ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.graph.types import Array, Quant
from edgec.ops.op import RawNode


def constant_parameters(raw: RawNode) -> tuple[Constant, Constant | None]:
    """Scale and zero point of a node; ImportFailed if they are not constants."""
    scale, zero_point = raw.operand(1), raw.optional(2)
    if isinstance(scale, Constant) and isinstance(zero_point, Constant | None):
        return scale, zero_point
    raise ImportFailed("scale and zero point must be constants")


def import_blocks(builder: GraphBuilder, raw: RawNode, x: Constant) -> Value:
    """The dequantize of int8 numbers, or the float32 constant that the node stands for.

    Raises ImportFailed unless scales and zero points are constants of the blocks' shape.
    """
    scale, zero_point = constant_parameters(raw)
    size, rank = int(raw.attribute("block_size", 0)), x.data.ndim
    axis = int(raw.attribute("axis", 1)) % max(rank, 1)
    blocks = [-(-n // size) if a == axis else n for a, n in enumerate(x.data.shape)]
    if size < 0 or list(scale.data.shape) != blocks:
        raise BadNode(f"scales {list(scale.data.shape)} for blocks {blocks}")
    scales = np.asarray(scale.data, np.float32)
    if not np.all(np.isfinite(scales) & (scales > 0)):
        raise BadNode("a scale is not a positive finite number")
    zeros = np.zeros(blocks, np.int64)
    if zero_point is not None:
        if zero_point.data.shape != scales.shape:
            raise BadNode(f"zero points {list(zero_point.data.shape)} for blocks {blocks}")
        zeros = zero_point.data.astype(np.int64)

    def spread(each: Array) -> Array:
        wide = np.repeat(each, size, axis=axis)
        return np.asarray(np.take(wide, np.arange(x.data.shape[axis]), axis=axis))

    if not zeros.any():
        for channel in (a for a in range(rank) if a != axis):
            found = _shifted(x.data, scales, spread, channel)
            if found is not None:
                stored = builder.constant(x.name, found[0], found[1], x.origin)
                return builder.op("dequantize", [stored], name=raw.name)
    real = (x.data.astype(np.int64) - spread(zeros)).astype(np.float32) * spread(scales)
    return builder.constant(raw.name, real, origin=x.origin)


def _shifted(data: Array, scales: Array, spread: Any, channel: int) -> tuple[Array, Quant] | None:
    """int8 numbers in units of each channel's smallest scale, if scales are multiples."""
    others = tuple(a for a in range(scales.ndim) if a != channel)
    least = scales.min(axis=others, keepdims=True)
    ratio = scales.astype(np.float64) / least
    shifts = np.rint(np.log2(ratio))
    if not np.array_equal(2.0**shifts, ratio) or shifts.max() > 7:
        return None
    numbers = data.astype(np.int64) << spread(shifts.astype(np.int64))
    if numbers.min() < -128 or numbers.max() > 127:
        return None
    steps = tuple(map(float, least.reshape(-1)))
    return numbers.astype(np.int8), Quant(steps, (0,) * len(steps), channel)
