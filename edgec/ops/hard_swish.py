"""hard_swish: x * min(max(x + 3, 0), 6) / 6."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value as GraphValue
from edgec.graph.operator import register
from edgec.graph.types import Quant, TensorType
from edgec.loop.values import Value, clamp
from edgec.numerics.fixed_point import (
    IntArray,
    Rounding,
    quantize_multiplier,
    rounding_divide_by_power_of_two,
)
from edgec.ops.op import RawNode, from_onnx, from_tflite
from edgec.ops.table import ByTable, tflite_unary

_INT16_MIN, _INT16_MAX = -(1 << 15), (1 << 15) - 1

#: Bits by which TFLite raises 8-bit operands (hard_swish.h).
RAISED_BITS = 7


@dataclass(frozen=True)
class HardSwishAttrs:
    """output: quantization of an int8 result, None for floats.

    rounding: `tflm` and `single` are the same here; `onnx` is not defined yet.
    """

    output: Quant | None = None
    rounding: Rounding = "tflm"


def _short_multiplier(real: float) -> tuple[int, int]:
    """(15-bit multiplier, exponent). Source: DownScaleInt32ToInt16Multiplier."""
    multiplier, shift = quantize_multiplier(real)
    return min((multiplier + (1 << 15)) >> 16, _INT16_MAX), shift


def _limited(x: IntArray) -> IntArray:
    return np.clip(x, _INT16_MIN, _INT16_MAX)


def _rounding_multiply(x: IntArray, multiplier: int) -> IntArray:
    """gemmlowp's SaturatingRoundingDoublingHighMul of int16."""
    product = x * multiplier
    nudged = product + np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    return _limited(np.where(nudged >= 0, nudged >> 15, -(-nudged >> 15)))


def _truncating_multiply(a: IntArray, b: IntArray) -> IntArray:
    """TFLite's SaturatingDoublingHighMul of int16."""
    product = a * b
    return _limited(np.where(product >= 0, product >> 15, -(-product >> 15)))


def _scales(x: TensorType, output: Quant) -> tuple[float, float]:
    """Real factors from raised operands to the output, and to 3 / 2**15; in float32.

    Source: HardSwishPrepare of TFLite Micro.
    """
    single = np.float32
    raised = single(1 / (1 << RAISED_BITS)) * single(x.scalar_quant()[0])
    return (
        float(raised / single(output.scale[0])),
        float(raised / single(single(3) / single(1 << 15))),
    )


@register
class HardSwish(ByTable[HardSwishAttrs]):
    """int8 as TFLite Micro, in 16-bit fixed point; floats from left to right."""

    name = "hard_swish"
    attrs_class = HardSwishAttrs
    tolerance = 5e-7
    onnx_name = "HardSwish"

    def check(self, attrs: HardSwishAttrs, x: TensorType) -> None:
        """TFLite's kernel can only shift results right."""
        assert attrs.output is not None
        if _short_multiplier(_scales(x, attrs.output)[0])[1] > 0:
            raise TypeMismatch("hard_swish: the output scale is too small for the input scale")

    def stored(self, attrs: HardSwishAttrs, values: IntArray, x: TensorType) -> IntArray:
        """Source: HardSwish in TFLite's hard_swish.h."""
        assert attrs.output is not None
        raised = (values - x.scalar_quant()[1]) << RAISED_BITS
        to_output, to_gate = _scales(x, attrs.output)
        multiplier, exponent = _short_multiplier(to_output)
        scaled = _rounding_multiply(raised, multiplier)

        # The gate (x + 3) / 6 from 0 to 1, with 15 fraction bits.
        factor, shift = _short_multiplier(to_gate)
        gate = raised
        if shift > 0:
            gate = _limited(gate << (shift - 1))
        gate = _rounding_multiply(gate, factor)
        if shift > 0:
            gate = _limited(gate << 1)
        if shift < 0:
            gate = rounding_divide_by_power_of_two(gate, -shift)
        gate = (gate + (1 << 15)) >> 1

        product = _truncating_multiply(gate, scaled)
        result = rounding_divide_by_power_of_two(product, -exponent)
        return result + attrs.output.zero_point[0]

    def of_float(self, attrs: HardSwishAttrs, x: Value) -> Value:
        """The function of a float32 value."""
        return x * clamp(x + 3.0, 0.0, 6.0) / 6.0


@from_tflite("HARD_SWISH")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """TFLite HARD_SWISH of int8 or float32 values."""
    x, declared = tflite_unary(raw)
    attrs = HardSwishAttrs(declared.quant, raw.rounding)
    return builder.op("hard_swish", [x], attrs, name=raw.name)


@from_onnx("HardSwish")
def import_onnx(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """ONNX HardSwish of floats."""
    return builder.op("hard_swish", raw.operands(), HardSwishAttrs(), name=raw.name)
