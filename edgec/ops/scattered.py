"""Gather and scatter by computed indices: elements, tuples, and updates written into a copy.

An index may be negative, then it counts from the end; one that leaves the axis is taken at its
nearest end, since nothing may be read or written outside. A scatter is a gather of updates: each
element of the result looks through the updates that may write it, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node
from edgec.graph.ir import Value as GraphValue
from edgec.graph.operator import Fusion, register
from edgec.graph.traits import IntegerForm, Movement
from edgec.graph.types import TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, clamp, index, int32, maximum, minimum, select
from edgec.numerics.narrow_float import STORED_IN
from edgec.ops.broadcast import operand_tensors
from edgec.ops.moved import Moved
from edgec.ops.onnx_graph import OnnxGraph, as_int64, own_operands, write_own
from edgec.ops.op import Op, RawNode, axis_of, from_onnx
from edgec.ops.parts import INDEX_DTYPES, Parts
from edgec.ops.slice import sliced
from edgec.ops.window import window_steps

#: How an update is combined with the existing element.
REDUCTIONS: dict[str, Callable[[Value, Value], Any]] = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": lambda old, new: maximum(new, old),
    "min": lambda old, new: minimum(new, old),
}


@dataclass(frozen=True)
class AxisAttrs:
    """axis: along which the indices count, not negative."""

    axis: int


@dataclass(frozen=True)
class ScatterAttrs:
    """axis: along which the indices count; -1 where each is a tuple. reduction: of REDUCTIONS."""

    axis: int
    reduction: str = "none"


def wrapped_index(value: Value, extent: int) -> Value:
    """An index of any sign within an axis, as int32."""
    limited = int32(clamp(value, -extent, extent - 1))
    return select(limited < 0, limited + extent, limited)


class PicksRows(Moved[AxisAttrs]):
    """A movement whose result has the axes of the indices instead of the axis of the data."""

    def axis_after(
        self, attrs: AxisAttrs, inputs: Types, position: int, axis: int, result: TensorType
    ) -> int | None:
        """The axes after it move; the axis itself is gone."""
        if position == 1:
            return attrs.axis + axis
        if axis == attrs.axis:
            return None
        return axis if axis < attrs.axis else axis + len(inputs[1].shape) - 1


def _check(name: str, data: TensorType, indices: TensorType) -> None:
    if indices.dtype not in INDEX_DTYPES or indices.quant is not None:
        raise TypeMismatch(f"{name} by {indices}: indices are {' or '.join(INDEX_DTYPES)}")
    if data.quant is not None and not data.quant.per_tensor:
        raise TypeMismatch(f"{name} of a tensor that is quantized along an axis")
    if not data.shape or 0 in data.shape:
        raise TypeMismatch(f"{name} of {data}: it has no elements along an axis")


class Gathered(Moved[AxisAttrs]):
    """A movement by computed indices. onnx_kind, onnx_axis: ONNX's operator and axis."""

    onnx_kind: ClassVar[str]
    onnx_axis: ClassVar[str] = "axis"

    attrs_class = AxisAttrs
    fusion = Fusion.OPAQUE
    movement = Movement.PICK
    integer_form = IntegerForm.SHARED
    steering = (1,)

    def shape(self, attrs: AxisAttrs, x: TensorType, *others: TensorType) -> tuple[int, ...]:
        """Return the shape that `picked` describes; indices must be integers."""
        _check(self.name, x, others[0])
        return self.picked(attrs.axis, x, others[0])

    def picked(self, axis: int, x: TensorType, indices: TensorType) -> tuple[int, ...]:
        """The shape of the gathered part."""
        raise NotImplementedError

    def index_limit(self, attrs: AxisAttrs, inputs: Types) -> int | None:
        """The extent of the axis."""
        return inputs[0].shape[attrs.axis]

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """`onnx_kind`, whose indices count from the end where they are negative, as here."""
        x, indices = own_operands(out, node)
        if self.onnx_kind == "GatherND":
            indices = as_int64(out, node.inputs[1], indices)
        out.emit(self.onnx_kind, [x, indices], out.define_own(node.output),
                 **{self.onnx_axis: node.attrs.axis})  # fmt: skip

    def axis_after(
        self, attrs: AxisAttrs, inputs: Types, position: int, axis: int, result: TensorType
    ) -> int | None:
        """An axis of the indices stands where theirs do in the result."""
        return axis if position == 1 else None


