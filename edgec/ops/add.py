"""add and sub: the sum or difference of two tensors, element by element after broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node
from edgec.graph.ir import Value as GraphValue
from edgec.graph.operator import Fusion, RowWindow, register
from edgec.graph.traits import Arithmetic, IntegerForm, Interval, Operand, StoredAs
from edgec.graph.types import Array, Quant, TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.dtype import is_float
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, cast, clamp, int32, intrinsic
from edgec.numerics.fixed_point import Rounding, quantize_multiplier, requantize
from edgec.numerics.linear_sum import OPERANDS, LinearSum, find_linear_sum
from edgec.ops.activation import activation_range, append_activation, check_range
from edgec.ops.broadcast import broadcast_index, broadcast_shape, operand_tensors
from edgec.ops.intervals import by_corners
from edgec.ops.onnx_add import onnx_add, onnx_sum
from edgec.ops.op import Op, RawNode, from_onnx, from_tflite
from edgec.ops.row import import_row, is_plain_integer

#: Bits by which TFLite raises operands of a dtype before it rescales them (add.cc, sub.cc).
LEFT_SHIFT = {"int8": 20, "int16": 15}


@dataclass(frozen=True)
class AddAttrs:
    """output: quantization of an integer sum, None for floats.

    minimum, maximum: inclusive range of the stored sum (the fused activation's); ignored for
    floats. rounding: see `edgec.numerics.fixed_point`.
    """

    output: Quant | None = None
    minimum: int = -128
    maximum: int = 127
    rounding: Rounding = "tflm"


@dataclass(frozen=True)
class AddMultipliers:
    """Real factors of TFLite's integer addition, each below one.

    A raised operand (x - zero_point) << left_shift times `first` or `second` is in units of
    twice the larger input scale / 2**left_shift; their sum times `output` is in units of the
    output scale.
    """

    first: float
    second: float
    output: float


def add_multipliers(a: Quant, b: Quant, output: Quant, left_shift: int) -> AddMultipliers:
    """Source: TFLite Micro's CalculateOpDataAdd, in double."""
    twice_larger = 2 * max(a.scale[0], b.scale[0])
    return AddMultipliers(
        first=a.scale[0] / twice_larger,
        second=b.scale[0] / twice_larger,
        output=twice_larger / ((1 << left_shift) * output.scale[0]),
    )


@register
class Add(Op[AddAttrs]):
    """int8 or int16 with quantized inputs and output, or float32."""

    name = "add"
    attrs_class = AddAttrs
    fusion = Fusion.BROADCAST
    onnx_name = "Add"
    computes: ClassVar[Arithmetic | None] = Arithmetic.SUM
    integer_form: ClassVar[IntegerForm | None] = IntegerForm.OPERANDS
    clamps = True
    rescales = True
    #: The factor of the second operand: 1 or -1.
    sign: ClassVar[int] = 1

    def infer(self, attrs: AddAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The broadcast shape with the output's quantization."""
        a, b = inputs
        shape = broadcast_shape(self.name, inputs)
        if a.dtype != b.dtype:
            raise TypeMismatch(f"{self.name} of {a.dtype} and {b.dtype}")
        if is_float(a.dtype):
            if attrs.output is not None:
                raise TypeMismatch(f"a float {self.name} has no quantization")
            return (TensorType(shape, a.dtype),)
        if a.dtype not in LEFT_SHIFT or a.quant is None or b.quant is None or attrs.output is None:
            raise TypeMismatch(
                f"{self.name} needs quantized int8, int16 or floats, not {a} and {b}"
            )
        quants = (a.quant, b.quant, attrs.output)
        if not all(quant.per_tensor for quant in quants):
            raise TypeMismatch(f"{self.name} needs quantization per tensor")
        if a.dtype == "int16" and any(quant.zero_point[0] for quant in quants):
            raise TypeMismatch(f"{self.name} of int16 needs zero points of 0")
        check_range(a, attrs.minimum, attrs.maximum)
        if attrs.rounding == "onnx":
            if self.sign < 0 or a.dtype != "int8":
                raise TypeMismatch(f"{self.name} of {a.dtype} with rounding 'onnx' is not defined")
        elif attrs.rounding not in ("tflm", "single"):
            raise TypeMismatch(f"{self.name} with rounding {attrs.rounding!r} is not defined")
        elif add_multipliers(*quants, LEFT_SHIFT[a.dtype]).output >= 1:
            raise TypeMismatch(f"{self.name}: the output scale is too small for the input scales")
        return (TensorType(shape, a.dtype, attrs.output),)

    def row_window(self, attrs: AddAttrs, inputs: Types) -> RowWindow | None:
        """Row by row, unless rows are broadcast."""
        shape = np.broadcast_shapes(*(type_.shape for type_ in inputs))
        small = (1, shape[-1] if shape else 1)  # one number, or one for each channel
        is_whole = all(
            t.shape == shape or (t.elements in small and t.shape[-1:] in ((), (1,), shape[-1:]))
            for t in inputs
        )
        return RowWindow() if is_whole else None

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Element by element; a dimension of extent 1 is read again for every index."""
        attrs: AddAttrs = node.attrs
        output = node.output.type
        operands = operand_tensors(target, inputs)
        combine = None if output.is_float else _lowered_sum(node, self.sign)

        def element(*indices: Any) -> Any:
            values = [tensor[broadcast_index(tensor.shape, indices)] for tensor in operands]
            if combine is None:
                return values[0] + values[1] if self.sign > 0 else values[0] - values[1]
            total = combine(int32(values[0]), int32(values[1]))
            return cast(clamp(total, attrs.minimum, attrs.maximum), output.dtype)

        return target.compute("element", output.shape, output.dtype, element)

    def attrs_for_integers(
        self, attrs: AddAttrs, inputs: Types, result: StoredAs
    ) -> AddAttrs | None:
        """The same sum with the result's parameters and bounds."""
        return AddAttrs(result.quant, result.minimum, result.maximum, result.rounding)

    def interval(
        self, attrs: AddAttrs, operands: Sequence[Operand], output: TensorType
    ) -> Interval | None:
        """The sum is monotonic in both operands."""
        return by_corners(self, attrs, operands, output)


@register
class Sub(Add):
    """The first operand minus the second; everything else as `add`."""

    name = "sub"
    onnx_name = "Sub"
    computes = Arithmetic.DIFFERENCE
    integer_form = None
    sign = -1


def _sum(attrs: AddAttrs, inputs: Sequence[Array], input_types: Types, sign: int) -> Array:
    """The stored sum before its clamp."""
    a, b = (type_.quant for type_ in input_types)
    assert a is not None and b is not None and attrs.output is not None
    if attrs.rounding == "onnx":  # ONNX Runtime's QLinearAdd
        left, right = np.broadcast_arrays(*inputs)
        return onnx_add(left, right, a, b, attrs.output)
    # TFLite: both operands to a common finer scale, then to the output's.
    left_shift = LEFT_SHIFT[input_types[0].dtype]
    factors = add_multipliers(a, b, attrs.output, left_shift)
    raised = [
        (x.astype(np.int64) - quant.zero_point[0]) << left_shift
        for x, quant in zip(inputs, (a, b), strict=True)
    ]
    total = requantize(raised[0], (factors.first,), attrs.rounding) + sign * requantize(
        raised[1], (factors.second,), attrs.rounding
    )
    result = requantize(total, (factors.output,), attrs.rounding)
    return result + attrs.output.zero_point[0]


def _lowered_sum(node: Node, sign: int) -> Callable[[Value, Value], Value]:
    """A function that returns the stored sum, before its clamp, of two stored operands (int32)."""
    attrs: AddAttrs = node.attrs
    a, b = (value.type.quant for value in node.inputs)
    assert a is not None and b is not None and attrs.output is not None
    is_bytes = node.output.type.dtype == "int8"
    linear = _of_all_pairs(attrs, node.input_types, sign) if is_bytes else None
    if linear is not None:
        return lambda left, right: (
            (left * linear.first + linear.constant + right * linear.second) >> linear.shift
        )
    if attrs.rounding == "onnx":
        return onnx_sum(a, b, attrs.output)
    left_shift = LEFT_SHIFT[node.output.type.dtype]
    factors = add_multipliers(a, b, attrs.output, left_shift)
    name = f"requantize_{attrs.rounding}"
    zero_point = attrs.output.zero_point[0]

    def scaled(value: Value, factor: float) -> Value:
        return intrinsic(name, value, *quantize_multiplier(factor))

    def combine(left: Value, right: Value) -> Value:
        first = scaled((left - a.zero_point[0]) << left_shift, factors.first)
        second = scaled((right - b.zero_point[0]) << left_shift, factors.second)
        total = first + second if sign > 0 else first - second
        return scaled(total, factors.output) + zero_point

    return combine


def _of_all_pairs(attrs: AddAttrs, types: Types, sign: int) -> LinearSum | None:
    """The sum of all pairs of int8 operands as multiply-adds, if there are exact ones."""
    first, second = (type_.with_shape(()) for type_ in types)
    return _found_once(attrs, (first, second), sign)


@cache
def _found_once(
    attrs: AddAttrs, types: tuple[TensorType, TensorType], sign: int
) -> LinearSum | None:
    """Rows of a sum are lowered after the whole, with the same result."""
    assert attrs.output is not None
    pairs = np.broadcast_arrays(OPERANDS[:, None], OPERANDS[None, :])
    total = np.clip(_sum(attrs, pairs, types, sign), attrs.minimum, attrs.maximum)
    (first, _), (second, _) = (type_.scalar_quant() for type_ in types)
    scale = attrs.output.scale[0]
    factors = first / scale, sign * second / scale
    return find_linear_sum(total, factors, attrs.minimum, attrs.maximum)


def _import_sum(builder: GraphBuilder, raw: RawNode, op: str) -> GraphValue:
    """A quantized or float TFLite node with its fused activation."""
    declared = raw.output_types[0]
    if declared is None:
        raise ImportFailed("an input is absent")
    if declared.dtype == "float32":
        return append_activation(builder, raw, op, raw.operands(), AddAttrs())
    if is_plain_integer(declared):
        return import_row(builder, raw, f"int_{op}")
    if declared.dtype not in LEFT_SHIFT:
        raise ImportFailed(f"{declared.dtype} output: only int8, int16 and float32 are supported")
    minimum, maximum = activation_range(raw.attribute("fused_activation", "NONE"), declared)
    attrs = AddAttrs(declared.quant, minimum, maximum, raw.rounding)
    return builder.op(op, raw.operands(), attrs, name=raw.name)


@from_tflite("ADD")
def import_tflite_add(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    return _import_sum(builder, raw, "add")


@from_tflite("SUB")
def import_tflite_sub(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    return _import_sum(builder, raw, "sub")


@from_onnx("Add", since=7)
def import_onnx_add(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """ONNX Add of floats and plain integers (a QDQ model's integers are found by `fuse_qdq`)."""
    if is_plain_integer(raw.operand(0).type):
        return import_row(builder, raw, "int_add")
    return builder.op("add", raw.operands(), AddAttrs(), name=raw.name)


@from_onnx("Sub", since=7)
def import_onnx_sub(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """ONNX Sub of floats and plain integers."""
    if is_plain_integer(raw.operand(0).type):
        return import_row(builder, raw, "int_sub")
    return builder.op("sub", raw.operands(), AddAttrs(), name=raw.name)


def negated(
    builder: GraphBuilder, x: GraphValue, name: str, sources: tuple[str, ...]
) -> GraphValue:
    """-x of floats: a sum with it is a difference."""
    return builder.op("neg", [x], name=name, sources=sources)
