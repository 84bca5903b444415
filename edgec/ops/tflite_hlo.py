"""STABLEHLO_GATHER and STABLEHLO_SCATTER by flat indices, and TFLite's other STABLEHLO operators.

A position in the operand is a start, which the indices hold for some axes, plus an offset within a
window. Multiplied by the operand's strides and added up, it is one flat index. Trailing axes that a
window covers completely are left out of the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.ops.bodies import Body
from edgec.ops.op import RawNode, from_tflite
from edgec.ops.pad import PadAttrs
from edgec.ops.parts import Parts
from edgec.ops.row import import_row
from edgec.ops.scattered import AxisAttrs, ScatterAttrs
from edgec.ops.slice import sliced
from edgec.ops.tflite_window_sums import body_function

_REDUCTIONS = {"": "none", "add": "add", "mul": "mul", "maximum": "max", "minimum": "min"}


@dataclass(frozen=True)
class Windows:
    """The windows of a gather's result, or of a scatter's updates.

    operand: its shape. size: a window's extent along each axis of the operand. shape: of the
    result. window_dims: the result's axes within a window; `axes` are the operand's. start_map: the
    operand's axis for each number of an index. vector: the axis of the indices that holds these
    numbers.
    """

    operand: tuple[int, ...]
    size: tuple[int, ...]
    shape: tuple[int, ...]
    window_dims: tuple[int, ...]
    axes: tuple[int, ...]
    start_map: tuple[int, ...]
    vector: int

    @property
    def whole(self) -> int:
        """Number of last axes that every window takes whole, in the result's order."""
        count, rank = 0, len(self.operand)
        while count < min(len(self.axes), rank - 1):
            axis, dim = rank - 1 - count, len(self.shape) - 1 - count
            pair = (self.axes[-1 - count], self.window_dims[-1 - count])
            if pair != (axis, dim) or axis in self.start_map:
                break
            if self.size[axis] != self.operand[axis]:
                break
            count += 1
        return count

    @property
    def strides(self) -> list[int]:
        """The flat distance of neighbours along each axis."""
        rank = len(self.operand) - self.whole
        return [prod(self.operand[axis + 1 : rank]) for axis in range(rank)]


def _check(windows: Windows, indices: Value) -> None:
    rank = len(windows.operand)
    listed = (*windows.axes, *windows.start_map)
    dims = len(windows.shape)
    fits = (
        len(windows.size) == rank
        and all(0 <= axis < rank for axis in listed)
        and all(0 <= dim < dims for dim in windows.window_dims)
        and len(windows.axes) == len(windows.window_dims)
        and list(windows.window_dims) == sorted(set(windows.window_dims))
        and 0 <= windows.vector <= len(indices.type.shape)
        and not indices.type.is_float
    )
    if not fits:
        raise ImportFailed(f"its windows do not fit an operand {list(windows.operand)}")


def _starts(parts: Parts, windows: Windows, indices: Value) -> dict[int, Value]:
    """The starts of windows by axis of the operand, reshaped to broadcast over the result."""
    shape, vector = indices.type.shape, windows.vector
    rank = len(windows.shape) - windows.whole
    outer = [n for n in range(rank) if n not in windows.window_dims]
    found = {}
    for number, axis in enumerate(windows.start_map):
        one = indices
        if vector < len(shape):
            ranges = [(0, 1, e) for e in shape]
            ranges[vector] = (number, 1, 1)
            name = f"{parts.name}/start{number}"
            one = sliced(parts.builder, indices, ranges, name, (parts.name,))
        extents = [e for n, e in enumerate(shape) if n != vector]
        if len(extents) != len(outer):
            raise ImportFailed(f"indices {indices.type} for a result of {list(windows.shape)}")
        line = [1] * rank
        for dim, extent in zip(outer, extents, strict=True):
            line[dim] = extent
        found[axis] = parts.reshaped(one, line, f"starts{number}")
    return found


