"""softmax: exp(beta * x) over the last axis, divided by its sum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, Operator, get_op, register
from edgec.graph.traits import IntegerForm, StoredAs
from edgec.graph.types import Array, Quant, TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import cast, clamp, index, int32, intrinsic, maximum, minimum, select
from edgec.numerics.fixed_point import (
    INT32_MAX,
    IntArray,
    Rounding,
    exp_on_negative_values,
    one_over_one_plus_x,
    quantize_multiplier,
    rounding_divide_by_power_of_two,
    rounding_doubling_high_multiply,
)
from edgec.ops.broadcast import tensors_of
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.op import Op, RawNode, from_onnx, from_tflite
from edgec.ops.softmax_float import LONG_ROW_TOLERANCE, along_last_axis, is_long, lower_rows
from edgec.ops.softmax_int16 import OUTPUT_QUANT as INT16_QUANT
from edgec.ops.softmax_int16 import SoftmaxInt16, SoftmaxInt16Attrs
from edgec.ops.softmax_rounded import ROUNDED, rounded_softmax

#: Fixed-point formats of TFLite's softmax.h: differences, and the sum of exponentials.
DIFF_INTEGER_BITS = 5
SUM_INTEGER_BITS = 12

#: The output of TFLite's softmax, by dtype: 0..1 in this many bits.
OUTPUT_BITS = {"int8": 8, "int16": 16}
OUTPUT_QUANTS = {
    dtype: Quant((2.0**-bits,), (-(1 << (bits - 1)),)) for dtype, bits in OUTPUT_BITS.items()
}
OUTPUT_QUANT = OUTPUT_QUANTS["int8"]
#: Rows of this many elements have one difference.
PAIR = 2
#: A file may round the output's scale by this part of it.
SCALE_TOLERANCE = 0.001


@dataclass(frozen=True)
class SoftmaxAttrs:
    """beta: factor of the input. output, dtype: of an integer result, None for floats.

    rounding: `tflm` and `single` are the same here; `onnx` is not defined yet.
    """

    beta: float = 1.0
    output: Quant | None = None
    rounding: Rounding = "tflm"
    dtype: str = "int8"


def _is_whole_range(quant: Quant | None, dtype: str) -> bool:
    """Whether a result covers 0..1; as near as TFLite Micro asks for."""
    if quant is None or not quant.per_tensor or dtype not in OUTPUT_QUANTS:
        return False
    (scale,), zero_points = OUTPUT_QUANTS[dtype].scale, OUTPUT_QUANTS[dtype].zero_point
    near = abs(quant.scale[0] - scale) <= SCALE_TOLERANCE * scale
    return near and quant.zero_point == zero_points


def scaled_multiplier(beta: float, input_scale: float) -> float:
    """Real factor from an int8 difference to fixed point with DIFF_INTEGER_BITS.

    Source: TFLite's PreprocessSoftmaxScaling.
    """
    return min(beta * input_scale * (1 << (31 - DIFF_INTEGER_BITS)), 2.0**31 - 1)


def exp_table(beta: float, input_scale: float) -> IntArray:
    """table[d] = exp(-d * beta * scale) for d = max - x in 0..255, with 31 fraction bits.

    0 where TFLite omits the element from the sum (its difference is under diff_min); that element's
    result is 0 too.
    """
    # With a shift of 31 the largest element alone is counted, so that nothing is shifted by it.
    multiplier, shift = quantize_multiplier(scaled_multiplier(beta, input_scale), 31)
    # Source: TFLite's CalculateInputRadius.
    radius = math.floor(
        ((1 << DIFF_INTEGER_BITS) - 1) * 2.0 ** (31 - DIFF_INTEGER_BITS) / 2.0**shift
    )
    difference = -np.arange(256, dtype=np.int64)
    counted = difference >= -radius
    raised = np.where(counted, difference << shift, 0)
    scaled = rounding_doubling_high_multiply(raised, multiplier)
    return np.where(counted, exp_on_negative_values(scaled, DIFF_INTEGER_BITS), 0)


def count_leading_zeros(x: IntArray) -> IntArray:
    """Leading zero bits of 0 < x < 2**31 as an unsigned 32-bit number."""
    # frexp returns the exact bit length, as x is below 2**53.
    return 32 - np.frexp(x.astype(np.float64))[1].astype(np.int64)


def shares(differences: IntArray, table: IntArray, dtype: str) -> Array:
    """Results of rows of differences to their largest element, with the `exp_table` of these."""
    exps = table[differences]
    terms = rounding_divide_by_power_of_two(exps, SUM_INTEGER_BITS)
    total = terms.sum(axis=-1, keepdims=True)
    headroom = count_leading_zeros(total)
    reciprocal = one_over_one_plus_x((total << headroom) - (1 << 31))
    bits = OUTPUT_BITS[dtype]
    # The exponent passes 31 only where every result is 0.
    exponent = SUM_INTEGER_BITS - headroom + 31 - bits
    scaled = rounding_divide_by_power_of_two(
        rounding_doubling_high_multiply(reciprocal, exps), exponent
    )
    half = 1 << (bits - 1)
    return np.clip(scaled - half, -half, half - 1).astype(dtype)


def pair_table(exps: IntArray, dtype: str) -> Array:
    """table[d + 255]: the first result of a row of two elements whose difference is d."""
    difference = np.arange(-255, 256, dtype=np.int64)
    to_largest = np.stack([np.maximum(-difference, 0), np.maximum(difference, 0)], axis=-1)
    return shares(to_largest, exps, dtype)[:, 0]


@register
class Softmax(Op[SoftmaxAttrs]):
    """int8 with TFLite's fixed-point exponential, or float32."""

    name = "softmax"
    attrs_class = SoftmaxAttrs
    fusion = Fusion.OPAQUE
    tolerance = 5e-7
    normalizes = True
    approximates = True
    integer_form = IntegerForm.ONE_OPERAND
    along_last_axis = True

    def tolerance_of(self, inputs: Types) -> float:
        """Long rows have the tolerance of sums, whose order differs between frameworks."""
        return LONG_ROW_TOLERANCE if is_long(inputs[0].shape[-1]) else self.tolerance

    def infer(self, attrs: SoftmaxAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The input's shape with the output's quantization."""
        (x,) = inputs
        if not x.shape or x.elements < 1:
            raise TypeMismatch("softmax needs at least one element")
        if x.dtype == "float32":
            return (TensorType(x.shape, x.dtype),)
        if x.dtype != "int8" or x.quant is None or not x.quant.per_tensor:
            raise TypeMismatch(f"softmax needs int8 quantized per tensor or float32, not {x}")
        if attrs.rounding not in ("tflm", "single"):
            raise TypeMismatch(f"softmax with rounding {attrs.rounding!r} is not defined")
        if not _is_whole_range(attrs.output, attrs.dtype):
            raise TypeMismatch(
                "int8 softmax needs the output scale 1/256 and zero point -128, or int16 with"
                " 1/65536 and -32768"
            )
        if scaled_multiplier(attrs.beta, x.quant.scale[0]) <= 1:
            raise TypeMismatch("softmax: beta times the input scale is under 2**-26")
        if x.shape[-1] * (1 << (31 - SUM_INTEGER_BITS)) > INT32_MAX:
            raise TypeMismatch(f"softmax over {x.shape[-1]} elements: at most 4095 are possible")
        return (TensorType(x.shape, attrs.dtype, attrs.output),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Exponentials of the 256 possible differences are a table; the rest is per row.

        Of two elements the whole result is, for the 511 differences of one to the other.
        """
        attrs: SoftmaxAttrs = node.attrs
        (x,) = tensors_of(inputs)
        if node.output.type.is_float:
            return lower_rows(
                node, target, x, attrs.beta, lambda value, sum_: intrinsic("exp_f32", value) / sum_
            )
        *outer, length = x.shape
        numbers = exp_table(attrs.beta, node.inputs[0].type.scalar_quant()[0])
        if length == PAIR:
            return _lower_pairs(node, target, x, pair_table(numbers, attrs.dtype))
        exps = target.table("exp", numbers.astype(np.int32))
        rows = tuple(outer)
        bits = OUTPUT_BITS[attrs.dtype]
        define = target.definition

        largest = define.reduce(
            "largest", [("k", 0, length)], init=lambda *row: -128,
            update=lambda acc, *at: maximum(acc, int32(x[at])), shape=rows, dtype="int32",
        )  # fmt: skip
        total = define.reduce(
            "total",
            [("k", 0, length)],
            init=lambda *row: 0,
            update=lambda acc, *at: (
                acc
                + intrinsic(
                    "rounding_divide_by_power_of_two",
                    exps[largest[at[:-1]] - int32(x[at])],
                    SUM_INTEGER_BITS,
                )
            ),
            shape=rows,
            dtype="int32",
        )
        headroom = define.compute(
            "headroom", lambda *row: intrinsic("count_leading_zeros", total[row]), shape=rows,
            dtype="int32",
        )  # fmt: skip
        # (total << headroom) - 2**31 in 32 bits: the subtraction clears the sign bit.
        reciprocal = define.compute(
            "reciprocal",
            lambda *row: intrinsic(
                "one_over_one_plus_x", (total[row] << headroom[row]) ^ -(1 << 31)
            ),
            shape=rows,
            dtype="int32",
        )

        def element(*at: Any) -> Any:
            row = at[:-1]
            scaled = intrinsic(
                "rounding_doubling_high_multiply",
                reciprocal[row],
                exps[largest[row] - int32(x[at])],
            )
            exponent = (SUM_INTEGER_BITS + 31 - bits) - headroom[row]
            divided = intrinsic("rounding_divide_by_power_of_two", scaled, minimum(exponent, 31))
            if length > 1 << bits:  # only then can the exponent pass 31; every result is 0 there
                divided = select(exponent > 31, 0, divided)
            half = 1 << (bits - 1)
            return cast(clamp(divided - half, -half, half - 1), attrs.dtype)

        return target.compute("element", node.output.type.shape, attrs.dtype, element)

    def integer_op(self, dtype: str) -> Operator[Any]:
        """TFLite's tables of int16 are an operator of their own."""
        return get_op(SoftmaxInt16) if dtype == "int16" else self

    def fixed_quant(self, dtype: str) -> Quant | None:
        """All of 0..1."""
        return OUTPUT_QUANT if dtype == "int8" else INT16_QUANT

    def attrs_for_integers(self, attrs: SoftmaxAttrs, inputs: Types, result: StoredAs) -> Any:
        """The attributes of TFLite's fixed point, for any rounding, with its parameters alone."""
        if result.quant != self.fixed_quant(result.dtype) or not result.is_whole:
            return None
        if result.dtype == "int16":
            return SoftmaxInt16Attrs(attrs.beta)
        return SoftmaxAttrs(attrs.beta, result.quant, "tflm", result.dtype)

    def error_growth(self, attrs: SoftmaxAttrs, inputs: int, reach: float) -> float:
        """An error of every input at once may count twice."""
        return 2 * max(reach, 1.0)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """Softmax, which has no beta."""
        if node.attrs.beta != 1.0:
            raise ImportFailed(f"softmax with beta {node.attrs.beta} cannot be written as ONNX")
        out.emit("Softmax", [out.own(node.inputs[0])], out.define_own(node.output), axis=-1)


def _lower_pairs(node: Node, target: Lowering, x: Tensor, numbers: Array) -> Tensor:
    """Rows of two by their `pair_table`."""
    table = target.table("pair", numbers)
    difference = target.definition.compute(
        "difference",
        lambda *row: int32(x[(*row, 0)]) - int32(x[(*row, 1)]),
        shape=x.shape[:-1],
        dtype="int32",
    )

    def element(*at: Any) -> Any:
        sign = index(1 - 2 * at[-1])
        return table[difference[at[:-1]] * sign + 255]

    return target.compute("element", node.output.type.shape, node.output.type.dtype, element)


@from_tflite("SOFTMAX")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite SOFTMAX of int8 values to int8 or int16, of int16, or of float32."""
    declared = raw.output_types[0]
    if declared is None:
        raise ImportFailed("an input is absent")
    if raw.operand(0).type.dtype == "float32":
        return builder.op(
            "softmax", raw.operands(), SoftmaxAttrs(raw.attribute("beta")), name=raw.name
        )
    if (raw.operand(0).type.dtype, declared.dtype) == ("int16", "int16"):
        wide = SoftmaxInt16Attrs(raw.attribute("beta"))
        return builder.op("softmax_int16", raw.operands(), wide, name=raw.name)
    if raw.operand(0).type.dtype != "int8" or declared.dtype not in OUTPUT_BITS:
        raise ImportFailed(f"{raw.operand(0).type.dtype} to {declared.dtype}: only int8 yet")
    attrs = SoftmaxAttrs(
        raw.attribute("beta"), declared.quant,
        raw.rounding,
        declared.dtype,
    )  # fmt: skip
    return builder.op("softmax", raw.operands(), attrs, name=raw.name)


@from_onnx("Softmax")
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Softmax of floats."""
    if raw.operand(0).type.dtype in ROUNDED and raw.opset >= 13:
        return rounded_softmax(builder, raw)
    return along_last_axis(builder, raw, "softmax", SoftmaxAttrs())
