"""ONNX convolutions and pools: over one or two axes, in groups, with any padding.

A node over one axis is one over images of height 1. Groups become convolutions of their own, side
by side, but for one group for each channel, which is depthwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.ops.avg_pool2d import AvgPool2dAttrs
from edgec.ops.concat import ConcatAttrs
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.ops.direct_conv import append_direct
from edgec.ops.direct_pool import append_pool
from edgec.ops.max_pool2d import MaxPool2dAttrs
from edgec.ops.onnx_layout import (
    bias_of,
    channels_first,
    channels_last,
    is_computed,
    onnx_window,
    rearranged_weights,
)
from edgec.ops.op import RawNode, from_onnx
from edgec.ops.pad import PadAttrs
from edgec.ops.quantize import QuantizeAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.slice import sliced
from edgec.ops.transpose import dequantized
from edgec.ops.window import NO_PADDING, Padding, Pair

Import2d = Callable[[GraphBuilder, RawNode], Value]

#: Attributes with a number for each axis, and the number for one more axis.
_BY_AXIS = (("strides", 1), ("dilations", 1), ("kernel_shape", 1))


def _over_images(builder: GraphBuilder, raw: RawNode, run: Import2d, weights: bool) -> Value:
    """`run`, which knows images; inputs over one axis become images of height 1 around it.

    weights: the second input is seen in the same way.
    """
    x = raw.operand(0)
    rank = len(x.type.shape)
    if rank == 4:
        return run(builder, raw)
    if rank != 3:
        raise ImportFailed(f"an input of rank {rank}: only one or two axes are supported")
    inputs = [_reshaped(builder, raw, x, (*x.type.shape[:2], 1, x.type.shape[2]), "image")]
    rest = list(raw.inputs[1:])
    if weights:
        taps = raw.operand(1)
        outputs, depth, length = taps.type.shape
        rest[0] = rearranged_weights(builder, taps, (0, 1, 2), (outputs, depth, 1, length))
    attributes = dict(raw.attributes)
    for key, first in _BY_AXIS:
        if key in attributes:
            attributes[key] = (first, *attributes[key])
    if "pads" in attributes:
        begin, end = attributes["pads"]
        attributes["pads"] = (0, begin, 0, end)
    part = replace(raw, attributes=attributes, inputs=(*inputs, *rest), name=f"{raw.name}/image")
    made = run(builder, part)
    flat = ReshapeAttrs((*made.type.shape[:2], made.type.shape[3]))
    return builder.op("reshape", [made], flat, name=raw.name)


def _reshaped(
    builder: GraphBuilder, raw: RawNode, x: Value, shape: tuple[int, ...], what: str
) -> Value:
    attrs = ReshapeAttrs(shape)
    return builder.op("reshape", [x], attrs, name=f"{raw.name}/{what}", sources=(raw.name,))


@from_onnx("Conv")
def import_conv(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Conv, in any number of groups; of images and lines by constants as one over images."""
    weights = raw.operand(1)
    is_known = isinstance(weights, Constant) or dequantized(builder, weights) is not None
    is_known &= not is_computed(builder, raw.optional(2))
    if not is_known or len(weights.type.shape) > 4 or raw.operand(0).type.dtype == "int32":
        return append_direct(builder, raw)
    return _over_images(builder, raw, _conv, weights=True)


def _conv(builder: GraphBuilder, raw: RawNode) -> Value:
    x, weights = raw.operand(0), raw.operand(1)
    if len(weights.type.shape) != 4:
        raise ImportFailed(f"weights of rank {len(weights.type.shape)}")
    outputs, depth, height, width = weights.type.shape
    groups, channels = int(raw.attribute("group", 1)), x.type.shape[1]
    if groups < 1 or depth * groups != channels or outputs % groups:
        raise ImportFailed(f"{groups} groups of {channels} channels with weights {weights.type}")
    stride, dilation, padding = onnx_window(raw, x.type.shape[2:], (height, width))
    most = ((height - 1) * dilation[0], (width - 1) * dilation[1])
    nhwc, padding = _padded(builder, raw, channels_last(builder, x), padding, most)
    bias = bias_of(builder, raw, outputs, "float32")
    if groups not in (1, channels):
        attrs = Conv2dAttrs(stride, dilation, padding)
        return channels_first(
            builder, _groups(builder, raw, nhwc, weights, bias, groups, attrs), raw
        )
    if groups == 1:
        weights = rearranged_weights(
            builder, weights, (0, 2, 3, 1), (outputs, height, width, depth)
        )
        result = builder.op(
            "conv2d", [nhwc, weights, bias], Conv2dAttrs(stride, dilation, padding), name=raw.name
        )
    else:
        weights = rearranged_weights(builder, weights, (2, 3, 0, 1), (height, width, outputs))
        result = builder.op(
            "depthwise_conv2d", [nhwc, weights, bias],
            DepthwiseConv2dAttrs(stride, dilation, padding), name=raw.name,
        )  # fmt: skip
    return channels_first(builder, result, raw)


