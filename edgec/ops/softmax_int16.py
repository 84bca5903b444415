"""softmax_int16: exp(beta * x) over the sum along the last axis, of int16 by TFLite's two tables.

Source: SoftmaxInt16 in TFLite's softmax.h, LUTPopulateInt16 and LUTLookup in its common.h.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.ir import Constant, Node
from edgec.graph.operator import Fusion, register
from edgec.graph.types import Array, Quant, TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, cast, clamp, int32, intrinsic, maximum
from edgec.numerics.fixed_point import IntArray, quantize_multiplier, round_half_away
from edgec.ops.broadcast import tensors_of
from edgec.ops.op import Op

#: The results: 0..1 in 15 bits.
OUTPUT_QUANT = Quant((1 / 32768,), (0,))
#: Differences from the row's maximum that the table of the exponential holds, in steps.
DEEPEST, STEPS = 10.0, 65535
#: Intervals of a table.
INTERVALS = 512
#: Elements whose sum of 15 bits each int32 holds.
MOST_ELEMENTS = 1 << 16


@dataclass(frozen=True)
class SoftmaxInt16Attrs:
    """beta: factor of the input."""

    beta: float = 1.0


def _lookup_table(low: float, high: float, function: Callable[[Array], Array]) -> IntArray:
    """Values of 512 intervals of [low, high] with 15 fraction bits, made for interpolation.

    Each entry is corrected by half of the interpolation error in the middle, in float32.
    """
    single = np.float32
    step = single((single(high) - single(low)) / single(INTERVALS))
    at = single(low) + np.arange(INTERVALS, dtype=np.float32) * step
    after = single(low) + np.arange(1, INTERVALS + 1, dtype=np.float32) * step
    scale = single(32768)
    here, middle, end = (
        np.asarray(function(x.astype(np.float64))).astype(np.float32) * scale
        for x in (at, at + step / single(2), after)
    )
    sample = round_half_away(here)
    between = round_half_away((end + sample.astype(np.float32)) / single(2))
    bias = round_half_away((between - round_half_away(middle)).astype(np.float32) / single(2))
    last = round_half_away(np.asarray(function(np.array([high])), np.float32) * scale)
    table: IntArray = np.clip(np.concatenate([sample - bias, last]), -32768, 32767)
    return table


@cache
def exp_table() -> IntArray:
    """exp(x) for x from -10 to 0."""
    return _lookup_table(-DEEPEST, 0.0, np.exp)


@cache
def reciprocal_table() -> IntArray:
    """1 / (1 + x) for x from 0 to 1."""
    return _lookup_table(0.0, 1.0, lambda x: 1 / (1 + x))


@register
class SoftmaxInt16(Op[SoftmaxInt16Attrs]):
    """int16 in and out, in every bit as TFLite."""

    name = "softmax_int16"
    attrs_class = SoftmaxInt16Attrs
    fusion = Fusion.OPAQUE

    def infer(self, attrs: SoftmaxInt16Attrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The input's shape in steps of 2**-15."""
        (x,) = inputs
        if x.dtype != "int16" or x.quant is None or not x.quant.per_tensor or not x.shape:
            raise TypeMismatch(f"softmax_int16 needs int16 quantized per tensor, not {x}")
        if not 1 <= x.shape[-1] <= MOST_ELEMENTS:
            raise TypeMismatch(f"softmax_int16 over {x.shape[-1]} elements")
        if not 0 < _factor(attrs, x) < 1 << 14:
            raise TypeMismatch("softmax_int16: beta times the input scale is out of range")
        return (TensorType(x.shape, "int16", OUTPUT_QUANT),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """The same; exponentials are computed twice rather than kept."""
        (x,) = tensors_of(inputs)
        *outer, length = x.shape
        rows = tuple(outer)
        define = target.definition
        exponential = target.table("exp", exp_table().astype(np.int16))
        reciprocals = target.table("reciprocal", reciprocal_table().astype(np.int16))
        factor = quantize_multiplier(_factor(node.attrs, node.inputs[0].type))

        def read(table: Tensor, value: Value) -> Value:
            at = (value >> 7) + 256
            base = int32(table[at])
            return base + (((int32(table[at + 1]) - base) * (value & 127) + 64) >> 7)

        largest = define.reduce(
            "largest",
            [("k", 0, length)],
            init=lambda *row: -32768,
            update=lambda acc, *at: maximum(acc, int32(x[at])),
            shape=rows,
            dtype="int32",
        )

        def exp(at: Sequence[Any]) -> Value:
            difference = int32(x[tuple(at)]) - largest[tuple(at[:-1])]
            scaled = intrinsic("requantize_tflm", difference, *factor)
            # Far outside the table, so that adding cannot wrap.
            bounded = clamp(scaled, -65535, 0) + 32767
            return read(exponential, clamp(bounded, -32768, 32767))

        total = define.reduce(
            "total",
            [("k", 0, length)],
            init=lambda *row: 0,
            update=lambda acc, *at: acc + exp(at),
            shape=rows,
            dtype="int32",
        )
        headroom = define.compute(
            "headroom",
            lambda *row: intrinsic("count_leading_zeros", total[row]),
            shape=rows,
            dtype="int32",
        )

        def scale(*row: Any) -> Value:
            # Rounded in two steps, which is the same, to stay in int32.
            raised = total[row] << (headroom[row] - 1)
            mantissa = ((raised >> 13) + 1) >> 1
            centred = clamp(mantissa - ((1 << 15) + (1 << 16)), -32768, 32767)
            return read(reciprocals, centred)

        reciprocal = define.compute("reciprocal_of_sum", scale, shape=rows, dtype="int32")

        def element(*at: Any) -> Any:
            row = at[:-1]
            product = exp(at) * reciprocal[row]
            # Nothing is negative here, where ties would go the other way.
            divided = intrinsic("rounding_divide_by_power_of_two", product, 31 - headroom[row])
            return cast(clamp(divided, 0, 32767), "int16")

        return target.compute("element", node.output.type.shape, "int16", element)


def _factor(attrs: SoftmaxInt16Attrs, x: TensorType) -> float:
    """Steps of the exponential's table to one step of the input."""
    return x.scalar_quant()[0] * attrs.beta / (DEEPEST / STEPS)
