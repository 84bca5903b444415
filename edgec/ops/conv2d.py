"""conv2d: a window's products summed over height, width and input channels, plus a bias."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node
from edgec.graph.ir import Value as GraphValue
from edgec.graph.operator import Fusion, RowWindow, register
from edgec.graph.traits import IntegerForm, Products
from edgec.graph.types import Array, Arrays, TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import cast
from edgec.loop.window import clipped
from edgec.numerics.fixed_point import wrap_int32
from edgec.numerics.ordered_sum import ordered_products
from edgec.ops.accumulate import fold_offset, weight_sums, widened
from edgec.ops.activation import append_activation
from edgec.ops.broadcast import constant_of, tensor_of
from edgec.ops.dynamic_range import append_hybrid, hybrid_rescale
from edgec.ops.offset_weights import append_products, offset_scales
from edgec.ops.onnx_graph import TO_FIRST, OnnxGraph, write_convolution
from edgec.ops.op import Op, RawNode
from edgec.ops.requantize import append_requantize, product_multipliers, tflite_operands
from edgec.ops.window import (
    NO_PADDING,
    Padding,
    Pair,
    output_extent,
    pad_hw,
    patches,
    tflite_padding,
)
from edgec.ops.window_rows import known_window


@dataclass(frozen=True)
class Conv2dAttrs:
    """stride, dilation: (height, width). padding: ((top, bottom), (left, right)), of zeros."""

    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: Padding = NO_PADDING


#: Dtypes of input, weights and bias.
INTEGER_OPERANDS = (
    ("int8", "int8", "int32"),
    ("int16", "int8", "int32"),
    ("int16", "int8", "int64"),
)


def check_operands(op: str, x: TensorType, weights: TensorType, bias: TensorType) -> str:
    """The dtype of the accumulators: the bias' own, which int8 inputs have as int32.

    int16 inputs may have a bias of int32 or int64. Raises TypeMismatch for other dtypes, for
    inputs that are not quantized per tensor and for weights whose zero point is not 0.
    """
    if x.dtype == "float32":
        if weights.dtype != "float32" or bias.dtype != "float32":
            raise TypeMismatch(f"{op} of float32 needs float32 weights and bias")
        return "float32"
    if (x.dtype, weights.dtype, bias.dtype) not in INTEGER_OPERANDS:
        raise TypeMismatch(
            f"{op} takes int8, int8, int32 or int16, int8, int64 or only float32, not"
            f" {x.dtype}, {weights.dtype}, {bias.dtype}"
        )
    if x.quant is None or not x.quant.per_tensor:
        raise TypeMismatch(f"{op} needs an input that is quantized per tensor")
    if weights.quant is not None and any(weights.quant.zero_point):
        raise TypeMismatch(f"{op} needs weights with zero point 0")
    if x.dtype == "int16" and any(x.quant.zero_point):
        raise TypeMismatch(f"{op} needs int16 inputs with zero point 0")
    return bias.dtype


def with_bias(products: Array, bias: Array, dtype: str) -> Array:
    """Sums of products (float64, exact for integers) and bias [O], wrapped to the accumulators."""
    if dtype == "float32":
        return np.asarray(products + bias.astype(np.float64)).astype(np.float32)
    sums = products.astype(np.int64) + bias.astype(np.int64)
    return wrap_int32(sums).astype(np.int32) if dtype == "int32" else sums


def centred(x: Array, type_: TensorType) -> Array:
    """x in float64 with its zero point subtracted: exact for every integer dtype below int64."""
    zero_point = 0 if type_.quant is None else type_.quant.zero_point[0]
    return x.astype(np.float64) - zero_point


class WindowProducts(Op[Conv2dAttrs]):
    """Sums of a window's products, plus a bias: the base class of convolutions.

    Integers: acc = sum((x - zero_point) * w) + bias in the bias' dtype, int32 or int64, modulo
    2**32 or 2**64; padding contributes zero. Or float32 throughout: from the bias on, product
    after product in the order height, width, input channel.
    """

    attrs_class = Conv2dAttrs
    constant_inputs = (1, 2)
    fusion = Fusion.COMPLEX
    tolerance = 2e-6
    products: ClassVar[Products]
    integer_form = IntegerForm.PRODUCTS

    def kernel(self, weights: Sequence[int]) -> Pair:
        """The window's extents, of the shape of the weights."""
        first, second = self.products.window
        return weights[first], weights[second]

    def infer(self, attrs: Conv2dAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Extents by the window's geometry; the accumulators' dtype without quantization."""
        x, weights, bias = inputs
        dtype = check_operands(self.name, x, weights, bias)
        rank = 2 + len(self.products.window) - (self.products.inputs is None)
        if len(x.shape) != 4 or len(weights.shape) != rank:
            raise TypeMismatch(f"{self.name} needs an input of rank 4 and weights of rank {rank}")
        outputs = weights.shape[self.products.outputs]
        self.check_channels(x.shape[3], weights)
        if bias.shape != (outputs,):
            raise TypeMismatch(f"bias {list(bias.shape)} for {outputs} channels")
        height, width = (
            output_extent(x.shape[axis + 1], extent, attrs.stride[axis], attrs.dilation[axis],
                          attrs.padding[axis])
            for axis, extent in enumerate(self.kernel(weights.shape))
        )  # fmt: skip
        return (TensorType((x.shape[0], height, width, outputs), dtype),)

    def check_channels(self, channels: int, weights: TensorType) -> None:
        """Raise TypeMismatch for weights of other input channels."""
        raise NotImplementedError

    def macs(self, attrs: Conv2dAttrs, inputs: Types) -> int:
        """Every tap of every output element, padding included."""
        (output,) = self.infer(attrs, *inputs)
        return math.prod((*output.shape[:3], *inputs[1].shape))

    def row_window(self, attrs: Conv2dAttrs, inputs: Types) -> RowWindow | None:
        """Return the window's height and stride."""
        reach = (self.kernel(inputs[1].shape)[0] - 1) * attrs.dilation[0] + 1
        return RowWindow(reach, attrs.stride[0], attrs.padding[0][0])

    def attrs_for_rows(self, attrs: Conv2dAttrs, top: int, bottom: int) -> Conv2dAttrs:
        """Return the attributes with the padding of this row."""
        return replace(attrs, padding=((top, bottom), attrs.padding[1]))

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One accumulation per output element; padding is clipped from the kernel's ranges."""
        attrs: Conv2dAttrs = node.attrs
        x, w, bias = tensor_of(inputs[0]), constant_of(inputs[1]).data, constant_of(inputs[2]).data
        (stride_h, stride_w), (dilation_h, dilation_w) = attrs.stride, attrs.dilation
        (top, _), (left, _) = attrs.padding
        _, height, width, channels = x.shape
        kernel_h, kernel_w = self.kernel(w.shape)
        summed = tuple(axis for axis in range(w.ndim) if axis != self.products.outputs)
        offset, bias = fold_offset(node, bias, weight_sums(w, summed))
        weights, biases = target.table("w", w), target.table("bias", bias)
        target.window = known_window(node, (kernel_h, kernel_w))
        rows = clipped(height, kernel_h, stride_h, dilation_h, top)
        columns = clipped(width, kernel_w, stride_w, dilation_w, left)
        mixes = self.products.inputs is not None
        each = node.output.type.shape[3] // max(channels, 1)  # the channel multiplier

        def product(acc: Any, n: Any, h: Any, w: Any, c: Any, kh: Any, kw: Any, *ic: Any) -> Any:
            row, column = (
                h * stride_h + kh * dilation_h - top,
                w * stride_w + kw * dilation_w - left,
            )
            element = x[n, row, column, ic[0] if mixes else c // each]
            weight = weights[(c, kh, kw, *ic) if mixes else (kh, kw, c)]
            return acc + widened(element, acc, offset) * cast(weight, acc.dtype)

        return target.reduce(
            "acc",
            node.output.type.shape,
            node.output.type.dtype,
            [
                ("kh", lambda n, h, w, c: rows[0](h), lambda n, h, w, c: rows[1](h)),
                ("kw", lambda n, h, w, c: columns[0](w), lambda n, h, w, c: columns[1](w)),
                *([("ic", 0, channels)] if mixes else []),
            ],
            init=lambda n, h, w, c: biases[c],
            update=product,
        )


@register
class Conv2d(WindowProducts):
    """x [N, H, W, C], weights [O, KH, KW, C], bias [O] -> [N, OH, OW, O]."""

    name = "conv2d"
    products = Products(outputs=0, inputs=3, window=(1, 2))

    def check_channels(self, channels: int, weights: TensorType) -> None:
        """All of the input."""
        if channels != weights.shape[3]:
            raise TypeMismatch(
                f"conv2d weights read {weights.shape[3]} channels, the input has {channels}"
            )

    def evaluate(
        self, attrs: Conv2dAttrs, inputs: Arrays, input_types: Types, output_types: Types
    ) -> tuple[Array, ...]:
        """One matrix product in float64, exact for integers: below 2**53. Floats in C's order."""
        x, weights, bias = inputs
        shape = output_types[0].shape
        kernel = weights.shape[1:3]
        is_float = output_types[0].is_float
        padded = pad_hw(x if is_float else centred(x, input_types[0]), attrs.padding, 0.0)
        matrix = patches(padded, kernel, attrs.stride, attrs.dilation, shape[1:3])
        columns = weights.reshape(shape[3], -1)
        if is_float:
            return (ordered_products(matrix, columns, bias).reshape(shape),)
        products = matrix @ columns.T.astype(np.float64)
        return (with_bias(products, bias, output_types[0].dtype).reshape(shape),)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """Conv."""
        write_convolution(out, node, lambda data: data.transpose(TO_FIRST), group=1)


def import_tflite(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """TFLite CONV_2D: a conv2d and a requantize, or in float32 and a clip."""
    operands = tflite_operands(
        builder, raw, channel_axis=0, wide_bias=("int32", "int64"), hybrid=True
    )
    x, weights, _ = operands
    if len(x.type.shape) != 4 or len(weights.type.shape) != 4:
        raise ImportFailed("the input or the weights are not of rank 4")
    channels, kernel_h, kernel_w, depth = weights.type.shape
    if depth != x.type.shape[3]:
        raise ImportFailed(
            f"grouped convolution is not supported yet (weights read {depth} of"
            f" {x.type.shape[3]} channels)"
        )
    stride, dilation = raw.attribute("stride"), raw.attribute("dilation", (1, 1))
    attrs = Conv2dAttrs(
        stride=stride,
        dilation=dilation,
        padding=tflite_padding(raw, x.type.shape[1:3], (kernel_h, kernel_w), stride, dilation),
    )
    return append_convolution(builder, raw, "conv2d", operands, operands[1], attrs, channels)


def append_convolution(
    builder: GraphBuilder,
    raw: RawNode,
    op: str,
    operands: tuple[GraphValue, Constant, GraphValue],
    weights: Constant,
    attrs: Conv2dAttrs,
    channels: int,
) -> GraphValue:
    """A convolution and a requantize, or in float32 and a clip; of floats by int8 weights as such.

    operands: x, the weights as `op` takes them, bias. weights: as the file has them.
    """
    x = operands[0].type
    if x.is_float and not weights.type.is_float:
        rescale = hybrid_rescale(weights.type, channels, depthwise=op != "conv2d")
        return append_hybrid(builder, raw, op, operands, attrs, rescale)
    if x.is_float:
        return append_activation(builder, raw, op, [*operands], attrs)
    multiplier = product_multipliers(x, offset_scales(weights, channels), raw.output_types[0])
    acc = append_products(builder, raw, op, [*operands], attrs)
    return append_requantize(builder, raw, acc, multiplier)
