"""direct_conv: a convolution over any number of axes, whose weights may be computed.

Its tensors are as ONNX has them, channels first. Where weights are constants and there are one or
two axes, `conv2d` and `depthwise_conv2d` are faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node
from edgec.graph.ir import Value as Graph
from edgec.graph.operator import Fusion, register
from edgec.graph.types import TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, index, maximum, minimum, select
from edgec.ops.add import AddAttrs
from edgec.ops.broadcast import operand_tensors
from edgec.ops.onnx_graph import OnnxGraph, write_own
from edgec.ops.op import Op, RawNode
from edgec.ops.reshape import ReshapeAttrs


@dataclass(frozen=True)
class DirectConvAttrs:
    """strides, dilations: for each axis. padding: zeros before and after each. groups: of channels
    that do not meet.
    """

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    groups: int = 1


def _placed_windows(
    attrs: DirectConvAttrs, extents: Sequence[int], sizes: Sequence[int]
) -> list[int]:
    """Number of windows of these sizes along each axis."""
    shape = []
    for axis, (extent, size) in enumerate(zip(extents, sizes, strict=True)):
        reach = (size - 1) * attrs.dilations[axis] + 1
        shape.append((extent + sum(attrs.padding[axis]) - reach) // attrs.strides[axis] + 1)
    return shape


@register
class DirectConv(Op[DirectConvAttrs]):
    """x [N, C, ...] by weights [O, C / groups, ...] -> [N, O, ...], of float32 or int32."""

    name = "direct_conv"
    attrs_class = DirectConvAttrs
    fusion = Fusion.OPAQUE
    tolerance = 2e-6

    def infer(self, attrs: DirectConvAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Both of one rank and dtype."""
        x, w = inputs
        text = f"direct_conv of {x} by {w}"
        if x.dtype not in ("float32", "int32") or (x.dtype, x.quant, w.quant) != (
            w.dtype,
            None,
            None,
        ):
            raise TypeMismatch(f"{text}: both must be float32 or int32")
        axes = len(x.shape) - 2
        sizes = {len(attrs.strides), len(attrs.dilations), len(attrs.padding), len(w.shape) - 2}
        least = min(axes, *attrs.strides, *attrs.dilations, attrs.groups)
        if least < 1 or sizes != {axes}:
            raise TypeMismatch(f"{text}: its strides and padding have another number of axes")
        if w.shape[1] * attrs.groups != x.shape[1] or w.shape[0] % attrs.groups:
            raise TypeMismatch(f"{text} in {attrs.groups} groups")
        shape = _placed_windows(attrs, x.shape[2:], w.shape[2:])
        if min(shape) < 1:
            raise TypeMismatch(f"{text}: the window exceeds the input")
        return (TensorType((x.shape[0], w.shape[0], *shape), x.dtype),)

    def macs(self, attrs: DirectConvAttrs, inputs: Types) -> int:
        """Elements of the output times elements of a window."""
        return self.infer(attrs, *inputs)[0].elements * prod(inputs[1].shape[1:])

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One sum for each output; inputs outside of x count as 0."""
        attrs: DirectConvAttrs = node.attrs
        x, w = operand_tensors(target, inputs)
        axes, depth, each = len(x.shape) - 2, w.shape[1], w.shape[0] // attrs.groups

        def update(acc: Value, n: Any, o: Any, *at: Any) -> Any:
            spatial, c, taps = at[:axes], at[axes], at[axes + 1 :]
            places, inside = [], None
            for axis, extent in enumerate(x.shape[2:]):
                before, after = attrs.padding[axis]
                place = spatial[axis] * attrs.strides[axis] + taps[axis] * attrs.dilations[axis]
                if before or after:
                    place = place - before
                    here = (index(place) >= 0) & (index(place) < extent)
                    inside = here if inside is None else inside & here
                    place = minimum(maximum(place, 0), extent - 1)
                places.append(place)
            found = x[(n, o // each * depth + c if attrs.groups > 1 else c, *places)]
            found = found if inside is None else select(inside, found, 0)
            return acc + found * w[(o, c, *taps)]

        reduced = [("c", 0, depth), *((f"k{n}", 0, size) for n, size in enumerate(w.shape[2:]))]
        return target.reduce(
            "sum", node.output.type.shape, x.dtype, reduced, init=lambda *at: 0, update=update
        )

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """Conv of floats."""
        attrs: DirectConvAttrs = node.attrs
        if node.output.type.dtype != "float32":
            raise ImportFailed(f"{node.name}: ONNX has no such convolution of {node.output.type}")
        pads = [pair[side] for side in (0, 1) for pair in attrs.padding]
        write_own(out, node, "Conv", strides=attrs.strides, dilations=attrs.dilations, pads=pads,
                  group=attrs.groups)  # fmt: skip


def append_direct(builder: GraphBuilder, raw: RawNode) -> Graph:
    """ONNX Conv of any operands, with its bias."""
    x, w = raw.operand(0), raw.operand(1)
    axes = len(x.type.shape) - 2
    if axes < 1 or len(w.type.shape) != axes + 2:
        raise ImportFailed(f"an input of rank {len(x.type.shape)} by weights {w.type}")
    strides, dilations = (
        tuple(int(n) for n in raw.attribute(key, (1,) * axes)) for key in ("strides", "dilations")
    )
    if len(strides) != axes or len(dilations) != axes:
        raise ImportFailed(f"strides {strides} and dilations {dilations} of {axes} axes")
    padding = window_padding(raw, x.type.shape[2:], w.type.shape[2:], strides, dilations)
    attrs = DirectConvAttrs(strides, dilations, padding, int(raw.attribute("group", 1)))
    if raw.optional(2) is None:
        return builder.op("direct_conv", [x, w], attrs, name=raw.name)
    products = builder.op("direct_conv", [x, w], attrs, name=f"{raw.name}/products",
                          sources=(raw.name,))  # fmt: skip
    flat = ReshapeAttrs((w.type.shape[0], *(1 for _ in range(axes))))
    bias = builder.op("reshape", [raw.operand(2)], flat, name=f"{raw.name}/bias", sources=())
    if x.type.dtype == "int32":
        return builder.op("int_add", [products, bias], name=raw.name)
    return builder.op("add", [products, bias], AddAttrs(), name=raw.name)


def window_padding(
    raw: RawNode, extents: Sequence[int], kernel: Sequence[int], strides: Sequence[int],
    dilations: Sequence[int],
) -> tuple[tuple[int, int], ...]:  # fmt: skip
    """The padding of each axis, as `pads` or `auto_pad` say."""
    automatic, axes = raw.attribute("auto_pad", "NOTSET"), len(extents)
    if automatic == "VALID":
        return ((0, 0),) * axes
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        pairs = []
        for extent, size, stride, dilation in zip(extents, kernel, strides, dilations, strict=True):
            count = -(-extent // stride)
            whole = max((count - 1) * stride + (size - 1) * dilation + 1 - extent, 0)
            ends = (whole // 2, whole - whole // 2)
            pairs.append(ends if automatic == "SAME_UPPER" else ends[::-1])
        return tuple(pairs)
    pads = tuple(int(p) for p in raw.attribute("pads", (0,) * 2 * axes))
    if automatic != "NOTSET" or len(pads) != 2 * axes or min(pads, default=0) < 0:
        raise ImportFailed(f"auto_pad {automatic!r} with pads {pads}")
    return tuple(zip(pads[:axes], pads[axes:], strict=True))
