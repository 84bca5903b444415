"""logistic: 1 / (1 + exp(-x)), the sigmoid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value as GraphValue
from edgec.graph.operator import register
from edgec.graph.types import Quant, TensorType
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, intrinsic
from edgec.numerics import float_math
from edgec.numerics.fixed_point import (
    IntArray,
    Rounding,
    logistic,
    quantize_multiplier,
    requantize_tflm,
    rounding_divide_by_power_of_two,
)
from edgec.ops.op import RawNode, from_onnx, from_tflite
from edgec.ops.sigmoid_table import (
    ARGUMENT_BITS,
    Factor,
    SigmoidLoops,
    logistic_int16,
    scale_factor,
)
from edgec.ops.table import ByTable, tflite_unary
from edgec.ops.tflite_quantized import append_even_table

#: Integer bits of the fixed-point argument in TFLite's logistic.h and tanh.h.
INPUT_INTEGER_BITS = 4
#: The output of TFLite's int8 logistic: 0..1 in 256 intervals; and of its int16 functions.
OUTPUT_QUANT = Quant((1 / 256,), (-128,))
OUTPUT_QUANT_16 = Quant((1 / 32768,), (0,))


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


def input_factor(x: TensorType, powers: tuple[int, ...] = (0,)) -> Factor:
    """The factor from an int16 input to an index of the table.

    Scales of 2**(power - 12) have an exact factor. ValueError for a scale out of range.
    """
    scale, _ = x.scalar_quant()
    for power in powers:
        if scale == 2.0 ** (power - ARGUMENT_BITS):
            return 3 << power, 0
    return scale_factor(scale)


def check_argument(name: str, x: TensorType, output: Quant | None, wanted: Quant) -> None:
    """TypeMismatch for an output that TFLite's kernel does not have, or an input out of range."""
    if output != wanted:
        raise TypeMismatch(
            f"{x.dtype} {name} needs the output scale {wanted.scale[0]!r} and zero point"
            f" {wanted.zero_point[0]}"
        )
    if x.dtype == "int16":
        try:
            input_factor(x)
        except ValueError as error:
            raise TypeMismatch(f"{name}: {error}") from None
        return
    if x.scalar_quant()[0] * (1 << (31 - INPUT_INTEGER_BITS)) < 1:
        raise TypeMismatch(f"{name}: the input scale is under 2**-{31 - INPUT_INTEGER_BITS}")


@register
class Logistic(ByTable[LogisticAttrs]):
    """int8 as TFLite Micro, by gemmlowp's fixed-point logistic; int16; floats by `float_math`."""

    name = "logistic"
    attrs_class = LogisticAttrs
    tolerance = 5e-7
    onnx_name = "Sigmoid"
    dtypes = ("int8", "int16")

    def scale(self, attrs: LogisticAttrs, *scales: float) -> float:
        """Results near 0 may have the absolute error of results near 1: exp scales errors."""
        return 1.0

    def check(self, attrs: LogisticAttrs, x: TensorType) -> None:
        """The output is always in steps of 1/256 from 0."""
        wanted = OUTPUT_QUANT if x.dtype == "int8" else OUTPUT_QUANT_16
        check_argument(self.name, x, attrs.output, wanted)

    def stored(self, attrs: LogisticAttrs, values: IntArray, x: TensorType) -> IntArray:
        """In int8 rounded half away from zero; in int16 by TFLite\'s table."""
        if x.dtype == "int16":
            return logistic_int16(values, input_factor(x))
        argument, side = fixed_point_argument(values, x)
        result = rounding_divide_by_power_of_two(logistic(argument, INPUT_INTEGER_BITS), 31 - 8)
        return np.where(side == 0, result - 128, np.where(side < 0, -128, 127))

    def arithmetic(
        self, attrs: LogisticAttrs, x: TensorType, target: Lowering
    ) -> Callable[[Value], Value]:
        """The table in a loop."""
        loops, factor = SigmoidLoops(target), input_factor(x)
        return lambda value: loops.logistic(value, factor)

    def of_float(self, attrs: LogisticAttrs, x: Value) -> Value:
        """The function of a float32 value."""
        return intrinsic("sigmoid_f32", x)


@from_tflite("LOGISTIC")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """TFLite LOGISTIC of int8, int16 or float32 values."""
    x, declared = tflite_unary(raw)
    if raw.rounding == "single" and x.type.dtype == "int8":
        return append_even_table(lambda x: float(float_math.sigmoid(np.float32(x))), builder, raw)
    attrs = LogisticAttrs(declared.quant, raw.rounding)
    return builder.op("logistic", [x], attrs, name=raw.name)


@from_onnx("Sigmoid")
def import_onnx(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """ONNX Sigmoid of floats."""
    return builder.op("logistic", raw.operands(), LogisticAttrs(), name=raw.name)
