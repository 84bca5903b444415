"""prelu: x where it is positive, alpha * x elsewhere; alpha is a tensor that broadcasts.

Integers with rounding `onnx` equal a PRelu between DequantizeLinear and QuantizeLinear, which ONNX
Runtime computes in float32, one operation after the other. Loops compute the same result in
integers, checked on all operands (`edgec.ops.slope_line`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node
from edgec.graph.ir import Value as GraphValue
from edgec.graph.operator import AttrsT, Fusion, NoAttrs, register
from edgec.graph.traits import IntegerForm, StoredAs
from edgec.graph.types import Array, Quant, TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import (
    Value,
    cast,
    clamp,
    float32,
    int32,
    intrinsic,
    maximum,
    minimum,
    round_half_even,
    saturate,
    select,
)
from edgec.numerics.fixed_point import Rounding, check_factors, quantize_multiplier
from edgec.ops.broadcast import broadcast_index, broadcast_shape, operand_tensors
from edgec.ops.op import Op, RawNode, from_onnx, from_tflite
from edgec.ops.quantize import Dequantize, Quantize, QuantizeAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.slope_line import find_slope_line
from edgec.ops.table import OPERANDS


@dataclass(frozen=True)
class PreluAttrs:
    """output: quantization of an integer result, None for floats.

    rounding: see `edgec.numerics.fixed_point`.
    """

    output: Quant | None = None
    rounding: Rounding = "tflm"


def _multipliers(inputs: Types, output: Quant) -> tuple[float, float]:
    """Real factors of x and of x * alpha, in double. Source: CalculatePreluParams."""
    (x, _), (alpha, _) = (type_.scalar_quant() for type_ in inputs)
    return x / output.scale[0], x * alpha / output.scale[0]


@register
class Prelu(Op[PreluAttrs]):
    """x int8 or int16 and alpha int8 or like x, quantized per tensor, or both float32."""

    name = "prelu"
    attrs_class = PreluAttrs
    fusion = Fusion.BROADCAST
    onnx_name = "PRelu"
    integer_form = IntegerForm.OPERANDS
    rescales = True
    keeps_factors = True

    def infer(self, attrs: PreluAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The shape of x with the output's quantization."""
        x, alpha = inputs
        if broadcast_shape("prelu", inputs) != x.shape:
            raise TypeMismatch(f"prelu of {list(x.shape)} by {list(alpha.shape)}")
        if x.dtype == alpha.dtype == "float32":
            return (TensorType(x.shape, x.dtype),)
        stored = ("int8",) if attrs.rounding == "onnx" else ("int8", "int16")
        slopes = ("int8", x.dtype)
        if x.dtype not in stored or alpha.dtype not in slopes or attrs.output is None:
            known = " or ".join((*stored, "float32"))
            raise TypeMismatch(f"prelu needs quantized {known}, not {x} and {alpha}")
        quants = (x.quant, alpha.quant, attrs.output)
        if not all(quant is not None and quant.per_tensor for quant in quants):
            raise TypeMismatch("prelu needs quantization per tensor")
        if attrs.rounding not in ("tflm", "single", "onnx"):
            raise TypeMismatch(f"prelu with rounding {attrs.rounding!r} is not defined")
        check_factors(_multipliers(inputs, attrs.output), attrs.rounding)
        return (TensorType(x.shape, x.dtype, attrs.output),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Element by element; a dimension of extent 1 of alpha is read again for every index."""
        attrs: PreluAttrs = node.attrs
        shape, dtype = node.output.type.shape, node.output.type.dtype
        if attrs.rounding == "onnx" and attrs.output is not None:
            of_constants = _lowered_constants(node, target, inputs)
            if of_constants is not None:
                return target.compute("element", shape, dtype, of_constants)
        x, alpha = operand_tensors(target, inputs)

        def element(*at: Any) -> Any:
            value, slope = x[at], alpha[broadcast_index(alpha.shape, at)]
            if attrs.output is None:
                return select(value >= 0, value, value * slope)
            if attrs.rounding == "onnx":
                return _onnx_element(value, slope, node.input_types, attrs.output)
            (_, x_zero), (_, alpha_zero) = (type_.scalar_quant() for type_ in node.input_types)
            factors = _multipliers(node.input_types, attrs.output)
            centred = int32(value) - x_zero
            name = f"requantize_{attrs.rounding}"
            positive = intrinsic(name, centred, *quantize_multiplier(factors[0]))
            negative = intrinsic(
                name, centred * (int32(slope) - alpha_zero), *quantize_multiplier(factors[1])
            )
            result = select(centred >= 0, positive, negative) + attrs.output.zero_point[0]
            return saturate(result, dtype)

        return target.compute("element", shape, dtype, element)

    def attrs_for_integers(
        self, attrs: PreluAttrs, inputs: Types, result: StoredAs
    ) -> PreluAttrs | None:
        """PReLU has no bounds."""
        return PreluAttrs(result.quant, result.rounding) if result.is_whole else None


def _onnx_results(output: Quant, inputs: Sequence[Array], types: Types) -> Array:
    """Stored results as ONNX Runtime computes them: both operands, the product, the quotient."""
    with np.errstate(over="ignore", invalid="ignore"):
        x, alpha = (
            _one(Dequantize(), NoAttrs(), stored, type_.with_shape(stored.shape))
            for stored, type_ in zip(inputs, types, strict=True)
        )
        real = np.where(x > 0, x, x * alpha)
        return _one(Quantize(), QuantizeAttrs(output), real, TensorType(real.shape, "float32"))


def _one(op: Op[AttrsT], attrs: AttrsT, array: Array, type_: TensorType) -> Array:
    """The result of an operator of one input."""
    (found,) = op.evaluate(attrs, [array], [type_], op.infer(attrs, type_))
    return found


def _lowered_constants(
    node: Node, target: Lowering, inputs: Sequence[Any]
) -> Callable[..., Value] | None:
    """An element with rounding `onnx` and constant slopes: a line, or a table for each slope.

    None if slopes are not constant.
    """
    x, alpha = inputs
    attrs: PreluAttrs = node.attrs
    if not isinstance(alpha, Constant) or attrs.output is None:
        return None
    (_, x_zero), (_, alpha_zero) = (type_.scalar_quant() for type_ in node.input_types)
    slopes, place = np.unique(alpha.data, return_inverse=True)
    place = place.reshape(alpha.data.shape)
    results = _onnx_results(
        attrs.output, [OPERANDS.astype(np.int8)[:, None], slopes], node.input_types
    )
    rise, fall = _multipliers(node.input_types, attrs.output)
    line = find_slope_line(
        OPERANDS - x_zero,
        results.astype(np.int64),
        (rise, fall * (slopes.astype(np.float64) - alpha_zero)),
        attrs.output.zero_point[0],
    )
    if line is None:
        table = target.table("results", np.ascontiguousarray(results.T))
        which = target.table("slope", place.astype(np.int32))
        return lambda *at: table[which[broadcast_index(which.shape, at)], int32(x[at]) + 128]
    found = line
    factors = target.table("multiplier", found.negative.astype(np.int32)[place])

    def element(*at: Any) -> Value:
        centred = int32(x[at]) - x_zero
        factor = factors[broadcast_index(factors.shape, at)]
        product = centred * select(centred >= 0, found.positive, factor)
        total = product + found.start
        if found.to_even:
            total = total + (product >> found.shift & 1)
        return cast(clamp(total >> found.shift, -128, 127), "int8")

    return element


def _onnx_element(x: Value, alpha: Value, types: Types, output: Quant) -> Value:
    """`_onnx_results` of one element, computed in floats, for a slope that is not constant."""
    zero_point = output.zero_point[0]
    low, high = -128.0 - zero_point, 127.0 - zero_point
    real, slope = (
        float32(int32(stored) - type_.scalar_quant()[1]) * type_.scalar_quant()[0]
        for stored, type_ in zip((x, alpha), types, strict=True)
    )
    ratio = select(real > 0, real, real * slope) / output.scale[0]
    limited = minimum(maximum(ratio, low), high)
    return cast(round_half_even(limited, max(-low, high)) + zero_point, "int8")


@from_onnx("PRelu")
def import_onnx(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """ONNX PRelu; its slope broadcasts to x, aligned at the last axes."""
    x, slope = raw.operands(2)
    missing = len(x.type.shape) - len(slope.type.shape)
    if missing > 0:
        shape = ReshapeAttrs((*(1 for _ in range(missing)), *slope.type.shape))
        if isinstance(slope, Constant):
            slope = builder.constant(f"{raw.name}.slope", slope.data.reshape(shape.shape))
        else:
            slope = builder.op("reshape", [slope], shape, name=f"{raw.name}/slope", sources=())
    return builder.op("prelu", [x, slope], PreluAttrs(), name=raw.name)


@from_tflite("PRELU")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """TFLite PRELU; alpha is mostly a constant with one number for each channel."""
    declared = raw.output_types[0]
    if declared is None:
        raise ImportFailed("an input is absent")
    output = None if declared.is_float else declared.quant
    attrs = PreluAttrs(output, raw.rounding)
    return builder.op("prelu", raw.operands(), attrs, name=raw.name)
