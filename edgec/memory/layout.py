"""From lowered groups to a placement problem: one buffer per stored value, with its lifetime.

Time is the position of a group: a group reads its inputs and writes its output at its own time,
so both are live there. Views share the bytes of what they are a view of. The model's inputs are
live from the start and its results to the end. Where the group is the last to read an input, its
output may take over the input's bytes, as far as the chosen variant's loops allow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from edgec.graph.ir import Constant, Function, Value
from edgec.memory.problem import Buffer, Overlap, Problem, Region
from edgec.options import Io
from edgec.passes.fuse_groups import storage
from edgec.passes.lower_groups import LoweredGroup, Variant

ARENA = "arena"
STATE = "state"  # persistent: kept from one run to the next
ALIGN_BYTES = 4  # what the widest access of emitted code to an activation needs


def scratch_name(position: int, place: str = "") -> str:
    """Name of the buffer of a place of scratch of the group at this position."""
    return f"scratch.{position}.{place}" if place else f"scratch.{position}"


def placement_problem(
    function: Function,
    groups: Sequence[LoweredGroup],
    chosen: Sequence[Variant],
    *,
    io: Io = "arena",
    capacity_bytes: int | None = None,
    merge: bool = True,
) -> Problem:
    """All buffers of one inference but its states; by `io`, the caller may have inputs and outputs.

    Outputs that replace an input where it is (`merged_places`) are not among them, unless `merge`
    is false: then they may overlap, which is what a choice between variants can compare.
    """
    roots = storage(function)
    start, stop = lifetimes(function, groups, roots)
    outside = outside_values(function, roots, io)
    merged = merged_places(function, groups, chosen, io=io) if merge else {}
    for value, place in merged.items():
        stop[place] = max(stop[place], stop[value])
    buffers = [
        Buffer(v.name, v.type.nbytes, start[v], stop[v], ALIGN_BYTES, (ARENA,))
        for v in start
        if v not in outside and v not in merged
    ]
    # A result that the last group reads stops with it, and yet must stay.
    kept = outside | {roots.get(v, v) for v in function.results}
    overlaps: list[Overlap] = []
    for position, variant in enumerate(chosen):
        for scratch in variant.places:
            name = scratch_name(position, scratch.name)
            buffers.append(
                Buffer(name, scratch.size_bytes, position, position + 1, ALIGN_BYTES, (ARENA,))
            )
        for (where, root), distance in scratch_distances(variant, roots).items():
            if stop[root] == position + 1 and root not in kept:
                name = scratch_name(position, where)
                overlaps.append(Overlap(merged.get(root, root).name, name, distance))
        output = groups[position].group.output
        if output in outside or output in merged:
            continue
        distances = variant_distances(variant, output, roots)
        if not merge:
            distances |= {roots.get(v, v): 0 for v in variant.same_place}
        for root, distance in distances.items():
            if stop[root] == position + 1 and root not in kept:
                overlaps.append(Overlap(merged.get(root, root).name, output.name, distance))
    return Problem(tuple(buffers), tuple(overlaps), (Region(ARENA, capacity_bytes),))


def merged_places(
    function: Function,
    groups: Sequence[LoweredGroup],
    chosen: Sequence[Variant],
    *,
    io: Io = "arena",
) -> dict[Value, Value]:
    """For every output that replaces an input where it is: the value whose buffer it lies in."""
    roots = storage(function)
    _, stop = lifetimes(function, groups, roots)
    outside = outside_values(function, roots, io)
    kept = outside | {roots.get(v, v) for v in function.results}
    merged: dict[Value, Value] = {}
    for position, variant in enumerate(chosen):
        output = groups[position].group.output
        for root in (roots.get(v, v) for v in variant.same_place):
            is_last = stop[root] == position + 1 and root not in kept
            if is_last and output not in outside:
                merged[output] = merged.get(root, root)
                break
    return merged


def state_places(function: Function) -> dict[Value, Value]:
    """For what each state becomes: the state, in whose buffer it is computed.

    `edgec.passes.settle_states` has made sure that this is possible.
    """
    return {state.after: state.before for state in function.states}


def with_states(problem: Problem, function: Function) -> Problem:
    """The problem with the states, which are live all the time, in a region of their own."""
    if not function.states:
        return problem
    stop = max((buffer.stop for buffer in problem.buffers), default=1)
    buffers = tuple(
        Buffer(s.before.name, s.before.type.nbytes, 0, stop, ALIGN_BYTES, (STATE,))
        for s in function.states
    )
    return replace(
        problem, buffers=problem.buffers + buffers, regions=(*problem.regions, Region(STATE))
    )


def outside_values(function: Function, roots: Mapping[Value, Value], io: Io) -> set[Value]:
    """Stored values that are not in the arena: states, and by `io` what the caller has."""
    outside = {value for state in function.states for value in (state.before, state.after)}
    if io != "arena":
        outside |= {roots.get(v, v) for v in function.inputs}
    if io == "caller":
        outside |= {roots.get(v, v) for v in function.outputs}
    return outside


def variant_distances(
    variant: Variant, output: Value, roots: Mapping[Value, Value]
) -> dict[Value, int]:
    """By how many bytes the output must start below each stored value that it may overlap."""
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
    """The same for its places of scratch, by their names: those of all inputs in one place."""
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
