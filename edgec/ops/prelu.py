"""prelu: x where it is positive, alpha * x elsewhere; alpha is a tensor that broadcasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.fixed_point import Rounding, quantize_multiplier, requantize
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node
from edgec.graph.op import Fusion, Op, RawNode, from_onnx, from_tflite, register
from edgec.graph.types import Array, Quant, TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import cast, clamp, int32, intrinsic, select
from edgec.ops.broadcast import broadcast_index, broadcast_shape, operand_tensors
from edgec.ops.reshape import ReshapeAttrs


@dataclass(frozen=True)
class PreluAttrs:
    """output: quantization of an int8 result, None for floats.

    rounding: see `edgec.fixed_point`; `onnx` is not defined yet.
    """

    output: Quant | None = None
    rounding: Rounding = "tflm"


def _multipliers(inputs: Sequence[TensorType], output: Quant) -> tuple[float, float]:
    """Real factors of x and of x * alpha, in double. Source: CalculatePreluParams."""
    (x, _), (alpha, _) = (type_.scalar_quant() for type_ in inputs)
    return x / output.scale[0], x * alpha / output.scale[0]


@register
class Prelu(Op[PreluAttrs]):
    """x and alpha int8 quantized per tensor, or float32."""

    name = "prelu"
    attrs_class = PreluAttrs
    fusion = Fusion.BROADCAST

    def infer(self, attrs: PreluAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The shape of x with the output's quantization."""
        x, alpha = inputs
        if broadcast_shape("prelu", inputs) != x.shape:
            raise TypeMismatch(f"prelu of {list(x.shape)} by {list(alpha.shape)}")
        if x.dtype == alpha.dtype == "float32":
            return (TensorType(x.shape, x.dtype),)
        if x.dtype != "int8" or alpha.dtype != "int8" or attrs.output is None:
            raise TypeMismatch(f"prelu needs quantized int8 or float32, not {x} and {alpha}")
        quants = (x.quant, alpha.quant, attrs.output)
        if not all(quant is not None and quant.per_tensor for quant in quants):
            raise TypeMismatch("prelu needs quantization per tensor")
        if attrs.rounding not in ("tflm", "single"):
            raise TypeMismatch(f"prelu with rounding {attrs.rounding!r} is not defined")
        return (TensorType(x.shape, "int8", attrs.output),)

    def evaluate(
        self,
        attrs: PreluAttrs,
        inputs: Sequence[Array],
        input_types: Sequence[TensorType],
        output_types: Sequence[TensorType],
    ) -> tuple[Array, ...]:
        """Float: one multiplication where x is negative. Integer: one rescaling for each sign."""
        if attrs.output is None:
            x, alpha = inputs
            return (np.where(x >= 0, x, x * alpha),)
        centred, slope = (
            values.astype(np.int64) - type_.scalar_quant()[1]
            for values, type_ in zip(inputs, input_types, strict=True)
        )
        for_positive, for_negative = _multipliers(input_types, attrs.output)
        positive = requantize(centred, (for_positive,), attrs.rounding)
        negative = requantize(np.asarray(centred * slope), (for_negative,), attrs.rounding)
        result = np.where(centred >= 0, positive, negative) + attrs.output.zero_point[0]
        return (np.clip(result, -128, 127).astype(np.int8),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Any]) -> Tensor:
        """Element by element; a dimension of extent 1 of alpha is read again for every index."""
        attrs: PreluAttrs = node.attrs
        x, alpha = operand_tensors(target, inputs)

        def element(*at: Any) -> Any:
            value, slope = x[at], alpha[broadcast_index(alpha.shape, at)]
            if attrs.output is None:
                return select(value >= 0, value, value * slope)
            (_, x_zero), (_, alpha_zero) = (type_.scalar_quant() for type_ in node.input_types)
            factors = _multipliers(node.input_types, attrs.output)
            centred = int32(value) - x_zero
            name = f"requantize_{attrs.rounding}"
            positive = intrinsic(name, centred, *quantize_multiplier(factors[0]))
            negative = intrinsic(
                name, centred * (int32(slope) - alpha_zero), *quantize_multiplier(factors[1])
            )
            result = select(centred >= 0, positive, negative) + attrs.output.zero_point[0]
            return cast(clamp(result, -128, 127), "int8")

        return target.compute("element", node.output.type.shape, node.output.type.dtype, element)


@from_onnx("PRelu")
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Any:
    """ONNX PRelu; its slope broadcasts to x, aligned at the last axes."""
    x, slope = raw.inputs
    missing = len(x.type.shape) - len(slope.type.shape)
    if missing > 0:
        shape = ReshapeAttrs((*(1 for _ in range(missing)), *slope.type.shape))
        if isinstance(slope, Constant):
            slope = builder.constant(f"{raw.name}.slope", slope.data.reshape(shape.shape))
        else:
            slope = builder.op("reshape", [slope], shape, name=f"{raw.name}/slope", sources=())
    return builder.op("prelu", [x, slope], PreluAttrs(), name=raw.name)


@from_tflite("PRELU")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Any:
    """TFLite PRELU; alpha is mostly a constant with one number for each channel."""
    declared = raw.output_types[0]
    if len(raw.inputs) != 2 or None in raw.inputs or declared is None:
        raise ImportFailed("an input is absent")
    output = None if declared.is_float else declared.quant
    attrs = PreluAttrs(output, raw.rounding)  # type: ignore[arg-type]
    return builder.op("prelu", raw.inputs, attrs, name=raw.name)
