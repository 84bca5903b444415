"""tanh: the hyperbolic tangent."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value as GraphValue
from edgec.graph.operator import register
from edgec.graph.types import Quant, TensorType
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, intrinsic
from edgec.numerics.fixed_point import IntArray, Rounding, rounding_divide_by_power_of_two, tanh
from edgec.ops.logistic import (
    INPUT_INTEGER_BITS,
    OUTPUT_QUANT_16,
    check_argument,
    fixed_point_argument,
    input_factor,
)
from edgec.ops.op import RawNode, from_onnx, from_tflite
from edgec.ops.sigmoid_table import SigmoidLoops, tanh_int16
from edgec.ops.table import ByTable, tflite_unary
from edgec.ops.tflite_quantized import append_even_table

#: The output of TFLite's int8 tanh: -1..1 in units of 1/128.
OUTPUT_QUANT = Quant((1 / 128,), (0,))
#: Powers of two times 2**-12 that have an exact factor as scales of an int16 input.
POWERS = (0, 1)


@dataclass(frozen=True)
class TanhAttrs:
    """output: quantization of an int8 result, None for floats.

    rounding: `tflm` and `single` are the same here; `onnx` is not defined yet.
    """

    output: Quant | None = None
    rounding: Rounding = "tflm"


@register
class Tanh(ByTable[TanhAttrs]):
    """int8 as TFLite Micro, by gemmlowp's fixed-point tanh; floats by `float_math.tanh`."""

    name = "tanh"
    attrs_class = TanhAttrs
    tolerance = 5e-7
    onnx_name = "Tanh"
    dtypes = ("int8", "int16")

    def check(self, attrs: TanhAttrs, x: TensorType) -> None:
        """The output is always in steps of 1/128."""
        wanted = OUTPUT_QUANT if x.dtype == "int8" else OUTPUT_QUANT_16
        check_argument(self.name, x, attrs.output, wanted)

    def stored(self, attrs: TanhAttrs, values: IntArray, x: TensorType) -> IntArray:
        """In int8 rounded half away from zero; in int16 by TFLite\'s table."""
        if x.dtype == "int16":
            return tanh_int16(values, input_factor(x, POWERS))
        argument, side = fixed_point_argument(values, x)
        result = rounding_divide_by_power_of_two(tanh(argument, INPUT_INTEGER_BITS), 31 - 7)
        return np.where(side == 0, result, np.where(side < 0, -128, 127))

    def arithmetic(
        self, attrs: TanhAttrs, x: TensorType, target: Lowering
    ) -> Callable[[Value], Value]:
        """The table in a loop."""
        loops, factor = SigmoidLoops(target), input_factor(x, POWERS)
        return lambda value: loops.tanh(value, factor)

    def of_float(self, attrs: TanhAttrs, x: Value) -> Value:
        """The function of a float32 value."""
        return intrinsic("tanh_f32", x)


@from_tflite("TANH")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """TFLite TANH of int8, int16 or float32 values."""
    x, declared = tflite_unary(raw)
    if raw.rounding == "single" and x.type.dtype == "int8":
        return append_even_table(math.tanh, builder, raw)
    attrs = TanhAttrs(declared.quant, raw.rounding)
    return builder.op("tanh", [x], attrs, name=raw.name)


@from_onnx("Tanh")
def import_onnx(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """ONNX Tanh of floats."""
    return builder.op("tanh", raw.operands(), TanhAttrs(), name=raw.name)