def _padded(
    builder: GraphBuilder, raw: RawNode, nhwc: Value, padding: Padding, most: Pair
) -> tuple[Value, Padding]:
    """The input and the padding that is left: a copy has what exceeds `most` along an axis.

    Windows that lie in the padding alone are the bias; `conv2d` knows none.
    """
    own = tuple((min(a, n), min(b, n)) for (a, b), n in zip(padding, most, strict=True))
    kept: Padding = (own[0], own[1])
    if kept == padding or min(map(min, padding)) < 0:
        return nhwc, padding
    more = [(a - c, b - d) for (a, b), (c, d) in zip(padding, kept, strict=True)]
    around = PadAttrs(((0, 0), *more, (0, 0)))
    name, sources = f"{raw.name}/pad", (raw.name,)
    return builder.op("pad", [nhwc], around, name=name, sources=sources), kept


def _groups(
    builder: GraphBuilder, raw: RawNode, nhwc: Value, weights: Value, bias: Value, groups: int,
    attrs: Conv2dAttrs,
) -> Value:  # fmt: skip
    """A convolution for each group of channels, joined."""
    outputs, depth, height, width = weights.type.shape
    each, parts = outputs // groups, []
    for group in range(groups):
        name, sources = f"{raw.name}/group{group}", (raw.name,)
        ranges = [(0, 1, extent) for extent in nhwc.type.shape[:3]]
        x = sliced(builder, nhwc, [*ranges, (group * depth, 1, depth)], f"{name}.x", sources)
        own = _rows(builder, weights, group * each, each)
        rows = rearranged_weights(builder, own, (0, 2, 3, 1), (each, height, width, depth))
        offsets = _rows(builder, bias, group * each, each)
        parts.append(builder.op("conv2d", [x, rows, offsets], attrs, name=name, sources=sources))
    return builder.op("concat", parts, ConcatAttrs(3), name=raw.name)


def _rows(builder: GraphBuilder, value: Value, first: int, count: int) -> Value:
    """Rows of constant weights or biases, dequantized where the whole is."""
    if isinstance(value, Constant):
        return builder.constant(f"{value.name}.{first}", value.data[first : first + count])
    node = dequantized(builder, value)
    stored = None if node is None else node.inputs[0]
    if node is None or not isinstance(stored, Constant) or stored.type.quant is None:
        raise ImportFailed("weights and biases of groups must be constants")
    quant = stored.type.quant.taken(0, range(first, first + count))
    kept = builder.constant(f"{stored.name}.{first}", stored.data[first : first + count], quant)
    return builder.op("dequantize", [kept], name=node.name, sources=node.sources)


@from_onnx("MaxPool")
def import_max_pool(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...] | Value:
    """ONNX MaxPool: of floats and stored integers over one or two axes as one over images."""
    x = raw.operand(0).type
    has_places = len(raw.outputs) > 1 and raw.outputs[1]
    is_plain = x.dtype == "uint8" and x.quant is None
    if has_places or is_plain or not _is_image(raw):
        return append_pool(builder, raw, "max")
    return _over_images(builder, raw, _max_pool, weights=False)


def _is_image(raw: RawNode) -> bool:
    """Whether windows have no gaps, over one or two axes."""
    return len(raw.operand(0).type.shape) < 5 and set(raw.attribute("dilations", ())) <= {1}


