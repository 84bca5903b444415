"""Groups of a GPU that read one input are moved next to each other: as blocks of one launch they
take the time of one (`edgec/codegen/one_launch.py`), such as query, key and value of attention.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgec.graph.ir import Function, Value
from edgec.loop.bound import ONE_THREAD, kernel_parts, launch_of
from edgec.passes.fuse_groups import storage
from edgec.passes.lower_groups import LoweredGroup, Variant

Running = tuple[LoweredGroup, Variant]


def side_by_side(function: Function, running: Sequence[Running]) -> tuple[Running, ...]:
    """The groups of a function with their variants, in an order in which more may share a launch.

    A group moves to directly after the last group that reads the same input with as many threads.
    It stays if one of its inputs is computed later, if a state is accessed between the two
    positions, or if the processor runs a part of the model.
    """
    roots, done = storage(function), list[Running]()
    states = {roots.get(v, v) for s in function.states for v in (s.before, s.after)}

    def values(group: LoweredGroup) -> set[Value]:
        return {roots.get(value, value) for value in group.group.activations}

    def made(group: LoweredGroup) -> set[Value]:
        return {roots.get(value, value) for value in group.group.outputs}

    def may_pass(lowered: LoweredGroup, before: LoweredGroup) -> bool:
        """Whether a group may run before another that stands before it."""
        touched = set[Value]().union(*(of(g) for of in (values, made) for g in (lowered, before)))
        is_free = touched.isdisjoint(states) and values(lowered).isdisjoint(made(before))
        return is_free and not (lowered.on_processor or before.on_processor)

    def place(lowered: LoweredGroup, variant: Variant) -> int:
        """Return the position after the nearest like group, or the end if it cannot move there."""
        reads, threads = values(lowered), _threads(variant)
        for at in reversed(range(len(done))):
            before, other = done[at]
            if not may_pass(lowered, before):
                break
            is_near = at == len(done) - 1 or reads & values(before)
            if is_near and _threads(other) == threads:
                return at + 1
        return len(done)

    for each in running:
        done.insert(place(*each), each)
    return tuple(done)


def _threads(variant: Variant) -> tuple[tuple[int, ...], ...]:
    """The extents of the threads of a block, for each kernel."""
    launches = map(launch_of, kernel_parts(variant.function))
    return tuple((launch or ONE_THREAD).extents[3:] for launch in launches)
