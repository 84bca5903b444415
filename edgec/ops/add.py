"""add: the sum of two tensors, element by element after broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.fixed_point import IntArray, Rounding, quantize_multiplier, requantize
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Node
from edgec.graph.op import Fusion, Op, RawNode, from_onnx, from_tflite, register
from edgec.graph.types import Array, Quant, TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, cast, clamp, int32, intrinsic
from edgec.ops.activation import activation_range
from edgec.ops.broadcast import broadcast_index, broadcast_shape, operand_tensors
from edgec.ops.linear_sum import OPERANDS, LinearSum, find_linear_sum
from edgec.ops.onnx_add import onnx_add, onnx_sum

#: Bits by which TFLite raises 8-bit operands before it rescales them (add.cc).
LEFT_SHIFT = 20


@dataclass(frozen=True)
class AddAttrs:
    """output: quantization of an int8 sum, None for floats.

    minimum, maximum: inclusive range of the stored sum (the fused activation's); ignored for
    floats. rounding: see `edgec.fixed_point`.
    """

    output: Quant | None = None
    minimum: int = -128
    maximum: int = 127
    rounding: Rounding = "tflm"


@dataclass(frozen=True)
class AddMultipliers:
    """Real factors of TFLite's integer addition, each below one.

    A raised operand (x - zero_point) << LEFT_SHIFT times `first` or `second` is in units of
    twice the larger input scale / 2**LEFT_SHIFT; their sum times `output` is in units of the
    output scale.
    """

    first: float
    second: float
    output: float


def add_multipliers(a: Quant, b: Quant, output: Quant) -> AddMultipliers:
    """Source: TFLite Micro's CalculateOpDataAdd, in double."""
    twice_larger = 2 * max(a.scale[0], b.scale[0])
    return AddMultipliers(
        first=a.scale[0] / twice_larger,
        second=b.scale[0] / twice_larger,
        output=twice_larger / ((1 << LEFT_SHIFT) * output.scale[0]),
    )


@register
class Add(Op[AddAttrs]):
    """int8 with quantized inputs and output, or float32."""

    name = "add"
    attrs_class = AddAttrs
    fusion = Fusion.BROADCAST

    def infer(self, attrs: AddAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The broadcast shape with the output's quantization."""
        a, b = inputs
        shape = broadcast_shape("add", inputs)
        if a.dtype != b.dtype:
            raise TypeMismatch(f"add of {a.dtype} and {b.dtype}")
        if a.is_float:
            if attrs.output is not None:
                raise TypeMismatch("a float sum has no quantization")
            return (TensorType(shape, a.dtype),)
        if a.dtype != "int8" or a.quant is None or b.quant is None or attrs.output is None:
            raise TypeMismatch(f"add needs quantized int8 or floats, not {a} and {b}")
        if not (a.quant.per_tensor and b.quant.per_tensor and attrs.output.per_tensor):
            raise TypeMismatch("add needs quantization per tensor")
        if not -128 <= attrs.minimum <= attrs.maximum <= 127:
            raise TypeMismatch(f"range {attrs.minimum}..{attrs.maximum} does not fit in int8")
        if attrs.rounding not in _SUMS:
            raise TypeMismatch(f"add with rounding {attrs.rounding!r} is not defined")
        too_fine = add_multipliers(a.quant, b.quant, attrs.output).output >= 1
        if attrs.rounding != "onnx" and too_fine:
            raise TypeMismatch("add: the output scale is too small for the input scales")
        return (TensorType(shape, "int8", attrs.output),)

    def evaluate(
        self,
        attrs: AddAttrs,
        inputs: Sequence[Array],
        input_types: Sequence[TensorType],
        output_types: Sequence[TensorType],
    ) -> tuple[Array, ...]:
        """Float: one float32 addition. Integer: by the rounding."""
        if output_types[0].is_float:
            return (np.asarray(inputs[0] + inputs[1]),)
        total = _SUMS[attrs.rounding](attrs, inputs, input_types)
        return (np.clip(total, attrs.minimum, attrs.maximum).astype(np.int8),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Any]) -> Tensor:
        """Element by element; a dimension of extent 1 is read again for every index."""
        attrs: AddAttrs = node.attrs
        output = node.output.type
        operands = operand_tensors(target, inputs)
        combine = _lowered_sum(node, target)

        def element(*indices: Any) -> Any:
            values = [tensor[broadcast_index(tensor.shape, indices)] for tensor in operands]
            if output.is_float:
                return values[0] + values[1]
            total = combine(int32(values[0]), int32(values[1]))
            return cast(clamp(total, attrs.minimum, attrs.maximum), "int8")

        return target.compute("element", output.shape, output.dtype, element)


def _sum_tflite(
    attrs: AddAttrs, inputs: Sequence[Array], input_types: Sequence[TensorType]
) -> IntArray:
    """TFLite's int8 ADD: both operands to a common finer scale, then to the output's."""
    a, b = (type_.quant for type_ in input_types)
    assert a is not None and b is not None and attrs.output is not None
    factors = add_multipliers(a, b, attrs.output)
    raised = [
        (x.astype(np.int64) - quant.zero_point[0]) << LEFT_SHIFT
        for x, quant in zip(inputs, (a, b), strict=True)
    ]
    total = requantize(raised[0], (factors.first,), attrs.rounding) + requantize(
        raised[1], (factors.second,), attrs.rounding
    )
    result = requantize(total, (factors.output,), attrs.rounding)
    return result + attrs.output.zero_point[0]


def _sum_onnx(attrs: AddAttrs, inputs: Sequence[Array], input_types: Sequence[TensorType]) -> Array:
    """ONNX Runtime's QLinearAdd."""
    a, b = (type_.quant for type_ in input_types)
    assert a is not None and b is not None and attrs.output is not None
    left, right = np.broadcast_arrays(*inputs)
    return onnx_add(left, right, a, b, attrs.output)


#: How each rounding adds.
_SUMS = {"tflm": _sum_tflite, "single": _sum_tflite, "onnx": _sum_onnx}


def _lowered_sum(node: Node, target: Lowering) -> Callable[[Value, Value], Value]:
    """A function of two stored operands (int32) that gives the stored sum before its clamp."""
    attrs: AddAttrs = node.attrs
    a, b = (value.type.quant for value in node.inputs)
    if a is None or b is None or attrs.output is None:
        return lambda left, right: left + right
    linear = _linear(attrs, tuple(value.type for value in node.inputs), a, b)
    if linear is not None:
        return lambda left, right: (
            (left * linear.first + linear.constant + right * linear.second) >> linear.shift
        )
    if attrs.rounding == "onnx":
        return onnx_sum(a, b, attrs.output)
    factors = add_multipliers(a, b, attrs.output)
    name = f"requantize_{attrs.rounding}"
    zero_point = attrs.output.zero_point[0]

    def scaled(value: Value, factor: float) -> Value:
        return intrinsic(name, value, *quantize_multiplier(factor))

    def combine(left: Value, right: Value) -> Value:
        total = scaled((left - a.zero_point[0]) << LEFT_SHIFT, factors.first) + scaled(
            (right - b.zero_point[0]) << LEFT_SHIFT, factors.second
        )
        return scaled(total, factors.output) + zero_point

    return combine


def _linear(attrs: AddAttrs, types: tuple[TensorType, ...], a: Quant, b: Quant) -> LinearSum | None:
    """The sum of all pairs of int8 operands as multiply-adds, if there are exact ones."""
    assert attrs.output is not None
    pairs = np.broadcast_arrays(OPERANDS[:, None], OPERANDS[None, :])
    total = np.clip(_SUMS[attrs.rounding](attrs, pairs, types), attrs.minimum, attrs.maximum)
    scale = attrs.output.scale[0]
    return find_linear_sum(
        total, (a.scale[0] / scale, b.scale[0] / scale), attrs.minimum, attrs.maximum
    )


@from_tflite("ADD")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Any:
    """TFLite ADD of int8 tensors with its fused activation."""
    declared = raw.output_types[0]
    if len(raw.inputs) != 2 or None in raw.inputs or declared is None:
        raise ImportFailed("an input is absent")
    for value in raw.inputs:
        if value.type.dtype != "int8":
            raise ImportFailed(f"{value.type.dtype} input: only int8 is supported yet")
    minimum, maximum = activation_range(raw.attribute("fused_activation", "NONE"), declared)
    attrs = AddAttrs(declared.quant, minimum, maximum, raw.rounding)  # type: ignore[arg-type]
    return builder.op("add", raw.inputs, attrs, name=raw.name)


@from_onnx("Add", since=7)
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Any:
    """ONNX Add of floats (a QDQ model's integers are found by `fuse_qdq`)."""
    return builder.op("add", raw.inputs, AddAttrs(), name=raw.name)
