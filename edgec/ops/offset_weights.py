"""Products with weights whose zero point is not 0, as in TFLite's old uint8 files.

sum((x - a) * (w - b)) = sum((x - a) * w) - b * sum((x - a)): the first sum takes the usual kernels;
the second is the same operator with all weights 1 and one output channel. Where w - b fits in int8,
it is stored as the weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.graph.operator import get_op
from edgec.graph.traits import Products
from edgec.graph.types import Quant
from edgec.ops.op import RawNode
from edgec.ops.parts import Parts
from edgec.ops.requantize import weight_scales

#: The dtype of weights minus their zero points.
_STORED = np.iinfo(np.int8)


def offset_scales(weights: Constant, channels: int) -> tuple[float, ...]:
    """The scales of uint8 weights, which may have a zero point.

    Raises ImportFailed for other weights with one: TFLite's kernels for int8 ignore it.
    """
    if weights.type.quant is None or weights.origin is None or not weights.origin.is_moved:
        return weight_scales(weights.type, channels)
    zeros = (0,) * len(weights.type.quant.zero_point)
    plain = replace(weights.type, quant=replace(weights.type.quant, zero_point=zeros))
    return weight_scales(plain, channels)


def append_products(
    builder: GraphBuilder, raw: RawNode, op: str, operands: Sequence[Value], attrs: Any = None
) -> Value:
    """The accumulators `<node>.acc` of an operator on (x, weights, bias), all stored integers.

    The zero point may differ by output channel.
    """
    x, weights, bias = operands
    names, products = [f"{raw.name}.acc"], get_op(op).products
    assert isinstance(weights, Constant) and products is not None
    quant = weights.type.quant
    if quant is None or not any(quant.zero_point):
        return builder.op(op, operands, attrs, name=raw.name, output_names=names)
    zeros = np.asarray(quant.zero_point, np.int64)
    by_channel = zeros.reshape(
        [-1 if a == products.outputs else 1 for a in range(weights.data.ndim)]
    )
    centred = weights.data.astype(np.int64) - by_channel
    fits = _STORED.min <= centred.min() and centred.max() <= _STORED.max
    symmetric = Quant(quant.scale, (0,) * len(quant.scale), quant.axis)
    data = centred.astype(np.int8) if fits else weights.data
    plain = builder.constant(f"{weights.name}.plain", data, symmetric, weights.origin)
    if fits:
        return builder.op(op, [x, plain, bias], attrs, name=raw.name, output_names=names)
    parts = Parts(builder, raw)
    sums = parts.op(op, [x, plain, bias], attrs, "products")
    shares = parts.op(op, [x, *_ones(parts, plain, products)], attrs, "window_sums")
    offset = parts.op("int_mul", [shares, parts.table(zeros, "zero_points")], what="offset")
    return builder.op(
        "int_sub", [sums, offset], name=raw.name, output_names=names, sources=(raw.name,)
    )


def _ones(parts: Parts, weights: Constant, products: Products) -> tuple[Constant, Constant]:
    """Weights that sum windows, of all channels or each of its own, and their bias."""
    shape = list(weights.type.shape)
    if not products.is_depthwise:
        shape[products.outputs] = 1
    name, quant = f"{parts.name}.ones", Quant((1.0,), (0,))
    ones = parts.builder.constant(name, np.ones(shape, np.int8), quant)
    return ones, parts.table(np.zeros(shape[products.outputs]), "none")
