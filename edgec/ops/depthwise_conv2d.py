"""depthwise_conv2d: each output channel sums the window over one input channel only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, RowWindow, register
from edgec.graph.traits import IntegerForm, Products
from edgec.graph.types import Array, TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import cast
from edgec.loop.window import clipped
from edgec.numerics.ordered_sum import without_negative_zeros
from edgec.ops.accumulate import fold_offset, weight_sums, widened
from edgec.ops.activation import append_activation
from edgec.ops.broadcast import constant_of, tensor_of
from edgec.ops.conv2d import centred, check_operands
from edgec.ops.dynamic_range import append_hybrid, hybrid_rescale
from edgec.ops.offset_weights import append_products, offset_scales
from edgec.ops.onnx_graph import OnnxGraph, write_convolution
from edgec.ops.op import Op, RawNode, from_tflite
from edgec.ops.requantize import (
    append_requantize,
    product_multipliers,
    tflite_operands,
)
from edgec.ops.window import NO_PADDING, Padding, Pair, output_extent, pad_hw, taps, tflite_padding
from edgec.ops.window_rows import known_window


@dataclass(frozen=True)
class DepthwiseConv2dAttrs:
    """stride, dilation: (height, width). padding: ((top, bottom), (left, right)), of zeros."""

    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: Padding = NO_PADDING


@register
class DepthwiseConv2d(Op[DepthwiseConv2dAttrs]):
    """x [N, H, W, C], weights [KH, KW, O], bias [O] -> [N, OH, OW, O], O = C * multiplier.

    Output channel o reads input channel o // multiplier. Dtypes and arithmetic as `conv2d`.
    """

    name = "depthwise_conv2d"
    attrs_class = DepthwiseConv2dAttrs
    constant_inputs = (1, 2)
    fusion = Fusion.COMPLEX
    tolerance = 2e-6
    products = Products(outputs=2, inputs=None, window=(0, 1))
    integer_form = IntegerForm.PRODUCTS

    def infer(self, attrs: DepthwiseConv2dAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Extents by the window's geometry; the accumulators' dtype without quantization."""
        x, weights, bias = inputs
        dtype = check_operands(self.name, x, weights, bias)
        if len(x.shape) != 4 or len(weights.shape) != 3:
            raise TypeMismatch("depthwise_conv2d needs an input of rank 4 and weights of rank 3")
        channels = weights.shape[2]
        if x.shape[3] < 1 or channels % x.shape[3]:
            raise TypeMismatch(f"{channels} output channels from {x.shape[3]} input channels")
        if bias.shape != (channels,):
            raise TypeMismatch(f"bias {list(bias.shape)} for {channels} channels")
        height, width = (
            output_extent(x.shape[axis + 1], weights.shape[axis], attrs.stride[axis],
                          attrs.dilation[axis], attrs.padding[axis])
            for axis in (0, 1)
        )  # fmt: skip
        return (TensorType((x.shape[0], height, width, channels), dtype),)

    def evaluate(
        self,
        attrs: DepthwiseConv2dAttrs,
        inputs: Sequence[Array],
        input_types: Sequence[TensorType],
        output_types: Sequence[TensorType],
    ) -> tuple[Array, ...]:
        """Tap by tap; integers in the accumulators' dtype, which wraps as those of C do."""
        x, weights, bias = inputs
        output = output_types[0]
        accumulate = np.dtype(output.dtype)
        if output.is_float:
            padded = pad_hw(x, attrs.padding, 0.0)
            bias = without_negative_zeros(bias)
        else:
            padded = pad_hw(centred(x, input_types[0]), attrs.padding, 0.0).astype(accumulate)
        multiplier = weights.shape[2] // x.shape[3]
        if multiplier > 1:
            padded = np.repeat(padded, multiplier, axis=3)
        wide = weights.astype(accumulate)
        total = np.empty(output.shape, accumulate)
        total[...] = bias.astype(accumulate)
        kernel = weights.shape[:2]
        windows = taps(padded, kernel, attrs.stride, attrs.dilation, output.shape[1:3])
        with np.errstate(over="ignore", invalid="ignore"):
            for y, left, view in windows:
                total += view * wide[y, left]
        return (total,)

    def macs(self, attrs: DepthwiseConv2dAttrs, inputs: Sequence[TensorType]) -> int:
        """Every tap of every output element, padding included."""
        (output,) = self.infer(attrs, *inputs)
        return output.elements * inputs[1].shape[0] * inputs[1].shape[1]

    def row_window(
        self, attrs: DepthwiseConv2dAttrs, inputs: Sequence[TensorType]
    ) -> RowWindow | None:
        """By the window's height and stride."""
        reach = (inputs[1].shape[0] - 1) * attrs.dilation[0] + 1
        return RowWindow(reach, attrs.stride[0], attrs.padding[0][0])

    def attrs_for_rows(
        self, attrs: DepthwiseConv2dAttrs, top: int, bottom: int
    ) -> DepthwiseConv2dAttrs:
        """With the padding that this row sees."""
        return replace(attrs, padding=((top, bottom), attrs.padding[1]))

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One accumulation per output element; padding is clipped from the kernel's ranges."""
        attrs: DepthwiseConv2dAttrs = node.attrs
        x, w, bias = tensor_of(inputs[0]), constant_of(inputs[1]).data, constant_of(inputs[2]).data
        (stride_h, stride_w), (dilation_h, dilation_w) = attrs.stride, attrs.dilation
        (top, _), (left, _) = attrs.padding
        _, height, width, channels = x.shape
        kernel_h, kernel_w, outputs = w.shape
        each = outputs // channels  # the channel multiplier
        offset, bias = fold_offset(node, bias, weight_sums(w, (0, 1)))
        weights, biases = target.table("w", w), target.table("bias", bias)
        target.window = known_window(node, (kernel_h, kernel_w))
        rows = clipped(height, kernel_h, stride_h, dilation_h, top)
        columns = clipped(width, kernel_w, stride_w, dilation_w, left)
        return target.reduce(
            "acc",
            node.output.type.shape,
            node.output.type.dtype,
            [
                ("kh", lambda n, h, w, c: rows[0](h), lambda n, h, w, c: rows[1](h)),
                ("kw", lambda n, h, w, c: columns[0](w), lambda n, h, w, c: columns[1](w)),
            ],
            init=lambda n, h, w, c: biases[c],
            update=lambda acc, n, h, w, c, kh, kw: (
                acc
                + widened(
                    x[
                        n,
                        h * stride_h + kh * dilation_h - top,
                        w * stride_w + kw * dilation_w - left,
                        c // each,
                    ],
                    acc,
                    offset,
                )
                * cast(weights[kh, kw, c], acc.dtype)
            ),
        )

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """Conv with a group for each channel: [KH, KW, O] becomes [O, 1, KH, KW]."""

        def change(data: Array) -> Array:
            return data.transpose(2, 0, 1)[:, np.newaxis]

        write_convolution(out, node, change, group=node.inputs[0].type.shape[3])


