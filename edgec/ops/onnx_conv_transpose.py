"""ONNX ConvTranspose of images, as `edgec.ops.transpose_conv2d`."""

from __future__ import annotations

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.ops.direct_conv_transpose import append_direct_transpose
from edgec.ops.onnx_layout import (
    bias_of,
    channels_first,
    channels_last,
    onnx_window,
    rearranged_weights,
)
from edgec.ops.op import RawNode, from_onnx
from edgec.ops.transpose import dequantized
from edgec.ops.transpose_conv2d import TransposeConv2dAttrs


@from_onnx("ConvTranspose")
def import_conv_transpose(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX ConvTranspose: of images by constants in one group as such, else of any operands."""
    first, weights = len(builder.nodes), raw.operand(1)
    if isinstance(weights, Constant) or dequantized(builder, weights) is not None:
        try:
            return _of_images(builder, raw)
        except (ImportFailed, TypeMismatch):
            del builder.nodes[first:]
    return append_direct_transpose(builder, raw)


def _of_images(builder: GraphBuilder, raw: RawNode) -> Value:
    """Two spatial axes, one group and no dilation.

    Output extents are stride (extent - 1) + kernel + output_padding - pads.
    """
    x, weights = raw.operand(0), raw.operand(1)
    if {len(x.type.shape), len(weights.type.shape)} != {4}:
        raise ImportFailed("only 2-D transposed convolutions are supported")
    depth, outputs, *kernel = weights.type.shape
    is_plain = (
        raw.attribute("auto_pad", "NOTSET") in ("NOTSET", "VALID"),
        raw.attribute("output_shape") is None,
        int(raw.attribute("group", 1)) == 1,
        depth == x.type.shape[1],
    )
    if not all(is_plain):
        raise ImportFailed("only one group with padding as numbers is one of images")
    stride, dilation, pads = onnx_window(raw, x.type.shape[2:], (kernel[0], kernel[1]))
    if dilation != (1, 1) or min(*pads[0], *pads[1]) < 0:
        raise ImportFailed(f"dilation {dilation} and padding {pads}")
    more = tuple(int(n) for n in raw.attribute("output_padding", (0, 0)))
    if len(more) != 2:
        raise ImportFailed(f"output_padding {more}")
    height, width = (
        stride[n] * (x.type.shape[n + 2] - 1) + kernel[n] + more[n] - sum(pads[n]) for n in (0, 1)
    )
    if min(height, width) < 1:
        raise ImportFailed(f"an output of {height} x {width}")
    ohwi = (outputs, kernel[0], kernel[1], depth)
    operands = [
        channels_last(builder, x),
        rearranged_weights(builder, weights, (1, 2, 3, 0), ohwi),
        bias_of(builder, raw, outputs, "float32"),
    ]
    attrs = TransposeConv2dAttrs(stride, (pads[0][0], pads[1][0]), (height, width))
    made = builder.op(
        "transpose_conv2d", operands, attrs, name=raw.name, output_names=[f"{raw.name}.nhwc"]
    )
    return channels_first(builder, made, raw)