@register
class GatherAt(PicksRows, Gathered):
    """Rows of data at computed indices along an axis: gather, but with negative indices too."""

    name = "gather_at"
    onnx_kind = "Gather"

    def picked(self, axis: int, x: TensorType, indices: TensorType) -> tuple[int, ...]:
        """The data's shape with the indices' shape in place of the axis."""
        if not 0 <= axis < len(x.shape):
            raise TypeMismatch(f"gather along axis {axis} of {x}")
        return (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])

    def source(self, attrs: AxisAttrs, at: tuple[Any, ...], x: Tensor, *others: Tensor) -> Any:
        """Replace the axis by the index that the indices hold."""
        first, last = attrs.axis, attrs.axis + len(others[0].shape)
        return (*at[:first], wrapped_index(others[0][at[first:last]], x.shape[first]), *at[last:])


@register
class GatherElements(Gathered):
    """Gather by the indices' positions: out[i, j] = x[indices[i, j], j]."""

    name = "gather_elements"
    onnx_kind = "GatherElements"

    def picked(self, axis: int, x: TensorType, indices: TensorType) -> tuple[int, ...]:
        """The indices' shape, which exceeds the data's along the axis at most."""
        pairs = zip(x.shape, indices.shape, strict=False)
        if len(indices.shape) != len(x.shape) or any(
            each != axis and own > extent for each, (extent, own) in enumerate(pairs)
        ):
            raise TypeMismatch(f"gather_elements of {x} by {indices}")
        return indices.shape

    def source(self, attrs: AxisAttrs, at: tuple[Any, ...], x: Tensor, *others: Tensor) -> Any:
        """Replace the axis by the index that the indices hold at this element."""
        axis = attrs.axis
        return (*at[:axis], wrapped_index(others[0][at], x.shape[axis]), *at[axis + 1 :])


@register
class GatherNd(Gathered):
    """The parts of data that tuples name; `axis` is how many first axes both have in common."""

    name = "gather_nd"
    onnx_kind = "GatherND"
    onnx_axis = "batch_dims"

    def picked(self, axis: int, x: TensorType, indices: TensorType) -> tuple[int, ...]:
        """The indices' shape without the tuple, then the data's axes after the tuple's."""
        known = bool(indices.shape) and 0 <= axis < len(indices.shape)
        if (
            not known
            or not 1 <= indices.shape[-1] <= len(x.shape) - axis
            or x.shape[:axis] != indices.shape[:axis]
        ):
            raise TypeMismatch(f"gather_nd of {x} by {indices}, {axis} axes in common")
        return (*indices.shape[:-1], *x.shape[axis + indices.shape[-1] :])

    def axis_after(
        self, attrs: AxisAttrs, inputs: Types, position: int, axis: int, result: TensorType
    ) -> int | None:
        """The axes of the tuples stay."""
        return axis if position == 1 and attrs.axis <= axis < len(inputs[1].shape) - 1 else None

    def index_limit(self, attrs: AxisAttrs, inputs: Types) -> int | None:
        """The smallest extent of the axes that the tuples index."""
        return min(inputs[0].shape[attrs.axis :][: inputs[1].shape[-1]])

    def source(self, attrs: AxisAttrs, at: tuple[Any, ...], x: Tensor, *others: Tensor) -> Any:
        """Replace the tuple's axes by its indices."""
        (indices,), common = others, attrs.axis
        rank, depth = len(indices.shape) - 1, indices.shape[-1]
        extents = enumerate(x.shape[common : common + depth])
        chosen = [wrapped_index(indices[(*at[:rank], n)], extent) for n, extent in extents]
        return (*at[:common], *chosen, *at[rank:])