@from_tflite("DEPTHWISE_CONV_2D")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite DEPTHWISE_CONV_2D, weights [1, KH, KW, O]; `depth_multiplier` follows from them."""
    x, weights, bias = tflite_operands(builder, raw, channel_axis=3, hybrid=True)
    if len(x.type.shape) != 4 or len(weights.type.shape) != 4 or weights.type.shape[0] != 1:
        raise ImportFailed("the input is not [N, H, W, C] or the weights are not [1, KH, KW, O]")
    _, kernel_h, kernel_w, channels = weights.type.shape
    stride, dilation = raw.attribute("stride"), raw.attribute("dilation", (1, 1))
    attrs = DepthwiseConv2dAttrs(
        stride=stride,
        dilation=dilation,
        padding=tflite_padding(raw, x.type.shape[1:3], (kernel_h, kernel_w), stride, dilation),
    )
    quant = weights.type.quant
    if quant is not None and quant.axis is not None:
        quant = quant.with_axis(2)
    flat = builder.constant(
        weights.name, weights.data.reshape(kernel_h, kernel_w, channels), quant, weights.origin
    )
    if x.type.is_float and not weights.type.is_float:
        rescale = hybrid_rescale(weights.type, channels, depthwise=True)
        return append_hybrid(builder, raw, "depthwise_conv2d", (x, flat, bias), attrs, rescale)
    if x.type.is_float:
        return append_activation(builder, raw, "depthwise_conv2d", [x, flat, bias], attrs)
    multiplier = product_multipliers(x.type, offset_scales(weights, channels), raw.output_types[0])
    acc = append_products(builder, raw, "depthwise_conv2d", [x, flat, bias], attrs)
    return append_requantize(builder, raw, acc, multiplier)