def _offsets(parts: Parts, windows: Windows) -> dict[int, Constant]:
    """Return the offsets within a window, by axis of the operand."""
    rank = len(windows.shape) - windows.whole
    found = {}
    for dim, axis in zip(windows.window_dims, windows.axes, strict=True):
        if dim < rank:
            line = [1] * rank
            line[dim] = windows.size[axis]
            found[axis] = parts.table(np.arange(windows.size[axis]).reshape(line), f"offset{axis}")
    return found


def _total(parts: Parts, values: Sequence[Value], what: str) -> Value:
    total = values[0]
    for number, value in enumerate(values[1:]):
        total = parts.op("int_add", [total, value], what=f"{what}{number}")
    return total


def _scaled(parts: Parts, value: Value, stride: int, what: str) -> Value:
    if isinstance(value, Constant):
        return parts.table(value.data * stride, what)
    if stride == 1:
        return value
    return parts.op("int_mul", [value, parts.table(stride, f"{what}.by")], what=what)


@from_tflite("STABLEHLO_GATHER", plain_bytes=True)
def import_gather(builder: GraphBuilder, raw: RawNode) -> Value:
    """STABLEHLO_GATHER: windows whose starts are moved so that they lie inside the operand."""
    x, indices = raw.operands(2)
    shape, parts = raw.declared().shape, Parts(builder, raw)
    collapsed = raw.attribute("collapsed_slice_dims")
    axes = tuple(n for n in range(len(x.type.shape)) if n not in collapsed)
    size = raw.attribute("slice_sizes")
    dims, starts = raw.attribute("offset_dims"), raw.attribute("start_index_map")
    vector = raw.attribute("index_vector_dim")
    windows = Windows(x.type.shape, size, shape, dims, axes, starts, vector)
    _check(windows, indices)
    terms: list[Value] = []
    for axis, start in _starts(parts, windows, indices).items():
        most = x.type.shape[axis] - size[axis]
        low, high = (parts.table(n, f"end{axis}", start.type.dtype) for n in (0, most))
        inside = parts.op("minimum", [start, high], what=f"below{axis}")
        inside = parts.op("maximum", [inside, low], what=f"inside{axis}")
        inside = parts.cast(inside, "int32", f"place{axis}")
        terms.append(_scaled(parts, inside, windows.strides[axis], f"step{axis}"))
    for axis, offset in _offsets(parts, windows).items():
        terms.append(_scaled(parts, offset, windows.strides[axis], f"offsets{axis}"))
    places = _total(parts, terms or [parts.table(0, "place")], "places")
    flat = parts.reshaped(x, _flat(windows), "flat")
    return parts.last(parts.op("gather_at", [flat, places], AxisAttrs(0), "elements"))


def _flat(windows: Windows) -> tuple[int, ...]:
    rank = len(windows.operand) - windows.whole
    return (prod(windows.operand[:rank]), *windows.operand[rank:])


@from_tflite("STABLEHLO_SCATTER", plain_bytes=True)
def import_scatter(builder: GraphBuilder, raw: RawNode) -> Value:
    """STABLEHLO_SCATTER: an element of the updates that falls outside of the operand is dropped."""
    x, indices, updates = raw.operands(3)
    reduction, parts = _REDUCTIONS.get(body_function(raw, x)), Parts(builder, raw)
    if reduction is None:
        raise ImportFailed("its body is not a sum, product, maximum or minimum")
    inserted, dims = raw.attribute("inserted_window_dims"), raw.attribute("update_window_dims")
    axes = tuple(n for n in range(len(x.type.shape)) if n not in inserted)
    size = [1] * len(x.type.shape)
    for dim, axis in zip(dims, axes, strict=True):
        size[axis] = updates.type.shape[dim]
    windows = Windows(x.type.shape, tuple(size), updates.type.shape, dims, axes,
                      raw.attribute("scatter_dims_to_operand_dims"),
                      raw.attribute("index_vector_dim"))  # fmt: skip
    _check(windows, indices)
    places = _update_places(parts, windows, indices)
    (count, *rest), whole = _flat(windows), windows.whole
    outer = updates.type.shape[: len(updates.type.shape) - whole]
    places = parts.op("int_add", [places, parts.table(np.zeros(outer), "all")], what="whole")
    tuples = parts.reshaped(places, (prod(outer), 1), "tuples")
    # Updates outside of x go to one extra row, which is dropped.
    flat = parts.reshaped(x, (count, *rest), "flat")
    attrs = PadAttrs(((0, 1), *((0, 0) for _ in rest)))
    longer = parts.op("pad", [flat], attrs, "longer")
    rows = parts.reshaped(updates, (prod(outer), *rest), "rows")
    made = parts.op("scatter", [longer, tuples, rows], ScatterAttrs(-1, reduction), "all_rows")
    ranges = [(0, 1, count), *((0, 1, e) for e in rest)]
    kept = sliced(builder, made, ranges, f"{raw.name}/kept", (raw.name,))
    return parts.last(parts.reshaped(kept, x.type.shape, "operand"))


