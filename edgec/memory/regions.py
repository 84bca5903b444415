"""Which region each buffer lives in, before offsets are known.

Every buffer starts in the first region that it names. While the live bytes of a region exceed
its capacity, one of the buffers of its worst moment moves to the next region it names: the one
that relieves the region at once with the fewest bytes, else the largest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgec.memory.bound import instance_bound_bytes, section_bound_bytes
from edgec.memory.instance import make_instance
from edgec.memory.problem import Buffer, Problem


def assign_regions(problem: Problem) -> dict[str, str]:
    """Return buffer name -> region name, such that live bytes alone break no capacity.

    Where they cannot be met, the overfull region keeps its excess: solving it gives the error.
    """
    assigned = {b.name: b.regions[0] for b in problem.buffers}
    _relieve_all(problem, assigned)
    return assigned


def spill(problem: Problem, region_of: Mapping[str, str], overfull: str) -> dict[str, str] | None:
    """Return an assignment with less in the region `overfull`, or None if nothing may move."""
    assigned = dict(region_of)
    inside = [b for b in problem.buffers if assigned[b.name] == overfull]
    if not _move_one(assigned, inside, excess_bytes=1):
        return None
    _relieve_all(problem, assigned)
    return assigned


def _relieve_all(problem: Problem, assigned: dict[str, str]) -> None:
    # Every move takes a buffer further down its own list, so this ends.
    while any(
        _relieve(problem, assigned, region.name, region.capacity_bytes)
        for region in problem.regions
        if region.capacity_bytes is not None
    ):
        pass


def _relieve(problem: Problem, assigned: dict[str, str], region: str, capacity_bytes: int) -> bool:
    """Move one buffer out of `region` if live bytes overflow it; return whether one moved."""
    inside = [b for b in problem.buffers if assigned[b.name] == region]
    instance = make_instance(inside, problem.overlaps)
    if instance_bound_bytes(instance) <= capacity_bytes:
        return False
    worst = max(
        instance.sections,
        key=lambda s: section_bound_bytes(instance, s.members, s.weights),
        default=None,
    )
    if worst is None:
        return False
    excess = section_bound_bytes(instance, worst.members, worst.weights) - capacity_bytes
    return _move_one(assigned, [instance.buffers[i] for i in worst.members], excess)


def _move_one(assigned: dict[str, str], buffers: Sequence[Buffer], excess_bytes: int) -> bool:
    movable = [
        b
        for b in buffers
        if b.size_bytes and b.regions.index(assigned[b.name]) + 1 < len(b.regions)
    ]
    if not movable:
        return False
    enough = [b for b in movable if b.size_bytes >= excess_bytes]
    chosen = (
        min(enough, key=lambda b: (b.size_bytes, b.name))
        if enough
        else max(movable, key=lambda b: (b.size_bytes, b.name))
    )
    assigned[chosen.name] = chosen.regions[chosen.regions.index(assigned[chosen.name]) + 1]
    return True
