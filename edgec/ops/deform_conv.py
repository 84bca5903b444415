"""deform_columns: the window elements of a deformable convolution, sampled at moved places.

A second input moves each window element by fractions of a pixel; a third one scales it. The samples
are columns (im2col), and the convolution is a matrix product with them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node
from edgec.graph.ir import Value as GraphValue
from edgec.graph.operator import Fusion, register
from edgec.graph.types import TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, cast, clamp, index, int32, intrinsic, select
from edgec.ops.broadcast import operand_tensors
from edgec.ops.onnx_emit import emitted
from edgec.ops.op import Op, RawNode, from_onnx


@dataclass(frozen=True)
class DeformAttrs:
    """Extents of the window, strides, dilations and padding before the first element, by axis.

    groups: the number of groups of channels; each has its own offsets.
    """

    window: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...]
    groups: int = 1


@register
class DeformColumns(Op[DeformAttrs]):
    """x float32 [N, C, ...], offsets [N, groups * window * axes, ...], weights of places
    [N, groups * window, ...] -> [N, C, window, ...].

    Between elements the result is linear, and outside of x it is 0.
    """

    name = "deform_columns"
    attrs_class = DeformAttrs
    fusion = Fusion.OPAQUE
    tolerance = 2e-6

    def infer(self, attrs: DeformAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The window's elements for each place of the offsets."""
        x, offsets, weights = inputs
        axes, window = len(x.shape) - 2, math.prod(attrs.window)
        _check(attrs, x)
        outputs = offsets.shape[2:]
        places = [(x.shape[0], attrs.groups * window * n, *outputs) for n in (axes, 1)]
        dtypes = {v.dtype for v in inputs}
        if [offsets.shape, weights.shape] != places or len(outputs) != axes or len(dtypes) > 1:
            raise TypeMismatch(f"deform_columns of {', '.join(map(str, inputs))}")
        if x.dtype != "float32":
            raise TypeMismatch(f"deform_columns of {x}: it needs float32")
        return (x.with_shape((*x.shape[:2], window, *outputs)),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """A sum over the elements around each place."""
        attrs: DeformAttrs = node.attrs
        x, offsets, weights = operand_tensors(target, inputs)
        axes, window = len(x.shape) - 2, math.prod(attrs.window)
        channels = x.shape[1] // attrs.groups

        def update(acc: Value, n: Any, c: Any, q: Any, *at: Any) -> Any:
            out, taps = at[:axes], at[axes:]
            place = c // channels * window + q
            weight, places = weights[(n, place, *out)], []
            for axis, extent in enumerate(x.shape[2:]):
                rest = math.prod(attrs.window[axis + 1 :])
                step = q // rest % attrs.window[axis] * attrs.dilation[axis]
                start = out[axis] * attrs.stride[axis] + step - attrs.padding[axis]
                moved = cast(index(start), "float32") + offsets[(n, place * axes + axis, *out)]
                # Farther out there is nothing; and a NaN is taken at the lower end.
                moved = clamp(moved, -4.0, extent + 4.0)
                base = intrinsic("floor_f32", moved)
                part, tap = moved - base, index(taps[axis])
                position = int32(base) + tap
                inside = (position >= 0) & (position < extent)
                own = select(tap.equals(0), 1.0 - part, part)
                weight = weight * select(inside, own, 0.0)
                places.append(clamp(position, 0, extent - 1))
            return acc + weight * x[(n, c, *places)]

        steps = [(f"k{axis}", 0, 2) for axis in range(axes)]
        return target.reduce(
            "acc", node.output.type.shape, "float32", steps, init=lambda *at: 0.0, update=update
        )


def _check(attrs: DeformAttrs, x: TensorType) -> None:
    lists = (attrs.window, attrs.stride, attrs.dilation, attrs.padding)
    known = {len(each) for each in lists} == {len(x.shape) - 2} and 0 not in x.shape
    if not known or attrs.groups < 1 or x.shape[1] % attrs.groups:
        raise TypeMismatch(f"deform_columns of {x} with {attrs}")


def _attrs(raw: RawNode, window: tuple[int, ...]) -> DeformAttrs:
    """The form of a node. Raises ImportFailed where it contradicts its weights."""
    axes = len(window)
    if tuple(raw.attribute("kernel_shape", window)) != window:
        raise ImportFailed("kernel_shape differs from the shape of the weights")
    ones = (1,) * axes
    stride, dilation = (tuple(raw.attribute(key, ones)) for key in ("strides", "dilations"))
    padding = tuple(raw.attribute("pads", (0,) * (2 * axes)))[:axes]
    return DeformAttrs(window, stride, dilation, padding, int(raw.attribute("offset_group", 1)))


@from_onnx("DeformConv", since=19)
def import_onnx(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """ONNX DeformConv: columns, a product with the weights of each group, and the bias."""
    x, w, offsets = (raw.operand(position) for position in range(3))
    attrs, groups = _attrs(raw, tuple(w.type.shape[2:])), int(raw.attribute("group", 1))
    batch, channels, *_ = x.type.shape
    outputs, window = offsets.type.shape[2:], math.prod(attrs.window)
    if groups < 1 or w.type.shape[0] % groups or w.type.shape[1] * groups != channels:
        raise ImportFailed(f"weights {w.type} for {channels} channels in {groups} groups")
    mask = raw.optional(4)
    if mask is None:
        shape = (batch, attrs.groups * window, *outputs)
        mask = builder.constant(f"{raw.name}.ones", np.ones(shape, np.float32))
    columns = builder.op(DeformColumns, [x, offsets, mask], attrs, name=f"{raw.name}/columns")

    def shaped(value: GraphValue, *shape: int) -> GraphValue:
        listed = builder.constant(f"{raw.name}.shape", np.array(shape, np.int64))
        return emitted(builder, "Reshape", [value, listed], f"{raw.name}/{value.name}.shaped")

    own = shaped(columns, batch, groups, w.type.shape[1] * window, math.prod(outputs))
    weights = shaped(w, 1, groups, w.type.shape[0] // groups, w.type.shape[1] * window)
    product = emitted(builder, "MatMul", [weights, own], f"{raw.name}/product")
    result, bias = shaped(product, batch, w.type.shape[0], *outputs), raw.optional(3)
    if bias is None:
        return result
    row = shaped(bias, 1, w.type.shape[0], *(1 for _ in outputs))
    return emitted(builder, "Add", [result, row], raw.name)