@register
class Scatter(Op[ScatterAttrs]):
    """The data with updates at the indices, in the updates' order."""

    name = "scatter"
    attrs_class = ScatterAttrs
    fusion = Fusion.OPAQUE
    onnx_since = 18
    integer_form = IntegerForm.SHARED
    steering = (1,)
    reads_alike = True

    def form_of(self, attrs: ScatterAttrs) -> IntegerForm | None:
        """Stored integers may replace others, but a combination has no integer form."""
        return self.integer_form if attrs.reduction == "none" else None

    def infer(self, attrs: ScatterAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The data's type."""
        x, indices, updates = inputs
        _check(self.name, x, indices)
        wanted = self.wanted(attrs, x, indices)
        if (updates.shape, updates.dtype, updates.quant) != (wanted, x.dtype, x.quant):
            raise TypeMismatch(f"scatter of {updates} into {x} by {indices}")
        if attrs.reduction not in REDUCTIONS or (
            attrs.reduction != "none" and x.dtype in ("bool", *STORED_IN)
        ):
            raise TypeMismatch(f"scatter with reduction {attrs.reduction!r} of {x}")
        return (x,)

    def steps(self, attrs: ScatterAttrs, inputs: Types) -> int:
        """Each element meets all updates that may be its own."""
        shape, axis = inputs[1].shape, attrs.axis
        return window_steps(inputs[0], shape[:-1] if axis < 0 else shape[axis : axis + 1])

    def index_limit(self, attrs: ScatterAttrs, inputs: Types) -> int | None:
        """The extent of the axis, or the smallest extent of the axes that the tuples index."""
        x, indices, _ = inputs
        named = x.shape[: indices.shape[-1]] if attrs.axis < 0 else [x.shape[attrs.axis]]
        return min(named, default=None)

    def wanted(self, attrs: ScatterAttrs, x: TensorType, indices: TensorType) -> tuple[int, ...]:
        """The shape of the updates."""
        if attrs.axis < 0 and indices.shape:
            return (*indices.shape[:-1], *x.shape[indices.shape[-1] :])
        if len(indices.shape) != len(x.shape) or attrs.axis >= len(x.shape):
            raise TypeMismatch(f"scatter along axis {attrs.axis} of {x} by {indices}")
        return indices.shape

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Each element takes the updates with its index."""
        x, indices, updates = operand_tensors(target, inputs)
        combine = REDUCTIONS[node.attrs.reduction]
        own = _by_tuples if node.attrs.axis < 0 else _along_axis
        axes, meets = own(x, indices, node.attrs.axis)

        def update(acc: Value, *at: Any) -> Any:
            is_here, source = meets(at)
            return select(is_here, combine(acc, updates[source]), acc)

        return target.reduce(
            "acc", node.output.type.shape, x.dtype, axes, init=lambda *at: x[at], update=update
        )

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """ScatterND or ScatterElements, with all reductions since opset 18."""
        axis, reduction = node.attrs.axis, node.attrs.reduction
        if axis >= 0:
            write_own(out, node, "ScatterElements", reduction=reduction, axis=axis)
            return
        x, indices, updates = own_operands(out, node)
        indices = as_int64(out, node.inputs[1], indices)
        out.emit("ScatterND", [x, indices, updates], out.define_own(node.output),
                 reduction=reduction)  # fmt: skip


def adds_to_zeros(node: Node) -> bool:
    """Whether a node is a scatter whose sums are one update and 0 each."""
    if node.attrs != ScatterAttrs(-1, "add") or not isinstance(node.inputs[1], Constant):
        return False
    x, indices = node.inputs[:2]
    if not isinstance(x, Constant) or x.data.any():
        return False
    depth = indices.type.shape[-1]
    tuples = (node.inputs[1].data % x.type.shape[:depth]).reshape(-1, depth)
    return len(np.unique(tuples, axis=0)) == len(tuples)


#: Of a point of the loops whether its update meets the element, and where the update stands.
Meets = Callable[[tuple[Any, ...]], tuple[Value, tuple[Any, ...]]]


def _along_axis(x: Tensor, indices: Tensor, axis: int) -> tuple[list[Any], Meets]:
    def meets(at: tuple[Any, ...]) -> tuple[Value, tuple[Any, ...]]:
        spatial, k = list(at[:-1]), at[-1]
        is_here, source = None, []
        for n, position in enumerate(spatial):
            extent = indices.shape[n]
            if n != axis and extent < x.shape[n]:
                inside = index(position) < extent
                is_here = inside if is_here is None else is_here & inside
                position = minimum(position, extent - 1)
            source.append(k if n == axis else position)
        here = wrapped_index(indices[tuple(source)], x.shape[axis]).equals(index(spatial[axis]))
        return here if is_here is None else here & is_here, tuple(source)

    return [("k", 0, indices.shape[axis])], meets


def _by_tuples(x: Tensor, indices: Tensor, axis: int) -> tuple[list[Any], Meets]:
    *outer, depth = indices.shape
    rank = len(x.shape)

    def meets(at: tuple[Any, ...]) -> tuple[Value, tuple[Any, ...]]:
        spatial, steps = at[:rank], at[rank:]
        here = None
        for n in range(depth):
            same = wrapped_index(indices[(*steps, n)], x.shape[n]).equals(index(spatial[n]))
            here = same if here is None else here & same
        assert here is not None
        return here, (*steps, *spatial[depth:])

    return [(f"k{n}", 0, extent) for n, extent in enumerate(outer)], meets


#: Positions of a new axis, each with its number in a table.
MOST_DEPTH = 1 << 24


def marked(
    parts: Parts, indices: GraphValue, depth: int, axis: int, on: GraphValue, off: GraphValue
) -> GraphValue:
    """A new axis on which the position that an index names is on, and all others are off."""
    if depth > MOST_DEPTH:
        raise ImportFailed(f"a depth of {depth:,}: at most {MOST_DEPTH:,} are possible")
    shape = indices.type.shape
    line = [1] * len(shape)
    line.insert(axis, depth)
    numbers = parts.table(np.arange(depth).reshape(line), "numbers", indices.type.dtype)
    wide = parts.reshaped(indices, (*shape[:axis], 1, *shape[axis:]), "indices")
    truth = parts.op("equal", [wide, numbers], what="truth")
    return parts.op("where", [truth, on, off])


def _axis(raw: RawNode, rank: int, default: int = 0) -> int:
    return axis_of(int(raw.attribute("axis", default)), rank)


@from_onnx("GatherElements", since=11)
def import_gather_elements(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """ONNX GatherElements."""
    x, indices = raw.operands(2)
    attrs = AxisAttrs(_axis(raw, len(x.type.shape)))
    return builder.op("gather_elements", [x, indices], attrs, name=raw.name)


@from_onnx("GatherND", since=11)
def import_gather_nd(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """ONNX GatherND."""
    attrs = AxisAttrs(int(raw.attribute("batch_dims", 0)))
    return builder.op("gather_nd", raw.operands(2), attrs, name=raw.name)


@from_onnx("Scatter", since=9)
@from_onnx("ScatterElements", since=11)
def import_scatter_elements(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """ONNX ScatterElements, and Scatter, as it was called before."""
    x, *rest = raw.operands(3)
    attrs = ScatterAttrs(_axis(raw, len(x.type.shape)), raw.attribute("reduction", "none"))
    return builder.op("scatter", [x, *rest], attrs, name=raw.name)


@from_onnx("ScatterND", since=11)
def import_scatter_nd(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """ONNX ScatterND."""
    attrs = ScatterAttrs(-1, raw.attribute("reduction", "none"))
    return builder.op("scatter", raw.operands(3), attrs, name=raw.name)


@from_onnx("OneHot", since=9)
def import_one_hot(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """ONNX OneHot to a constant depth; negative indices count from the end."""
    indices, _, values = raw.operands(3)
    depth = int(raw.constant(1, "the depth").data.reshape(-1)[0])
    axis, parts = _axis(raw, len(indices.type.shape) + 1, -1), Parts(builder, raw)
    if values.type.shape != (2,) or depth < 1:
        raise ImportFailed(f"a depth of {depth} and values {values.type}")
    indices = parts.cast(indices, "int64", "places")
    zero, more = (parts.table(n, f"number{n}", "int64") for n in (0, depth))
    negative = parts.op("less", [indices, zero], what="negative")
    from_end = parts.op("int_add", [indices, more], what="from_end")
    indices = parts.op("where", [negative, from_end, indices], what="counted")
    off, on = (
        parts.reshaped(sliced(builder, values, [(n, 1, 1)], f"{raw.name}/value{n}", ()), ())
        for n in (0, 1)
    )
    return marked(parts, indices, depth, axis, on, off)


@from_onnx("TensorScatter", since=24)
def import_tensor_scatter(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """ONNX TensorScatter with constant write indices, as a scatter by constant tuples."""
    past, update = raw.operand(0), raw.operand(1)
    shape, new = past.type.shape, update.type.shape
    axis = _axis(raw, len(shape), -2)
    starts = np.zeros(shape[0], np.int64)
    if raw.optional(2) is not None:
        starts = raw.constant(2, "write_indices").data.astype(np.int64)
    if axis == 0:
        raise ImportFailed("axis 0 is the batch: choose another axis")
    grids = [grid[..., None] for grid in np.indices(new)]
    line = grids[axis] + starts.reshape(-1, *(1 for _ in new))
    if raw.attribute("mode", "linear") == "circular":
        line = line % shape[axis]
    if line.min() < 0 or line.max() >= shape[axis]:
        raise ImportFailed(f"write_indices {starts.tolist()} leave the {shape[axis]} positions")
    grids[axis] = line
    table = builder.constant(f"{raw.name}.places", np.concatenate(grids, -1).astype(np.int32))
    return builder.op("scatter", [past, table, update], ScatterAttrs(-1), name=raw.name)
