"""From lowered groups to a placement problem: one buffer per stored value, with its lifetime.

Time is the position of a group: a group reads its inputs and writes its output at its own time, so
both are live there. Views share the bytes of their source. The model's inputs are live from the
start and its results to the end. Where the group is the last to read an input, its output may take
over the input's bytes, as far as the chosen variant's loops allow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from edgec.graph.ir import Constant, Function, Value
from edgec.memory.problem import Buffer, Overlap, Problem, Region
from edgec.options import Io
from edgec.passes.fuse_groups import storage
from edgec.passes.lower_groups import LoweredGroup, Scratch, Variant

ARENA = "arena"
STATE = "state"  # persistent: kept from one run to the next
SCRATCH = "scratch."  # what the names of its buffers begin with
ALIGN_BYTES = 4  # alignment that kernels need for an activation of any dtype


def align_bytes(dtypes: Iterable[str]) -> int:
    """The alignment of a buffer for values of these dtypes."""
    return max((ALIGN_BYTES, *(np.dtype(dtype).itemsize for dtype in dtypes)))


def scratch_align_bytes(variant: Variant, place: Scratch) -> int:
    """The alignment of a scratch buffer."""
    return align_bytes(p.dtype for p in variant.function.params if p.name in place.offsets)


def value_aligns(
    function: Function, roots: Mapping[Value, Value], merged: Mapping[Value, Value] | None = None
) -> Mapping[Value, int]:
    """The alignment of each value that has its own buffer.

    Views, outputs in place and values that bodies pass on share other values' buffers, so functions
    with bodies have one alignment for all.
    """
    inner = [value.type.dtype for _, value in function.inner_values()]
    values = list(function.values())
    if inner:
        widest = align_bytes([*inner, *(v.type.dtype for v in values)])
        return dict.fromkeys(values, widest)
    found: dict[Value, int] = {}
    for value in values:
        place = roots.get(value, value)
        place = (merged or {}).get(place, place)
        for each in (place, value):
            found[each] = max(found.get(each, ALIGN_BYTES), align_bytes([value.type.dtype]))
    return found


def scratch_name(position: int, place: str = "") -> str:
    """Name of the buffer of a place of scratch of the group at this position."""
    return f"{SCRATCH}{position}.{place}" if place else f"{SCRATCH}{position}"


def placement_problem(
    function: Function,
    groups: Sequence[LoweredGroup],
    chosen: Sequence[Variant],
    *,
    io: Io = "arena",
    capacity_bytes: int | None = None,
    merge: bool = True,
) -> Problem:
    """All buffers of one inference except states and, by `io`, the caller's inputs and outputs.

    Outputs that replace an input in place (`merged_places`) have no buffer. With `merge` false they
    have one that may overlap the input, so that a choice between variants can compare both.
    """
    merged = merged_places(function, groups, chosen, io=io) if merge else {}
    raised = raised_places(function, groups, chosen, io) if merge else {}
    stored = StoredValues(function, groups, io=io, merged=merged, raised=raised)
    buffers = list(stored.buffers())
    overlaps: list[Overlap] = []
    for position, variant in enumerate(chosen):
        for scratch in variant.scratch:
            name = scratch_name(position, scratch.name)
            buffers.append(
                Buffer(
                    name,
                    scratch.size_bytes,
                    position,
                    position + 1,
                    scratch_align_bytes(variant, scratch),
                    (ARENA,),
                )
            )
        overlaps += stored.overlaps(position, variant, with_same_place=not merge)
    return Problem(tuple(buffers), tuple(overlaps), (Region(ARENA, capacity_bytes),))


class StoredValues:
    """The stored values of a function, their lifetimes, and which of them may overlap in each step.

    merged, raised: as `merged_places` and `raised_places` return them.
    """

    def __init__(
        self,
        function: Function,
        groups: Sequence[LoweredGroup],
        *,
        io: Io = "arena",
        merged: Mapping[Value, Value] | None = None,
        raised: Mapping[Value, int] | None = None,
    ) -> None:
        self.groups = groups
        self.merged = merged or {}
        self.raised = raised or {}
        self.roots = storage(function)
        self.aligns = value_aligns(function, self.roots, self.merged)
        self.start, self.stop = lifetimes(function, groups, self.roots)
        self.outside = outside_values(function, self.roots, io)
        self.room: dict[Value, int] = {}
        for value, place in self.merged.items():
            self.stop[place] = max(self.stop[place], self.stop[value])
            self.room[place] = max(self.room.get(place, 0), self.raised.get(value, 0))
        # A result that the last group reads stops with it, and yet must stay.
        self.kept = self.outside | {self.roots.get(v, v) for v in function.results}

    def buffers(self) -> tuple[Buffer, ...]:
        """One for each value that has a place of its own in the arena."""
        return tuple(
            Buffer(
                v.name,
                v.type.nbytes + self.room.get(v, 0),
                self.start[v],
                self.stop[v],
                self.aligns[v],
                (ARENA,),
            )
            for v in self.start
            if v not in self.outside and v not in self.merged
        )

    def overlaps(
        self, position: int, variant: Variant, *, with_same_place: bool
    ) -> Iterator[Overlap]:
        """The inputs whose bytes the scratch and the output of the group at this position may
        reuse.

        with_same_place: include inputs that the output may replace in place.
        """
        for (where, root), distance in scratch_distances(variant, self.roots).items():
            if self._dies(root, position):
                name = scratch_name(position, where)
                yield self._overlap(root, name, distance)
        output = self.groups[position].group.output
        if output in self.outside or output in self.merged:
            return
        distances = variant_distances(variant, output, self.roots)
        if with_same_place:
            distances |= {self.roots.get(v, v): 0 for v in variant.in_place}
        for root, distance in distances.items():
            if self._dies(root, position):
                yield self._overlap(root, output.name, distance)

    def _overlap(self, root: Value, name: str, distance: int) -> Overlap:
        place = self.merged.get(root, root)
        return Overlap(place.name, name, distance - self.raised.get(root, 0))

    def _dies(self, root: Value, position: int) -> bool:
        return self.stop[root] == position + 1 and root not in self.kept


def merged_places(
    function: Function,
    groups: Sequence[LoweredGroup],
    chosen: Sequence[Variant],
    *,
    io: Io = "arena",
) -> dict[Value, Value]:
    """Return for each output that replaces an input in place the value whose buffer it lies in."""
    merged: dict[Value, Value] = {}
    for _, output, root in replaced_inputs(function, groups, chosen, io):
        merged[output] = merged.get(root, root)
    return merged


def raised_places(
    function: Function, groups: Sequence[LoweredGroup], chosen: Sequence[Variant], io: Io
) -> dict[Value, int]:
    """Return for the same outputs by how many bytes they lie above the start of that buffer."""
    raised: dict[Value, int] = {}
    for variant, output, root in replaced_inputs(function, groups, chosen, io):
        raised[output] = raised.get(root, 0) + variant.raised_bytes
    return raised


def replaced_inputs(
    function: Function, groups: Sequence[LoweredGroup], chosen: Sequence[Variant], io: Io
) -> Iterator[tuple[Variant, Value, Value]]:
    """The variants whose output replaces an input, with both values."""
    roots = storage(function)
    _, stop = lifetimes(function, groups, roots)
    outside = outside_values(function, roots, io)
    kept = outside | {roots.get(v, v) for v in function.results}
    for position, variant in enumerate(chosen):
        output = groups[position].group.output
        for root in (roots.get(v, v) for v in variant.in_place):
            is_last = stop[root] == position + 1 and root not in kept
            if is_last and output not in outside:
                yield variant, output, root
                break


def state_places(function: Function) -> dict[Value, Value]:
    """Return for the new value of each state the state in whose buffer it is computed.

    `edgec.passes.copy_states` has made sure that this is possible.
    """
    return {state.after: state.before for state in function.states}


def with_states(problem: Problem, function: Function) -> Problem:
    """The problem with the states, which are live all the time, in a region of their own."""
    if not function.states:
        return problem
    stop = max((buffer.stop for buffer in problem.buffers), default=1)
    buffers = tuple(
        Buffer(s.before.name, s.before.type.nbytes, 0, stop, align_bytes([s.before.type.dtype]),
               (STATE,))
        for s in function.states
    )  # fmt: skip
    return replace(
        problem, buffers=problem.buffers + buffers, regions=(*problem.regions, Region(STATE))
    )


def outside_values(function: Function, roots: Mapping[Value, Value], io: Io) -> set[Value]:
    """Stored values outside the arena: states, and by `io` the caller's inputs and outputs."""
    outside = {value for state in function.states for value in (state.before, state.after)}
    if io != "arena":
        outside |= {roots.get(v, v) for v in function.inputs}
    if io == "caller":
        outside |= {roots.get(v, v) for v in function.outputs}
    return outside


