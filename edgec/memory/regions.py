"""Which region each buffer lives in, before offsets are known.

A search over the buffers finds the cheapest assignment whose live bytes exceed no capacity. Buffers
whose region matters most per byte come first; the search stops at `NODE_LIMIT` nodes with the best
assignment found. Until all buffers are assigned, permitted overlaps count with their largest
saving, so that no legal assignment is excluded.

Offsets can need more than live bytes. Then one of the buffers of the overfull region moves to the
next region that it names (`spill`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgec.memory.bound import instance_bound_bytes, section_bound_bytes
from edgec.memory.instance import make_instance
from edgec.memory.problem import Buffer, Problem

NODE_LIMIT = 4_000


@dataclass(frozen=True)
class Assignment:
    """Buffer name -> region name. `is_exact`: no assignment within the capacities costs less."""

    region_of: dict[str, str]
    cost: float
    is_exact: bool


def assign_regions(problem: Problem) -> Assignment:
    """Return the cheapest assignment found whose live bytes exceed no capacity.

    If there is none, overfull regions keep their excess: solving them raises the error.
    """
    cheapest = {b.name: b.cheapest for b in problem.buffers}
    cost = sum(b.cost_in(b.cheapest) for b in problem.buffers)
    if _fits(problem, cheapest):
        return Assignment(cheapest, cost, True)
    search = _Search(problem)
    search.run()
    if search.best is not None:
        return Assignment(search.best, search.best_cost, search.nodes < NODE_LIMIT)
    _relieve_all(problem, cheapest)
    cost = sum(b.cost_in(cheapest[b.name]) for b in problem.buffers)
    return Assignment(cheapest, cost, False)


def spill(problem: Problem, region_of: Mapping[str, str], overfull: str) -> dict[str, str] | None:
    """Return an assignment with less in the region `overfull`, or None if nothing may move."""
    assigned = dict(region_of)
    inside = [b for b in problem.buffers if assigned[b.name] == overfull]
    if not _move_one(assigned, inside, excess_bytes=1):
        return None
    _relieve_all(problem, assigned)
    return assigned


def _fits(problem: Problem, assigned: Mapping[str, str]) -> bool:
    for region in problem.regions:
        if region.capacity_bytes is not None:
            inside = [b for b in problem.buffers if assigned[b.name] == region.name]
            instance = make_instance(inside, problem.overlaps)
            if instance_bound_bytes(instance) > region.capacity_bytes:
                return False
    return True


class _Search:
    """Depth first over the buffers, the cheapest region of each first."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.buffers = sorted(problem.buffers, key=_regret, reverse=True)
        self.stop = max((b.stop for b in problem.buffers), default=0)
        self.room = {
            region.name: [region.capacity_bytes + saved for saved in self._savings()]
            for region in problem.regions
            if region.capacity_bytes is not None
        }
        # Lower bound of the costs of the buffers from here on.
        self.least = [0.0]
        for b in reversed(self.buffers):
            self.least.append(self.least[-1] + b.cost_in(b.cheapest))
        self.least.reverse()
        self.nodes = 0
        self.best: dict[str, str] | None = None
        self.best_cost = 0.0

    def _savings(self) -> list[int]:
        """Bytes that overlaps can save at most at each step."""
        by_name = {b.name: b for b in self.problem.buffers}
        saved = [0] * self.stop
        for second in {o.second for o in self.problem.overlaps}:
            firsts = {o.first for o in self.problem.overlaps if o.second == second}
            own, inputs = by_name[second], sum(by_name[f].size_bytes for f in firsts)
            saved[own.start] += min(own.size_bytes, inputs)
        return saved

    def run(self) -> None:
        """Fill `best` with the cheapest assignment found."""
        assigned: dict[str, str] = {}
        # Not recursive: a network can have more buffers than Python has frames.
        menus = [iter(_options(self.buffers[0]))] if self.buffers else []
        costs = [0.0]
        while menus and self.nodes < NODE_LIMIT:
            at = len(menus) - 1
            buffer = self.buffers[at]
            if buffer.name in assigned:
                self._take(buffer, assigned.pop(buffer.name), -1)
                costs.pop()
            region = next(menus[-1], None)
            if region is None:
                menus.pop()
                continue
            cost = costs[-1] + buffer.cost_in(region)
            is_worse = self.best is not None and cost + self.least[at + 1] >= self.best_cost
            if is_worse or not self._has_room(buffer, region):
                continue
            self.nodes += 1
            assigned[buffer.name] = region
            self._take(buffer, region, 1)
            costs.append(cost)
            if len(assigned) < len(self.buffers):
                menus.append(iter(_options(self.buffers[at + 1])))
            elif _fits(self.problem, assigned):
                self.best, self.best_cost = dict(assigned), cost

    def _has_room(self, buffer: Buffer, region: str) -> bool:
        room = self.room.get(region)
        return room is None or min(room[buffer.start : buffer.stop]) >= buffer.size_bytes

    def _take(self, buffer: Buffer, region: str, times: int) -> None:
        room = self.room.get(region)
        if room is not None:
            for step in range(buffer.start, buffer.stop):
                room[step] -= times * buffer.size_bytes


def _options(buffer: Buffer) -> list[str]:
    return sorted(buffer.regions, key=buffer.cost_in)  # stable: the preferred first


def _regret(buffer: Buffer) -> tuple[float, int]:
    """The cost per byte of the wrong region; of equals the largest first."""
    costs = [buffer.cost_in(region) for region in buffer.regions]
    return (max(costs) - min(costs)) / max(buffer.size_bytes, 1), buffer.size_bytes


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
    """Move the buffer to the next of its regions that adds the least cost, if one suffices."""

    def following(buffer: Buffer) -> str | None:
        options = _options(buffer)
        rest = options[options.index(assigned[buffer.name]) + 1 :]
        return rest[0] if rest else None

    movable = [(b, to) for b in buffers if b.size_bytes and (to := following(b)) is not None]
    if not movable:
        return False

    def added(item: tuple[Buffer, str]) -> tuple[float, int, str]:
        buffer, to = item
        extra = buffer.cost_in(to) - buffer.cost_in(assigned[buffer.name])
        return extra, buffer.size_bytes, buffer.name

    enough = [item for item in movable if item[0].size_bytes >= excess_bytes]
    if enough:
        chosen = min(enough, key=added)
    else:
        chosen = max(movable, key=lambda item: (item[0].size_bytes, item[0].name))
    assigned[chosen[0].name] = chosen[1]
    return True
