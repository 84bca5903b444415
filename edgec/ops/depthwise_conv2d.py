"""depthwise_conv2d: each output channel sums the window over one input channel only."""

from __future__ import annotations

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Node, Value
from edgec.graph.operator import register
from edgec.graph.traits import Products
from edgec.graph.types import Array, Arrays, TensorType, Types
from edgec.numerics.ordered_sum import without_negative_zeros
from edgec.ops.conv2d import Conv2dAttrs, WindowProducts, append_convolution, centred
from edgec.ops.onnx_graph import OnnxGraph, write_convolution
from edgec.ops.op import RawNode, from_tflite
from edgec.ops.requantize import tflite_operands
from edgec.ops.window import pad_hw, taps, tflite_padding


class DepthwiseConv2dAttrs(Conv2dAttrs):
    """The attributes of conv2d."""


@register
class DepthwiseConv2d(WindowProducts):
    """x [N, H, W, C], weights [KH, KW, O], bias [O] -> [N, OH, OW, O], O = C * multiplier.

    Output channel o reads input channel o // multiplier. Dtypes and arithmetic as `conv2d`.
    """

    name = "depthwise_conv2d"
    attrs_class = DepthwiseConv2dAttrs
    products = Products(outputs=2, inputs=None, window=(0, 1))

    def check_channels(self, channels: int, weights: TensorType) -> None:
        """Every input channel must have the same number of outputs."""
        outputs = weights.shape[2]
        if channels < 1 or outputs % channels:
            raise TypeMismatch(f"{outputs} output channels from {channels} input channels")

    def evaluate(
        self, attrs: Conv2dAttrs, inputs: Arrays, input_types: Types, output_types: Types
    ) -> tuple[Array, ...]:
        """Tap by tap; integers in the accumulators' dtype, which wraps as in C."""
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
    operands = (x, flat, bias)
    return append_convolution(builder, raw, "depthwise_conv2d", operands, weights, attrs, channels)