def variant_distances(
    variant: Variant, output: Value, roots: Mapping[Value, Value]
) -> dict[Value, int]:
    """Return by how many bytes the output must start below each value that it may overlap."""
    known = dict(variant.overlaps)
    result: dict[Value, int] = {}
    refused: set[Value] = {output}
    for value in variant.args:
        if value is None or value is output:
            continue
        root = roots.get(value, value)  # views of one value are several inputs in one place
        if value in known:
            result[root] = max(known[value], result.get(root, known[value]))
        else:
            refused.add(root)
    return {root: distance for root, distance in result.items() if root not in refused}


def scratch_distances(
    variant: Variant, roots: Mapping[Value, Value]
) -> dict[tuple[str, Value], int]:
    """The same for its scratch buffers, by name; all inputs in one buffer must allow it."""
    inputs = Counter(roots.get(value, value) for value in variant.args if value is not None)
    found: dict[tuple[str, Value], list[int]] = {}
    for place, value, distance in variant.scratch_overlaps:
        found.setdefault((place, roots.get(value, value)), []).append(distance)
    return {key: max(known) for key, known in found.items() if len(known) == inputs[key[1]]}


def lifetimes(
    function: Function, groups: Sequence[LoweredGroup], roots: Mapping[Value, Value]
) -> tuple[dict[Value, int], dict[Value, int]]:
    """First and one past last time of every stored value."""
    end = max(len(groups), 1)
    start: dict[Value, int] = {}
    stop: dict[Value, int] = {}
    for param in function.params:
        start[param], stop[param] = 0, 1
    for position, lowered in enumerate(groups):
        for value in lowered.group.inputs:
            if not isinstance(value, Constant):
                stop[roots.get(value, value)] = position + 1
        for output in lowered.group.outputs:
            start[output] = position
            stop[output] = position + 1
    for value in function.results:
        if not isinstance(value, Constant):
            stop[roots.get(value, value)] = end
    return start, stop
