"""direct_conv_transpose: a transposed convolution over any number of axes, of computed weights.

Its tensors are as ONNX has them, channels first. Each element of the result takes the products of
the windows that cover it. Where weights are constants and there are two axes, `transpose_conv2d` is
faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node
from edgec.graph.ir import Value as Graph
from edgec.graph.operator import Fusion, register
from edgec.graph.types import TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, index, int32, maximum, minimum, select
from edgec.ops.add import AddAttrs
from edgec.ops.broadcast import operand_tensors
from edgec.ops.onnx_graph import OnnxGraph, write_own
from edgec.ops.op import Op, RawNode, from_onnx
from edgec.ops.reshape import ReshapeAttrs


@dataclass(frozen=True)
class DirectConvTransposeAttrs:
    """strides, dilations: for each axis. before: elements cut off at the start of each axis. shape:
    of the result. groups: channel groups.
    """

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    shape: tuple[int, ...]
    groups: int = 1


@register
class DirectConvTranspose(Op[DirectConvTransposeAttrs]):
    """x [N, C, ...] by weights [C, O / groups, ...] -> [N, O, ...], of float32."""

    name = "direct_conv_transpose"
    attrs_class = DirectConvTransposeAttrs
    fusion = Fusion.OPAQUE
    tolerance = 2e-6

    def infer(self, attrs: DirectConvTransposeAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The attributes' extents."""
        x, w = inputs
        text = f"direct_conv_transpose of {x} by {w}"
        if x.dtype != "float32" or w.dtype != "float32":
            raise TypeMismatch(f"{text}: both must be float32")
        _check_axes(attrs, x, w)
        if w.shape[0] != x.shape[1] or x.shape[1] % attrs.groups:
            raise TypeMismatch(f"{text} in {attrs.groups} groups")
        return (TensorType((x.shape[0], w.shape[1] * attrs.groups, *attrs.shape), x.dtype),)

    def macs(self, attrs: DirectConvTransposeAttrs, inputs: Types) -> int:
        """Elements of the input times elements of a window."""
        return inputs[0].elements * prod(inputs[1].shape[1:])

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One accumulation for each element, over all taps; those between elements are 0."""
        attrs: DirectConvTransposeAttrs = node.attrs
        x, w = operand_tensors(target, inputs)
        axes, each, depth = len(attrs.shape), w.shape[1], x.shape[1] // attrs.groups

        def update(acc: Value, n: Any, o: Any, *at: Any) -> Any:
            spatial, c, taps = at[:axes], at[axes], at[axes + 1 :]
            places, covers = [], None
            for axis, extent in enumerate(x.shape[2:]):
                reach = spatial[axis] + attrs.before[axis] - taps[axis] * attrs.dilations[axis]
                place, here = _source(index(reach), attrs.strides[axis], extent)
                covers = here if covers is None else covers & here
                places.append(place)
            channel = o // each * depth + c if attrs.groups > 1 else c
            own = o % each if attrs.groups > 1 else o
            assert covers is not None
            product = x[(n, channel, *places)] * w[(channel, own, *taps)]
            return acc + select(covers, product, 0.0)

        steps = [("c", 0, depth), *((f"k{n}", 0, size) for n, size in enumerate(w.shape[2:]))]
        shape = node.output.type.shape
        return target.reduce("acc", shape, x.dtype, steps, init=lambda *at: 0.0, update=update)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """ConvTranspose; where its result is longer than all windows, by output_padding."""
        attrs: DirectConvTransposeAttrs = node.attrs
        after = [
            stride * (extent - 1) + (size - 1) * dilation + 1 - before - wanted
            for stride, extent, size, dilation, before, wanted in zip(
                attrs.strides, node.inputs[0].type.shape[2:], node.inputs[1].type.shape[2:],
                attrs.dilations, attrs.before, attrs.shape, strict=True,
            )
        ]  # fmt: skip
        write_own(
            out, node, "ConvTranspose", strides=attrs.strides, dilations=attrs.dilations,
            pads=[*attrs.before, *(max(cut, 0) for cut in after)], group=attrs.groups,
            output_padding=[max(-cut, 0) for cut in after],
        )  # fmt: skip


def _check_axes(attrs: DirectConvTransposeAttrs, x: TensorType, w: TensorType) -> None:
    text, axes = f"direct_conv_transpose of {x} by {w}", len(x.shape) - 2
    listed = (attrs.strides, attrs.dilations, attrs.before, attrs.shape, w.shape[2:])
    if axes < 1 or {len(each) for each in listed} != {axes}:
        raise TypeMismatch(f"{text}: its strides and extents have another number of axes")
    if min(*attrs.strides, *attrs.dilations, *attrs.shape, attrs.groups) < 1 or 0 in x.shape:
        raise TypeMismatch(f"{text} to {list(attrs.shape)}")


def _source(reach: Value, stride: int, extent: int) -> tuple[Value, Value]:
    """The element that a tap reads, limited to the input, and whether there is one."""
    inside = (reach >= 0) & (reach < extent * stride)
    limited: Value = int32(minimum(maximum(reach, 0), extent * stride - 1))
    place = limited / stride
    return place, inside & (place * stride).equals(limited)


def _numbers(raw: RawNode, key: str, count: int, default: int) -> tuple[int, ...]:
    found = tuple(int(n) for n in raw.attribute(key, (default,) * count))
    if len(found) != count:
        raise ImportFailed(f"{key} {list(found)} of {count} axes")
    return found


def _geometry(raw: RawNode, groups: int) -> DirectConvTransposeAttrs:
    """Extents are stride (extent - 1) + reach + output_padding - pads, or given: then pads are."""
    x, w = raw.operand(0).type, raw.operand(1).type
    axes = len(x.shape) - 2
    if axes < 1 or len(w.shape) != axes + 2:
        raise ImportFailed(f"an input of rank {len(x.shape)} by weights {w}")
    strides, dilations = (_numbers(raw, key, axes, 1) for key in ("strides", "dilations"))
    more, pads = _numbers(raw, "output_padding", axes, 0), _numbers(raw, "pads", 2 * axes, 0)
    whole = [
        strides[n] * (x.shape[n + 2] - 1) + (w.shape[n + 2] - 1) * dilations[n] + 1 + more[n]
        for n in range(axes)
    ]
    automatic = raw.attribute("auto_pad", "NOTSET")
    if raw.attribute("output_shape") is not None:
        shape = _numbers(raw, "output_shape", axes, 0)
    elif automatic in ("SAME_UPPER", "SAME_LOWER"):
        shape = tuple(strides[n] * x.shape[n + 2] for n in range(axes))
    else:
        shape = tuple(whole[n] - pads[n] - pads[n + axes] for n in range(axes))
        return DirectConvTransposeAttrs(strides, dilations, pads[:axes], shape, groups)
    cut = [max(whole[n] - shape[n], 0) for n in range(axes)]
    before = tuple(c // 2 if automatic == "SAME_UPPER" else c - c // 2 for c in cut)
    return DirectConvTransposeAttrs(strides, dilations, before, shape, groups)


def append_direct_transpose(builder: GraphBuilder, raw: RawNode) -> Graph:
    """ONNX ConvTranspose of any operands, with its bias."""
    attrs = _geometry(raw, int(raw.attribute("group", 1)))
    operands, name = [raw.operand(0), raw.operand(1)], raw.name
    if raw.optional(2) is None:
        return builder.op("direct_conv_transpose", operands, attrs, name=name)
    made = builder.op("direct_conv_transpose", operands, attrs, name=f"{name}/products",
                      sources=(name,))  # fmt: skip
    flat = ReshapeAttrs((made.type.shape[1], *(1 for _ in attrs.shape)))
    bias = builder.op("reshape", [raw.operand(2)], flat, name=f"{name}/bias", sources=())
    return builder.op("add", [made, bias], AddAttrs(), name=name)


@from_onnx("Col2Im", since=18)
def import_col2im(builder: GraphBuilder, raw: RawNode) -> Graph:
    """ONNX Col2Im: windows added up where they overlap, as a transposed convolution by ones."""
    x = raw.operand(0)
    image, block = (
        [int(n) for n in raw.constant(position, what).data.reshape(-1)]
        for position, what in ((1, "the image's shape"), (2, "the block's shape"))
    )
    axes, taps = len(block), prod(block)
    strides, dilations = (_numbers(raw, key, axes, 1) for key in ("strides", "dilations"))
    pads = _numbers(raw, "pads", 2 * axes, 0)
    extents = [
        (image[n] + pads[n] + pads[n + axes] - dilations[n] * (block[n] - 1) - 1) // strides[n] + 1
        for n in range(axes)
    ]
    if len(x.type.shape) != 3 or not taps or x.type.shape[1] % taps:
        raise ImportFailed(f"blocks of {block} in {x.type}")
    if prod(extents) != x.type.shape[2]:
        raise ImportFailed(f"{x.type.shape[2]} blocks, not {extents}")
    samples, channels = x.type.shape[0], x.type.shape[1] // taps
    source = ReshapeAttrs((samples * channels, taps, *extents))
    columns = builder.op("reshape", [x], source, name=f"{raw.name}/columns", sources=())
    ones = np.eye(taps, dtype=np.float32).reshape(taps, 1, *block)
    weights = builder.constant(f"{raw.name}.ones", ones)
    attrs = DirectConvTransposeAttrs(strides, dilations, pads[:axes], tuple(image))
    made = builder.op("direct_conv_transpose", [columns, weights], attrs, name=f"{raw.name}/sum",
                      sources=(raw.name,))  # fmt: skip
    return builder.op("reshape", [made], ReshapeAttrs((samples, channels, *image)), name=raw.name)
