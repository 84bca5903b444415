"""mul: the product of two tensors, element by element after broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, register
from edgec.graph.traits import Arithmetic, IntegerForm, Interval, Operand, StoredAs
from edgec.graph.types import Quant, TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.dtype import is_float
from edgec.loop.intrinsics import HALF
from edgec.loop.lowering import Lowering
from edgec.loop.values import cast, clamp, int32, intrinsic, round_half_even
from edgec.numerics.fixed_point import (
    IntArray,
    Rounding,
    check_factors,
    quantize_multiplier,
    requantize,
)
from edgec.ops.activation import activation_range, append_activation, check_range
from edgec.ops.broadcast import broadcast_index, broadcast_shape, operand_tensors
from edgec.ops.high_product import find_high_multiplier
from edgec.ops.intervals import by_corners
from edgec.ops.op import Op, RawNode, from_onnx, from_tflite
from edgec.ops.row import import_row, is_plain_integer

#: Quantized element types.
QUANTIZED = ("int8", "int16")
#: Ratios of scales from here on are refused: a product of two int8 may leave int32.
MOST_ONNX_RATIO = 2.0**14


@dataclass(frozen=True)
class MulAttrs:
    """output: quantization of an integer product, None for floats.

    minimum, maximum: inclusive range of the stored product (the fused activation's); ignored for
    floats. rounding: see `edgec.numerics.fixed_point`.
    """

    output: Quant | None = None
    minimum: int = -128
    maximum: int = 127
    rounding: Rounding = "tflm"


def _multiplier(inputs: Types, output: Quant) -> float:
    """First scale * second scale / output scale. Source: TFLite Micro's CalculateOpDataMul."""
    (first, _), (second, _) = (x.scalar_quant() for x in inputs)
    return first * second / output.scale[0]


def onnx_ratio(inputs: Types, output: Quant) -> np.float32:
    """The multiplier in float32, from left to right, as ONNX Runtime's QLinearMul computes it."""
    first, second, y = (np.float32(s) for s in (*(x.scalar_quant()[0] for x in inputs),
                                                output.scale[0]))  # fmt: skip
    with np.errstate(over="ignore"):
        return np.float32(np.float32(first * second) / y)


def _onnx_product(product: IntArray, inputs: Types, attrs: MulAttrs) -> IntArray:
    """Stored results of exact products: a multiplication, an addition and a rounding in float32.

    The zero point is added before rounding (half to even).
    """
    assert attrs.output is not None
    scaled = product.astype(np.float32) * onnx_ratio(inputs, attrs.output)
    moved = np.rint(scaled + np.float32(attrs.output.zero_point[0]))
    return np.asarray(np.clip(moved, attrs.minimum, attrs.maximum), np.int64)


def _stored(product: IntArray, inputs: Types, attrs: MulAttrs) -> IntArray:
    """Stored results of exact products, as the rounding says."""
    assert attrs.output is not None
    if attrs.rounding == "onnx":
        return _onnx_product(product, inputs, attrs)
    multiplier = (_multiplier(inputs, attrs.output),)
    total = requantize(product, multiplier, attrs.rounding) + attrs.output.zero_point[0]
    return np.clip(total, attrs.minimum, attrs.maximum)


def _high_multiplier(inputs: Types, attrs: MulAttrs) -> int | None:
    """The multiplier that rescales int8 products, see `edgec.ops.high_product`."""
    assert attrs.output is not None
    if inputs[0].dtype != "int8" or attrs.rounding == "tflm":  # twice rounded: no line
        return None
    (_, first), (_, second) = (x.scalar_quant() for x in inputs)
    return find_high_multiplier(
        lambda product: _stored(product, inputs, attrs), (first, second),
        _multiplier(inputs, attrs.output), attrs.output.zero_point[0],
        (attrs.minimum, attrs.maximum),
    )  # fmt: skip


@register
class Mul(Op[MulAttrs]):
    """int8 or int16 with quantized inputs and output, or float32."""

    name = "mul"
    attrs_class = MulAttrs
    fusion = Fusion.BROADCAST
    onnx_name = "Mul"
    computes = Arithmetic.PRODUCT
    integer_form = IntegerForm.OPERANDS
    clamps = True
    rescales = True

    def infer(self, attrs: MulAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The broadcast shape with the output's quantization."""
        a, b = inputs
        shape = broadcast_shape("mul", inputs)
        if a.dtype != b.dtype:
            raise TypeMismatch(f"mul of {a.dtype} and {b.dtype}")
        if is_float(a.dtype):
            if attrs.output is not None:
                raise TypeMismatch("a float product has no quantization")
            return (TensorType(shape, a.dtype),)
        if a.dtype not in QUANTIZED or a.quant is None or b.quant is None or attrs.output is None:
            raise TypeMismatch(f"mul needs quantized int8, int16 or floats, not {a} and {b}")
        if not (a.quant.per_tensor and b.quant.per_tensor and attrs.output.per_tensor):
            raise TypeMismatch("mul needs quantization per tensor")
        if a.dtype == "int16" and any((*a.quant.zero_point, *b.quant.zero_point)):
            raise TypeMismatch("mul of int16 needs zero points of 0: products fill 32 bits")
        check_range(a, attrs.minimum, attrs.maximum)
        if attrs.rounding not in ("tflm", "single", "onnx"):
            raise TypeMismatch(f"mul with rounding {attrs.rounding!r} is not defined")
        check_factors([_multiplier(inputs, attrs.output)], attrs.rounding)
        if attrs.rounding == "onnx" and a.dtype != "int8":
            raise TypeMismatch(f"mul of {a.dtype} with rounding 'onnx' is not defined")
        if attrs.rounding == "onnx" and not onnx_ratio(inputs, attrs.output) < MOST_ONNX_RATIO:
            raise TypeMismatch("mul: the output scale is too small for the input scales")
        return (TensorType(shape, a.dtype, attrs.output),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Element by element; a dimension of extent 1 is read again for every index."""
        attrs: MulAttrs = node.attrs
        output = node.output.type
        operands = operand_tensors(target, inputs)
        moved: list[int] = []
        if attrs.output is not None:
            moved = [-type_.scalar_quant()[1] for type_ in node.input_types]
            factor = quantize_multiplier(_multiplier(node.input_types, attrs.output))
            ratio = float(onnx_ratio(node.input_types, attrs.output))
            high = _high_multiplier(node.input_types, attrs)

        def element(*at: Any) -> Any:
            left, right = (tensor[broadcast_index(tensor.shape, at)] for tensor in operands)
            if attrs.output is None:
                return left * right
            product = (int32(left) + moved[0]) * (int32(right) + moved[1])
            if high is not None:
                total = intrinsic(
                    "multiply_add_high", product, high, HALF, attrs.output.zero_point[0]
                )
            elif attrs.rounding == "onnx":
                real = cast(product, "float32") * ratio + float(attrs.output.zero_point[0])
                total = round_half_even(real, 65536.0 * ratio + 256.0)
            else:
                total = (
                    intrinsic(f"requantize_{attrs.rounding}", product, *factor)
                    + attrs.output.zero_point[0]
                )
            return cast(clamp(total, attrs.minimum, attrs.maximum), output.dtype)

        return target.compute("element", output.shape, output.dtype, element)

    def attrs_for_integers(
        self, attrs: MulAttrs, inputs: Types, result: StoredAs
    ) -> MulAttrs | None:
        """The same product with the result's parameters and bounds."""
        return MulAttrs(result.quant, result.minimum, result.maximum, result.rounding)

    def interval(
        self, attrs: MulAttrs, operands: Sequence[Operand], output: TensorType
    ) -> Interval | None:
        """The product is monotonic in each operand if the other is fixed."""
        return by_corners(self, attrs, operands, output)


@from_tflite("MUL")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite MUL of quantized or float tensors with its fused activation."""
    declared = raw.output_types[0]
    if declared is None:
        raise ImportFailed("an input is absent")
    if declared.dtype == "float32":
        return append_activation(builder, raw, "mul", raw.operands(), MulAttrs())
    if is_plain_integer(declared):
        return import_row(builder, raw, "int_mul")
    if declared.dtype not in QUANTIZED:
        raise ImportFailed(f"{declared.dtype} output: only int8, int16 and float32 are supported")
    minimum, maximum = activation_range(raw.attribute("fused_activation", "NONE"), declared)
    attrs = MulAttrs(declared.quant, minimum, maximum, raw.rounding)
    return builder.op("mul", raw.operands(), attrs, name=raw.name)


@from_onnx("Mul", since=7)
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Mul of floats and plain integers."""
    if is_plain_integer(raw.operand(0).type):
        return import_row(builder, raw, "int_mul")
    return builder.op("mul", raw.operands(), MulAttrs(), name=raw.name)
