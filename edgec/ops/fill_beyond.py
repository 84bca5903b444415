"""fill_beyond: fills the unused end of an axis whose used length depends on data.

Operators that read the whole axis need a neutral number there: 0 for a sum, minus infinity for a
maximum.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, register
from edgec.graph.types import TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import index, select
from edgec.ops.broadcast import tensors_of
from edgec.ops.onnx_graph import OnnxGraph, own_operands
from edgec.ops.op import Op, RawNode
from edgec.ops.parts import Parts


@dataclass(frozen=True)
class FillBeyondAttrs:
    """axis: not negative. neutral: the fill after the used length, a number of x's dtype."""

    axis: int
    neutral: float


@register
class FillBeyond(Op[FillBeyondAttrs]):
    """x [...] of plain numbers or bool, how much of the axis is in use int32 [1] -> x filled up."""

    name = "fill_beyond"
    attrs_class = FillBeyondAttrs
    fusion = Fusion.OPAQUE

    def infer(self, attrs: FillBeyondAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The type of x."""
        x, number = inputs
        if x.quant is not None or number != TensorType((1,), "int32"):
            raise TypeMismatch(
                f"fill_beyond of {x} by {number}: it needs plain numbers, and an int32 [1]"
            )
        if not 0 <= attrs.axis < len(x.shape):
            raise TypeMismatch(f"fill_beyond along axis {attrs.axis} of {x}")
        return (x,)

    def whole_axes(self, attrs: FillBeyondAttrs, inputs: Types, position: int) -> Collection[int]:
        """Any element may be filled along the axis; the other axes of x stay."""
        return (0,) if position else (attrs.axis,)

    def filled_axis(self, attrs: FillBeyondAttrs) -> int:
        """All of this axis means something in the result."""
        return attrs.axis

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """The element, or the neutral number after the used length."""
        x, number = tensors_of(inputs)
        attrs: FillBeyondAttrs = node.attrs

        def element(*at: Any) -> Any:
            return select(index(at[attrs.axis]) < number[0], x[at], attrs.neutral)

        output = node.output.type
        return target.compute("element", output.shape, output.dtype, element)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """The input itself: in ONNX its extent is the used length."""
        if node.attrs.axis not in out.open_axes(node.inputs[0]):
            raise ImportFailed(f"{node.name}: in ONNX its input is as large as it can be")
        x, _ = own_operands(out, node)
        out.emit("Identity", [x], out.define_own(node.output))


def filled(builder: GraphBuilder, raw: RawNode, axes: Sequence[int], neutral: float) -> RawNode:
    """The node with its first input filled up along these axes, which are not negative.

    Only plain numbers are filled; for other inputs it raises.
    """
    x = raw.operand(0)
    if not is_open(builder, raw, axes) or x.type.quant is not None:
        return raw
    parts, known = Parts(builder, raw), builder.open_axes[x]
    builder.filled.add(x)
    for axis in axes:
        if axis in known:
            x = parts.op(
                "fill_beyond", [x, known[axis]], FillBeyondAttrs(axis, neutral), f"filled{axis}"
            )
    return replace(raw, inputs=(x, *raw.inputs[1:]))


def reopened(builder: GraphBuilder, raw: RawNode, axis: int, value: Value) -> Value:
    """A value computed from the filled input, with the same used length of the axis."""
    number = builder.open_axes.get(raw.operand(0), {}).get(axis)
    if number is not None:
        builder.open(value, axis, number)
    return value


def is_open(builder: GraphBuilder, raw: RawNode, axes: Sequence[int]) -> bool:
    """Whether data decide the size of one of these axes of the first input."""
    known = builder.open_axes.get(raw.operand(0), {})
    return any(axis in known for axis in axes)


def extents_in_use(
    builder: GraphBuilder, raw: RawNode, axes: Sequence[int], dtype: str = "int64"
) -> list[Value]:
    """Extent in use of each axis of the first input, each [1]."""
    x, parts = raw.operand(0), Parts(builder, raw)
    known = builder.open_axes.get(x, {})
    builder.filled.add(x)
    return [
        parts.cast(known[axis], dtype, f"extent{axis}") if axis in known
        else parts.table([x.type.shape[axis]], f"extent{axis}", dtype)
        for axis in axes
    ]  # fmt: skip


def elements_in_use(builder: GraphBuilder, raw: RawNode, axes: Sequence[int]) -> Value:
    """Number of elements in use along these axes of the first input, int64 [1]."""
    first, *others = extents_in_use(builder, raw, axes)
    parts = Parts(builder, raw)
    for other in others:
        first = parts.op("int_mul", [first, other], what="count")
    return first
