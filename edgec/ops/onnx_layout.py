"""Between ONNX's channels-first layout and the channels-last one that operators work in.

An importer wraps an operator in transposes; the pass `sink_transposes` removes them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.graph.types import Quant
from edgec.ops.op import RawNode
from edgec.ops.transpose import dequantized, transposed
from edgec.ops.window import Padding, Pair, same_padding

TO_LAST = (0, 2, 3, 1)
TO_FIRST = (0, 3, 1, 2)


def channels_last(builder: GraphBuilder, value: Value) -> Value:
    """NCHW to NHWC."""
    if len(value.type.shape) != 4:
        raise ImportFailed(f"an input of rank {len(value.type.shape)}: only 2-D images are known")
    return transposed(builder, value, TO_LAST, f"{value.name}.nhwc")


def channels_first(builder: GraphBuilder, value: Value, raw: RawNode) -> Value:
    """NHWC to NCHW, as the source's own output."""
    return builder.op(
        "transpose", [value], _attrs(TO_FIRST), name=f"{raw.name}.nchw", sources=(raw.name,)
    )


def _attrs(permutation: tuple[int, ...]) -> Any:
    from edgec.ops.transpose import TransposeAttrs

    return TransposeAttrs(permutation)


def rearranged_weights(
    builder: GraphBuilder, value: Value, permutation: tuple[int, ...], shape: tuple[int, ...]
) -> Value:
    """Constant weights, float or dequantized, transposed and then seen as `shape`.

    Quantization per output channel ends on the axis of `shape` that holds the channels, which
    must be as long as the scales. Raises ImportFailed for weights that are computed.
    """
    if isinstance(value, Constant):
        return builder.constant(
            f"{value.name}.hwc", np.transpose(value.data, permutation).reshape(shape).copy()
        )
    node = dequantized(builder, value)
    if node is not None:
        stored = node.inputs[0]
        assert isinstance(stored, Constant) and stored.type.quant is not None
        data = np.transpose(stored.data, permutation).reshape(shape).copy()
        quant = _moved(stored.type.quant, permutation, shape)
        kept = builder.constant(f"{stored.name}.hwc", data, quant)
        return builder.op("dequantize", [kept], name=node.name, sources=node.sources)
    raise ImportFailed("weights that are computed are not supported: they must be constants")


def _moved(quant: Quant, permutation: tuple[int, ...], shape: tuple[int, ...]) -> Quant:
    if quant.axis is None:
        return quant
    position = permutation.index(quant.axis)
    while position >= len(shape) or shape[position] != len(quant.scale):
        position -= 1  # an axis of extent 1 after it was dropped
        if position < 0:
            raise ImportFailed("scales along an axis that is not the output channels")
    return quant.with_axis(position)


def is_computed(builder: GraphBuilder, value: Value | None) -> bool:
    """Whether a value depends on inputs of the model."""
    if value is None or isinstance(value, Constant) or dequantized(builder, value) is not None:
        return False
    read, made = {value}, set[Value]()
    for node in reversed(builder.nodes):
        if not read.isdisjoint(node.outputs):
            made.update(node.outputs)
            read.update(each for each in node.inputs if not isinstance(each, Constant))
    return not read <= made


def bias_of(builder: GraphBuilder, raw: RawNode, channels: int, dtype: str) -> Value:
    """The third input, or zeros. Raises ImportFailed for a bias that is computed."""
    if raw.optional(2) is not None:
        bias: Value = raw.operand(2)
        if is_computed(builder, bias):
            raise ImportFailed("a bias that is computed")
        return bias
    return builder.constant(f"{raw.name}.bias", np.zeros(channels, dtype))


def onnx_window(raw: RawNode, extents: Sequence[int], kernel: Pair) -> tuple[Pair, Pair, Padding]:
    """(stride, dilation, padding) of a Conv or pool node with two spatial axes.

    `ceil_mode` becomes padding at the end, enough for one more window that begins inside.
    """
    stride = _pair(raw, "strides", 1)
    dilation = _pair(raw, "dilations", 1)
    automatic = raw.attribute("auto_pad", "NOTSET")
    if automatic == "VALID":
        pairs = [(0, 0), (0, 0)]
    elif automatic in ("SAME_UPPER", "SAME_LOWER"):
        _check_same(automatic, extents, kernel, stride, dilation)
        pairs = [same_padding(extents[i], kernel[i], stride[i], dilation[i]) for i in (0, 1)]
        if automatic == "SAME_LOWER":
            pairs = [(second, first) for first, second in pairs]
    elif automatic == "NOTSET":
        pads = tuple(int(p) for p in raw.attribute("pads", (0, 0, 0, 0)))
        if len(pads) != 4:
            raise ImportFailed(f"pads {pads}: only 2-D windows are known")
        pairs = [(pads[0], pads[2]), (pads[1], pads[3])]
    else:
        raise ImportFailed(f"auto_pad {automatic!r} is unknown")
    if raw.attribute("ceil_mode", 0):
        pairs = [
            (
                first,
                last + _ceil_padding(extents[i] + first, last, kernel[i], stride[i], dilation[i]),
            )
            for i, (first, last) in enumerate(pairs)
        ]
    return stride, dilation, (pairs[0], pairs[1])


def _check_same(
    automatic: str, extents: Sequence[int], kernel: Pair, stride: Pair, dilation: Pair
) -> None:
    """Refuse SAME where windows leave three elements or more unread.

    The standard pads nothing there; ONNX Runtime starts at another element.
    """
    for i in (0, 1):
        read = (-(-extents[i] // stride[i]) - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1
        if extents[i] - read > 2:
            raise ImportFailed(
                f"auto_pad {automatic} with a stride of {stride[i]} over windows of {kernel[i]}:"
                " ONNX Runtime reads other elements than the standard says; give pads instead"
            )


def _ceil_padding(inside: int, after: int, kernel: int, stride: int, dilation: int) -> int:
    """Padding for the window after the last whole one; none if it would begin in the padding.

    A window that is larger than all is padded where it is the only one.

    inside: the padding before and the extent.
    """
    reach = (kernel - 1) * dilation + 1
    room = inside + after - reach
    if room < 0:
        return -room if -room < stride else 0
    if stride < 1 or room % stride == 0 or (room // stride + 1) * stride >= inside:
        return 0
    return stride - room % stride


def _pair(raw: RawNode, name: str, default: int) -> Pair:
    values = tuple(int(v) for v in raw.attribute(name, (default, default)))
    if len(values) != 2:
        raise ImportFailed(f"{name} {values}: only 2-D windows are known")
    return values[0], values[1]
