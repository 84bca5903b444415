"""A group one output row at a time: functions over slabs of input rows.

Row r of a convolution reads the rows of its window that exist. A slab of these rows is a smaller
image with the remaining padding, so a row is the same group on smaller types, and the code that
lowers and schedules groups lowers rows too. Rows whose windows meet the same edges share a
function.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

from edgec.graph.ir import Node, Value
from edgec.graph.operator import RowWindow
from edgec.loop.ir import PrimFunc
from edgec.loop.lowering import Lowering
from edgec.loop.simplify import simplify
from edgec.ops.op import SumParts, op_of
from edgec.passes.fuse_groups import Group
from edgec.passes.lower_groups import LoweredGroup, Variant, lower_group
from edgec.targets.target import Target


@dataclass(frozen=True)
class RowKind:
    """Rows [start, stop) of the output: `top` and `bottom` rows of their windows do not exist."""

    start: int
    stop: int
    top: int
    bottom: int


class RowGroup:
    """A group that is computed row by row; made by `row_group`."""

    def __init__(self, group: Group, window: RowWindow, policy: Target) -> None:
        self.group = group
        self.window = window
        self.policy = policy
        self._lowered: dict[tuple[int, int], LoweredGroup] = {}

    @property
    def inputs(self) -> tuple[Value, ...]:
        return self.group.activations

    @property
    def height(self) -> int:
        return self.inputs[0].type.shape[1]

    @cached_property
    def rows(self) -> int:
        return self.group.output.type.shape[1]

    @cached_property
    def kinds(self) -> tuple[RowKind, ...]:
        """Runs of output rows whose windows meet the same edges, from the top down."""
        found: list[RowKind] = []
        for row in range(self.rows):
            first = row * self.window.stride - self.window.top
            top = max(0, -first)
            bottom = max(0, first + self.window.reach - self.height)
            if found and (found[-1].top, found[-1].bottom) == (top, bottom):
                found[-1] = RowKind(found[-1].start, row + 1, top, bottom)
            else:
                found.append(RowKind(row, row + 1, top, bottom))
        return tuple(found)

    @cached_property
    def middle(self) -> RowKind:
        """The kind of most rows."""
        return max(self.kinds, key=lambda kind: kind.stop - kind.start)

    def slab_rows(self, kind: RowKind) -> int:
        """Rows of the input that exist in a window of this kind."""
        return self.window.reach - kind.top - kind.bottom

    def is_alike(self, value: Value) -> bool:
        """Whether a row of the output is made of the input's row alone, and as large."""
        out = self.group.output.type
        is_same = value.type.shape[1:] == out.shape[1:] and value.type.dtype == out.dtype
        return is_same and self.window == RowWindow() and self.inputs.count(value) == 1

    def may_replace(self, value: Value, variant: Variant) -> bool:
        """Whether a row of the output may be computed where the input's row is."""
        known = variant.overlaps if self.is_alike(value) else ()
        return any(v.name == value.name and distance <= 0 for v, distance in known)

    def makes_a_row(self, kind: RowKind) -> bool:
        """Whether a slab has one output row: not if a constant has one entry for each row."""
        return self._slab(kind).output.type.shape[1] == 1

    def lowered(self, kind: RowKind) -> LoweredGroup:
        """The menu for rows of this kind."""
        key = kind.top, kind.bottom
        if key not in self._lowered:
            inner = key == (0, 0)  # at the edges, plain loops can be the fastest
            self._lowered[key] = lower_group(self._slab(kind), self.policy, until_free=inner)
        return self._lowered[key]

    def _slab(self, kind: RowKind) -> Group:
        """The group on a slab; its values have the names of the whole ones."""
        rows = self.slab_rows(kind)
        values: dict[Value, Value] = {}
        for value in self.inputs:
            batch, _, *rest = value.type.shape
            values[value] = Value(value.name, value.type.with_shape((batch, rows, *rest)))
        nodes = []
        for node in self.group.nodes:
            first = node is self.group.nodes[0]
            nodes.append(_on(node, values, (kind.top, kind.bottom) if first else (0, 0)))
        inputs = tuple(values.get(v, v) for v in self.group.inputs)
        return Group(tuple(nodes), inputs)


