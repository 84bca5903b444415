"""mul: the product of two tensors, element by element after broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.fixed_point import Rounding, quantize_multiplier, requantize
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Node
from edgec.graph.op import Fusion, Op, RawNode, from_onnx, from_tflite, register
from edgec.graph.types import Array, Quant, TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import cast, clamp, int32, intrinsic
from edgec.ops.activation import activation_range, append_activation
from edgec.ops.broadcast import broadcast_index, broadcast_shape, operand_tensors
from edgec.ops.int_arithmetic import import_integers

#: Quantized element types.
QUANTIZED = ("int8", "int16")


@dataclass(frozen=True)
class MulAttrs:
    """output: quantization of an integer product, None for floats.

    minimum, maximum: inclusive range of the stored product (the fused activation's); ignored for
    floats. rounding: see `edgec.fixed_point`.
    """

    output: Quant | None = None
    minimum: int = -128
    maximum: int = 127
    rounding: Rounding = "tflm"


def _multiplier(inputs: Sequence[TensorType], output: Quant) -> float:
    """First scale * second scale / output scale. Source: TFLite Micro's CalculateOpDataMul."""
    (first, _), (second, _) = (x.scalar_quant() for x in inputs)
    return first * second / output.scale[0]


@register
class Mul(Op[MulAttrs]):
    """int8 or int16 with quantized inputs and output, or float32."""

    name = "mul"
    attrs_class = MulAttrs
    fusion = Fusion.BROADCAST

    def infer(self, attrs: MulAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The broadcast shape with the output's quantization."""
        a, b = inputs
        shape = broadcast_shape("mul", inputs)
        if a.dtype != b.dtype:
            raise TypeMismatch(f"mul of {a.dtype} and {b.dtype}")
        if a.is_float:
            if attrs.output is not None:
                raise TypeMismatch("a float product has no quantization")
            return (TensorType(shape, a.dtype),)
        if a.dtype not in QUANTIZED or a.quant is None or b.quant is None or attrs.output is None:
            raise TypeMismatch(f"mul needs quantized int8, int16 or floats, not {a} and {b}")
        if not (a.quant.per_tensor and b.quant.per_tensor and attrs.output.per_tensor):
            raise TypeMismatch("mul needs quantization per tensor")
        if a.dtype == "int16" and any((*a.quant.zero_point, *b.quant.zero_point)):
            raise TypeMismatch("mul of int16 needs zero points of 0: products fill 32 bits")
        info = np.iinfo(a.dtype)
        if not info.min <= attrs.minimum <= attrs.maximum <= info.max:
            raise TypeMismatch(f"range {attrs.minimum}..{attrs.maximum} does not fit in {a.dtype}")
        if attrs.rounding not in ("tflm", "single"):
            raise TypeMismatch(f"mul with rounding {attrs.rounding!r} is not defined")
        return (TensorType(shape, a.dtype, attrs.output),)

    def evaluate(
        self,
        attrs: MulAttrs,
        inputs: Sequence[Array],
        input_types: Sequence[TensorType],
        output_types: Sequence[TensorType],
    ) -> tuple[Array, ...]:
        """Float: one multiplication. Integer: the exact product, rescaled once."""
        if attrs.output is None:
            return (np.asarray(inputs[0] * inputs[1]),)
        left, right = (
            x.astype(np.int64) - type_.scalar_quant()[1]
            for x, type_ in zip(inputs, input_types, strict=True)
        )
        multiplier = (_multiplier(input_types, attrs.output),)
        scaled = requantize(np.asarray(left * right), multiplier, attrs.rounding)
        total = scaled + attrs.output.zero_point[0]
        return (np.clip(total, attrs.minimum, attrs.maximum).astype(output_types[0].dtype),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Any]) -> Tensor:
        """Element by element; a dimension of extent 1 is read again for every index."""
        attrs: MulAttrs = node.attrs
        output = node.output.type
        operands = operand_tensors(target, inputs)
        zero_points: list[int] = []
        if attrs.output is not None:
            zero_points = [type_.scalar_quant()[1] for type_ in node.input_types]
            factor = quantize_multiplier(_multiplier(node.input_types, attrs.output))

        def element(*at: Any) -> Any:
            left, right = (tensor[broadcast_index(tensor.shape, at)] for tensor in operands)
            if attrs.output is None:
                return left * right
            product = (int32(left) - zero_points[0]) * (int32(right) - zero_points[1])
            total = (
                intrinsic(f"requantize_{attrs.rounding}", product, *factor)
                + attrs.output.zero_point[0]
            )
            return cast(clamp(total, attrs.minimum, attrs.maximum), output.dtype)

        return target.compute("element", output.shape, output.dtype, element)


@from_tflite("MUL")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Any:
    """TFLite MUL of quantized or float tensors with its fused activation."""
    declared = raw.output_types[0]
    if len(raw.inputs) != 2 or None in raw.inputs or declared is None:
        raise ImportFailed("an input is absent")
    if declared.dtype == "float32":
        return append_activation(builder, raw, "mul", raw.inputs, MulAttrs())
    if declared.dtype == "int32":
        return import_integers(builder, raw, "int_mul")
    if declared.dtype not in QUANTIZED:
        raise ImportFailed(f"{declared.dtype} output: only int8, int16 and float32 are supported")
    minimum, maximum = activation_range(raw.attribute("fused_activation", "NONE"), declared)
    attrs = MulAttrs(declared.quant, minimum, maximum, raw.rounding)  # type: ignore[arg-type]
    return builder.op("mul", raw.inputs, attrs, name=raw.name)


@from_onnx("Mul", since=7)
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Any:
    """ONNX Mul of floats."""
    return builder.op("mul", raw.inputs, MulAttrs(), name=raw.name)