def _update_places(parts: Parts, windows: Windows, indices: Value) -> Value:
    """The flat index of each element of the updates; the extra row's index if it is outside."""
    starts, offsets = _starts(parts, windows, indices), _offsets(parts, windows)
    terms: list[Value] = []
    truths: list[Value] = []
    for axis, stride in enumerate(windows.strides):
        place: Value | None = offsets.get(axis)
        if axis in starts:
            start = parts.cast(starts[axis], "int32", f"start_of{axis}")
            known = [start] if place is None else [start, place]
            place = _total(parts, known, f"place{axis}.")
            zero, end = (parts.table(n, f"end{axis}") for n in (0, windows.operand[axis]))
            truths.append(parts.op("greater_equal", [place, zero], what=f"low{axis}"))
            truths.append(parts.op("less", [place, end], what=f"high{axis}"))
        if place is not None:
            terms.append(_scaled(parts, place, stride, f"step{axis}"))
    total = _total(parts, terms or [parts.table(0, "place")], "places")
    for number, truth in enumerate(truths):
        beyond = parts.table(_flat(windows)[0], f"beyond{number}")
        total = parts.op("where", [truth, total, beyond], what=f"kept{number}")
    return total


@from_tflite("STABLEHLO_AND", plain_bytes=True)
def import_and(builder: GraphBuilder, raw: RawNode) -> Value:
    """STABLEHLO_AND of truths and of bits."""
    is_truth = raw.operand(0).type.dtype == "bool"
    return import_row(builder, raw, "logical_and" if is_truth else "bitwise_and")


from_tflite("STABLEHLO_SHIFT_LEFT")(partial(import_row, name="shift_left"))


@from_tflite("STABLEHLO_COMPOSITE", plain_bytes=True)
def import_composite(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """STABLEHLO_COMPOSITE: the nodes of its decomposition."""
    operands = raw.operands()
    given = [
        value.data if isinstance(value, Constant) and value.type.quant is None else value.type
        for value in operands
    ]
    body = raw.read_body("decomposition_subgraph", given)
    pairs = zip(operands, given, strict=True)
    computed = [value for value, each in pairs if not isinstance(each, np.ndarray)]
    return inlined(builder, raw.name, body, computed)


def inlined(
    builder: GraphBuilder, name: str, body: Body, operands: Sequence[Value]
) -> tuple[Value, ...]:
    """Append a body's nodes with operands of the outer graph; returns the results."""
    known: dict[Value, Value] = dict(zip(body.builder.params, operands, strict=True))

    def found(value: Value) -> Value:
        if isinstance(value, Constant):
            return value
        if value not in known:
            raise ImportFailed("variables in its subgraph are not supported")
        return known[value]

    for node in body.builder.nodes:
        made = builder.node(
            node.op, [found(value) for value in node.inputs], node.attrs,
            name=f"{name}/{node.name}", sources=(name,), bodies=node.bodies,
            output_names=[f"{name}/{value.name}" for value in node.outputs],
        )  # fmt: skip
        known.update(zip(node.outputs, made.outputs, strict=True))
    return tuple(found(value) for value in body.results)