def _on(node: Node, values: dict[Value, Value], padding: tuple[int, int]) -> Node:
    """The node on other inputs; its outputs are added to `values`."""
    inputs = tuple(values.get(v, v) for v in node.inputs)
    attrs = node.op.attrs_for_rows(node.attrs, *padding)
    types = node.op.infer(attrs, *(v.type for v in inputs))
    outputs = tuple(Value(v.name, t) for v, t in zip(node.outputs, types, strict=True))
    values.update(zip(node.outputs, outputs, strict=True))
    return Node(node.op, attrs, inputs, outputs, node.name, node.sources)


def row_group(group: Group, policy: Target) -> RowGroup | None:
    """Functions to compute a group row by row; None if it cannot stream."""
    inputs = group.activations
    if group.nodes[0].bodies or any(v.type.extents for v in (*inputs, group.output)):
        return None
    shapes = [v.type.shape for v in (*inputs, group.output)]
    if not inputs or len(group.outputs) != 1 or any(len(s) != 4 or s[0] != 1 for s in shapes):
        return None
    if len({s[1] for s in shapes[:-1]}) != 1 or shapes[-1][1] < 2:
        return None
    window: RowWindow | None = None
    for number, node in enumerate(group.nodes):
        found = node.op.row_window(node.attrs, node.input_types)
        if found is None or (number and found != RowWindow()):
            return None
        window = window or found
    assert window is not None
    rows = RowGroup(group, window, policy)
    return rows if all(map(rows.makes_a_row, rows.kinds)) else None


@dataclass(frozen=True)
class RowSum:
    """A group that sums up all rows of its input as they come; made by `row_sum`.

    start, add, finish: its functions, see `SumParts`. The accumulator is the output of the
    first two.
    """

    group: Group
    start: PrimFunc
    add: PrimFunc
    finish: PrimFunc

    #: A row at a time.
    window = RowWindow()

    @property
    def inputs(self) -> tuple[Value, ...]:
        return self.group.activations

    @property
    def rows(self) -> int:
        return self.inputs[0].type.shape[1]


def row_sum(group: Group, policy: Target) -> RowSum | None:
    """The sum of a group over its input's rows; None if it does something else."""
    node = group.nodes[0]
    if len(group.nodes) != 1 or not node.op.sums_rows(node.attrs, node.input_types):
        return None
    lowerings = [Lowering(f"{node.op.name}_{part.name}") for part in fields(SumParts)]
    op_of(node).lower_sum(node, SumParts(*lowerings))
    functions = []
    for part in lowerings:
        best = next(offer for offers in policy.menu(part) for offer in offers)
        functions.append(simplify(best.schedule.func))
    return RowSum(group, *functions)


def row_members(groups: Sequence[Group], policy: Target) -> dict[int, RowGroup | RowSum]:
    """Row groups and sums by the position of the group, of all groups that have one."""
    policy = replace(policy, in_rows=True)
    found: dict[int, RowGroup | RowSum] = {}
    for position, group in enumerate(groups):
        member = row_group(group, policy) or row_sum(group, policy)
        if member is not None:
            found[position] = member
    return found


def replaced_input(
    rows: RowGroup | RowSum,
    variant: Variant,
    inside: Container[Value],
    readers: Mapping[Value, int],
) -> Value | None:
    """The input, made inside a segment and read by this group alone, whose rows it may replace."""
    if isinstance(rows, RowSum):
        return None
    for value in reversed(rows.inputs):
        if value in inside and readers[value] == 1 and rows.may_replace(value, variant):
            return value
    return None
