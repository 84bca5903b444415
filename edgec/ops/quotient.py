"""quotient: a / b of stored integers, element by element after broadcasting.

In the fixed point of TFLite's DIV: the reciprocal of the divisor by Newton's method, the dividend
raised by its free bits, and one more product with the scales' factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node
from edgec.graph.ir import Value as GraphValue
from edgec.graph.operator import Fusion, register
from edgec.graph.types import Quant, TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, cast, clamp, int32, intrinsic, maximum, minimum, select
from edgec.numerics.fixed_point import quantize_multiplier
from edgec.ops.activation import activation_range, check_range
from edgec.ops.broadcast import broadcast_index, broadcast_shape, operand_tensors
from edgec.ops.op import Op, RawNode
from edgec.ops.row import OF_STORED

#: Factor that moves any difference of stored integers to their limits.
BEYOND = 1 << 15
#: Shifts from here on leave nothing of an int32.
ALL_BITS = 32


@dataclass(frozen=True)
class QuotientAttrs:
    """output: quantization of the quotient. minimum, maximum: inclusive range of stored values."""

    output: Quant
    minimum: int = -128
    maximum: int = 127


@register
class Quotient(Op[QuotientAttrs]):
    """int8 or int16, each quantized per tensor.

    TFLite leaves two cases open. x / 0 is the limit of the quotient, and 0 / 0 is 0. A shift by
    more than 31 bits results in 0.
    """

    name = "quotient"
    attrs_class = QuotientAttrs
    fusion = Fusion.BROADCAST
    clamps = True
    rescales = True
    approximates = True

    def infer(self, attrs: QuotientAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The broadcast shape with the output's quantization."""
        a, b = inputs
        shape = broadcast_shape("quotient", inputs)
        if a.dtype not in ("int8", "int16") or a.dtype != b.dtype:
            raise TypeMismatch(f"quotient needs int8 or int16, not {a} and {b}")
        if any(q is None or not q.per_tensor for q in (a.quant, b.quant, attrs.output)):
            raise TypeMismatch(f"quotient needs quantization per tensor, not {a} and {b}")
        check_range(a, attrs.minimum, attrs.maximum)
        _, shift = _factor(attrs, inputs)
        if shift > _least_shift(a.dtype):
            raise TypeMismatch("quotient: the output scale is too small for the input scales")
        return (TensorType(shape, a.dtype, attrs.output),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Element by element; a dimension of extent 1 is read again for every index."""
        attrs: QuotientAttrs = node.attrs
        operands, output = operand_tensors(target, inputs), node.output.type
        zeros = [type_.scalar_quant()[1] for type_ in node.input_types]
        multiplier, shift = _factor(attrs, node.input_types)
        zero_point = attrs.output.zero_point[0]

        def element(*at: Any) -> Value:
            a, b = (
                int32(x[broadcast_index(x.shape, at)]) - zero
                for x, zero in zip(operands, zeros, strict=True)
            )
            a, size = select(b < 0, 0 - a, a), maximum(b, 0 - b)
            lead, free = intrinsic("count_leading_zeros", maximum(size, 1)), _free_bits(a)
            raised = (maximum(size, 1) << lead) ^ -(1 << 31)
            inverse = intrinsic("one_over_one_plus_x", raised)
            quotient = intrinsic("rounding_doubling_high_multiply", a << free, inverse)
            product = intrinsic("rounding_doubling_high_multiply", quotient, multiplier)
            down = 31 - lead + free - shift
            scaled = intrinsic("rounding_divide_by_power_of_two", product, minimum(down, 31))
            stored = select(down >= ALL_BITS, 0, scaled) + zero_point
            chosen = select(size.equals(0), a * BEYOND + zero_point, stored)
            return cast(clamp(chosen, attrs.minimum, attrs.maximum), output.dtype)

        return target.compute("element", output.shape, output.dtype, element)


def _factor(attrs: QuotientAttrs, inputs: Types) -> tuple[int, int]:
    """(multiplier, shift) of the scales. Source: TFLite's CalculateOpData of DIV, in float32."""
    (first, _), (second, _) = (x.scalar_quant() for x in inputs)
    divisor = np.float32(second) * np.float32(attrs.output.scale[0])
    with np.errstate(over="ignore", divide="ignore"):
        ratio = float(np.float32(first) / divisor)
    if not 0 < ratio < 2.0**30:
        raise TypeMismatch(f"quotient: a factor of {ratio} between scales")
    return quantize_multiplier(ratio)


def _least_shift(dtype: str) -> int:
    """The most that a shift may be: free bits and the reciprocal's leave no fewer to shift by."""
    return 31 - (8 * np.dtype(dtype).itemsize)


def _free_bits(x: Value) -> Value:
    """Number of bits after the sign that equal it."""
    bits = x ^ (x >> 31)
    return select(bits.equals(0), 31, intrinsic("count_leading_zeros", maximum(bits, 1)) - 1)


def append_quotient(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """TFLite DIV of quantized tensors with its fused activation."""
    declared = raw.declared()
    low, high = activation_range(raw.attribute("fused_activation", "NONE"), declared)
    assert declared.quant is not None
    attrs = QuotientAttrs(declared.quant, low, high)
    return builder.op("quotient", raw.operands(2), attrs, name=raw.name)


OF_STORED["DIV"] = append_quotient
