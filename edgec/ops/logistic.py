"""logistic: 1 / (1 + exp(-x)), the sigmoid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec import float_math
from edgec.errors import TypeMismatch
from edgec.fixed_point import (
    IntArray,
    Rounding,
    logistic,
    quantize_multiplier,
    requantize_tflm,
    rounding_divide_by_power_of_two,
)
from edgec.graph.builder import GraphBuilder
from edgec.graph.op import RawNode, from_onnx, from_tflite, register
from edgec.graph.types import Array, Quant, TensorType
from edgec.loop.values import Value, intrinsic
from edgec.ops.table import ByTable, tflite_unary

#: Integer bits of the fixed-point argument in TFLite's logistic.h and tanh.h.
INPUT_INTEGER_BITS = 4
#: What TFLite's int8 logistic gives: all of 0..1 in 256 steps.
OUTPUT_QUANT = Quant((1 / 256,), (-128,))


@dataclass(frozen=True)
class LogisticAttrs:
    """output: quantization of an int8 result, None for floats.

    rounding: `tflm` and `single` are the same here; `onnx` is not defined yet.
    """

    output: Quant | None = None
    rounding: Rounding = "tflm"


def fixed_point_argument(values: IntArray, x: TensorType) -> tuple[IntArray, IntArray]:
    """(argument, side) of stored int8 values, for functions that level off at both ends.

    argument: int32 with INPUT_INTEGER_BITS. side: -1 or 1 where TFLite takes the function's limit
    because the argument would leave that range, else 0. Source: CalculateArithmeticOpDataLogistic
    and CalculateInputRadius.
    """
    scale, zero_point = x.scalar_quant()
    multiplier, shift = quantize_multiplier(scale * (1 << (31 - INPUT_INTEGER_BITS)))
    largest = ((1 << INPUT_INTEGER_BITS) - 1) * 2.0 ** (31 - INPUT_INTEGER_BITS)
    radius = int(largest / 2.0**shift)
    centred = values - zero_point
    side = np.where(centred <= -radius, -1, np.where(centred >= radius, 1, 0))
    inside = np.where(side == 0, centred, 0)
    return requantize_tflm(inside, np.asarray(multiplier), np.asarray(shift)), side


def check_argument(name: str, x: TensorType, output: Quant | None, wanted: Quant) -> None:
    """TypeMismatch for an output that TFLite's int8 kernel does not give, or too fine an input."""
    if output != wanted:
        raise TypeMismatch(
            f"int8 {name} needs the output scale {wanted.scale[0]!r} and zero point"
            f" {wanted.zero_point[0]}"
        )
    if x.scalar_quant()[0] * (1 << (31 - INPUT_INTEGER_BITS)) < 1:
        raise TypeMismatch(f"{name}: the input scale is under 2**-{31 - INPUT_INTEGER_BITS}")


@register
class Logistic(ByTable[LogisticAttrs]):
    """int8 as TFLite Micro, by gemmlowp's fixed-point logistic; floats by `float_math.sigmoid`."""

    name = "logistic"
    attrs_class = LogisticAttrs

    def check(self, attrs: LogisticAttrs, x: TensorType) -> None:
        """The output is always in steps of 1/256 from 0."""
        check_argument(self.name, x, attrs.output, OUTPUT_QUANT)

    def stored(self, attrs: LogisticAttrs, values: IntArray, x: TensorType) -> IntArray:
        """8 fraction bits, rounded half away from zero."""
        argument, side = fixed_point_argument(values, x)
        result = rounding_divide_by_power_of_two(logistic(argument, INPUT_INTEGER_BITS), 31 - 8)
        return np.where(side == 0, result - 128, np.where(side < 0, -128, 127))

    def of_floats(self, attrs: LogisticAttrs, x: Array) -> Array:
        """The function of a float32 array."""
        return float_math.sigmoid(x)

    def of_float(self, attrs: LogisticAttrs, x: Value) -> Value:
        """The same in a loop, in every bit."""
        return intrinsic("sigmoid_f32", x)


@from_tflite("LOGISTIC")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Any:
    """TFLite LOGISTIC of int8 or float32 values."""
    x, declared = tflite_unary(raw)
    attrs = LogisticAttrs(declared.quant, raw.rounding)  # type: ignore[arg-type]
    return builder.op("logistic", [x], attrs, name=raw.name)


@from_onnx("Sigmoid")
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Any:
    """ONNX Sigmoid of floats."""
    return builder.op("logistic", raw.inputs, LogisticAttrs(), name=raw.name)