def _max_pool(builder: GraphBuilder, raw: RawNode) -> Value:
    kernel, stride, padding = _pool_window(raw)
    _check_padding(kernel, padding)
    x = channels_last(builder, raw.operand(0))
    attrs = MaxPool2dAttrs(kernel, stride, padding)
    quant = x.type.quant
    if x.type.dtype != "uint8" or quant is None:
        return channels_first(builder, builder.op("max_pool2d", [x], attrs, name=raw.name), raw)
    # In floats, as QDQ models have it: the passes make integers of it, in int8.
    x = builder.op("dequantize", [x], name=f"{raw.name}/dequantize", sources=(raw.name,))
    largest = builder.op("max_pool2d", [x], attrs, name=f"{raw.name}/float", sources=(raw.name,))
    stored = builder.op("quantize", [largest], QuantizeAttrs(quant, "uint8"), name=raw.name)
    return channels_first(builder, stored, raw)


@from_onnx("AveragePool")
def import_average_pool(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...] | Value:
    """ONNX AveragePool; padding is counted where `count_include_pad` says."""
    if not _is_image(raw):
        return append_pool(builder, raw, "mean")
    return _over_images(builder, raw, _average_pool, weights=False)


def _average_pool(builder: GraphBuilder, raw: RawNode) -> Value:
    kernel, stride, padding = _pool_window(raw)
    x = channels_last(builder, raw.operand(0))
    if raw.attribute("count_include_pad", 0) and padding != NO_PADDING:
        given = _given_padding(raw, padding)
        around = PadAttrs(((0, 0), *given, (0, 0)))
        x = builder.op("pad", [x], around, name=f"{raw.name}/pad", sources=(raw.name,))
        # The divisor does not count the padding that `ceil_mode` adds at the end.
        rest = [after - own for (_, after), (_, own) in zip(padding, given, strict=True)]
        padding = ((0, rest[0]), (0, rest[1]))
    _check_padding(kernel, padding)
    attrs = AvgPool2dAttrs(kernel, stride, padding)
    return channels_first(builder, builder.op("avg_pool2d", [x], attrs, name=raw.name), raw)


def _pool_window(raw: RawNode) -> tuple[Pair, Pair, Padding]:
    kernel = tuple(int(k) for k in raw.attribute("kernel_shape", ()))
    if len(kernel) != 2:
        raise ImportFailed(f"kernel_shape {kernel}")
    window = (kernel[0], kernel[1])
    stride, dilation, padding = onnx_window(raw, raw.operand(0).type.shape[2:], window)
    if dilation != (1, 1):
        raise ImportFailed("dilated pooling is not supported")
    return window, stride, padding


def _check_padding(kernel: Pair, padding: Padding) -> None:
    """Refuse windows that would have no element of the input."""
    for extent, pair in zip(kernel, padding, strict=True):
        if max(pair) >= extent:
            raise ImportFailed(
                f"padding {pair} is as wide as the window ({extent}): a window would have no"
                " element of the input, and ONNX Runtime refuses it, too; pad less, or use a"
                " Pad node"
            )


def _given_padding(raw: RawNode, padding: Padding) -> Padding:
    """The padding without the addition for `ceil_mode`."""
    if not raw.attribute("ceil_mode", 0):
        return padding
    pads = tuple(int(p) for p in raw.attribute("pads", (0, 0, 0, 0)))
    return ((pads[0], pads[2]), (pads[1], pads[3]))


@from_onnx("GlobalAveragePool")
def import_global_average(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX GlobalAveragePool over all axes after the channels."""
    return _global(builder, raw, "avg_pool2d", AvgPool2dAttrs)


@from_onnx("GlobalMaxPool")
def import_global_max(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX GlobalMaxPool over all axes after the channels."""
    return _global(builder, raw, "max_pool2d", MaxPool2dAttrs)


def _global(
    builder: GraphBuilder, raw: RawNode, kind: str, attrs: Callable[[Pair, Pair, Padding], Any]
) -> Value:
    x = raw.operand(0)
    shape: Sequence[int] = x.type.shape
    if len(shape) < 3:
        raise ImportFailed(f"an input of rank {len(shape)}")
    image = x
    if len(shape) != 4:
        image = _reshaped(builder, raw, x, (*shape[:2], 1, prod(shape[2:])), "image")
    kernel = (image.type.shape[2], image.type.shape[3])
    last = channels_last(builder, image)
    is_whole = len(shape) == 4
    name = raw.name if is_whole else f"{raw.name}/pool"
    made = builder.op(kind, [last], attrs(kernel, (1, 1), NO_PADDING), name=name)
    result = channels_first(builder, made, replace(raw, name=name))
    if is_whole:
        return result
    ones = ReshapeAttrs((*shape[:2], *(1 for _ in shape[2:])))
    return builder.op("reshape", [result], ones, name=raw.name)
