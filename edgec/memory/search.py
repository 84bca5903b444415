"""The exact search: is there a plan whose peak does not exceed a capacity?

Any plan can be pushed down until every buffer rests on the floor or on a buffer it conflicts
with. The search builds such plans from below: buffers are placed in order of rising shifted
offset u (see instance.py), each exactly at its floor, which is the highest separation that the
buffers placed before it impose. So every pushed-down plan is built once, and a node is cut when

1. a floor is above the highest offset that the capacity leaves to its buffer;
2. a section cannot hold what is still to be placed in it above its lowest floor;
3. the next buffer would start above a place where some waiting buffer fits entirely: moving that
   one down first is always possible, so another node covers this one;
4. two equal buffers would be placed out of order.

When the waiting buffers fall apart in time, the parts are solved one after the other, and a part
without solution fails the node where it was split off, not the parts solved before it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from edgec.memory.instance import FAR, NEVER, Instance, IntArray

CLOCK_EVERY_NODES = 256


class Verdict(Enum):
    """How a search ended."""

    FOUND = "found"
    NONE = "none"  # proven: no plan fits
    GAVE_UP = "gave up"  # out of nodes or time


@dataclass(frozen=True)
class SearchResult:
    """The verdict, the plan in granules if there is one, and how many placements were tried."""

    verdict: Verdict
    offsets: IntArray | None
    nodes: int


@dataclass(frozen=True)
class _State:
    """Buffers waiting to be placed above those placed already."""

    count: int  # how many wait
    floor: IntArray  # [n] in u; FAR for buffers that do not wait here
    todo: IntArray  # [sections] granules that the waiting buffers surely add
    level: int  # u of the buffer placed last
    last: int  # that buffer; -1 at the start


@dataclass(frozen=True)
class _Later:
    """A part to solve once the current one is done; `height` frames then still stand."""

    state: _State
    height: int
    after: _Later | None


@dataclass
class _Frame:
    """A state, its untried choices (the best last), and what to do when it is solved."""

    state: _State
    choices: list[int]
    after: _Later | None


class Search:
    """Searches one instance, for any capacity; `rank[i]` orders buffers with equal floors."""

    def __init__(self, instance: Instance, rank: Sequence[int]) -> None:
        self.instance = instance
        n, sections = len(instance), instance.sections
        self._rank = np.asarray(rank, dtype=np.int64)
        conflict = instance.sep > NEVER
        shift = instance.shift
        self._sep = np.where(conflict, instance.sep + shift[None, :] - shift[:, None], -FAR)
        # At least 1, so that of two buffers that may sit on one spot either can come first.
        self._reach = np.maximum(self._sep.max(axis=1, initial=0), 1)
        self._is_aligned = bool((instance.align == 1).all())
        self._members = np.array([m for s in sections for m in s.members], dtype=np.int64)
        lengths = [len(s.members) for s in sections]
        self._starts = np.cumsum([0, *lengths[:-1]], dtype=np.int64)
        self._weight = np.zeros((n, len(sections)), dtype=np.int64)
        self._first = np.full(n, len(sections), dtype=np.int64)
        self._final = np.zeros(n, dtype=np.int64)
        self._highest_shift = np.zeros(len(sections), dtype=np.int64)
        for at, section in enumerate(sections):
            members = list(section.members)
            self._weight[members, at] = section.weights
            self._first[members] = np.minimum(self._first[members], at)
            self._final[members] = at
            self._highest_shift[at] = shift[members].max()
        self._twin_before = _twins(instance, self._rank)
        self._has_twins = bool((self._twin_before >= 0).any())

    def run(
        self, capacity_bytes: int, node_limit: int, deadline_s: float = float("inf")
    ) -> SearchResult:
        """Search for a plan with a peak of at most `capacity_bytes`.

        Gives up after `node_limit` placements, or when `time.monotonic()` passes `deadline_s`.
        Everything but the deadline is deterministic.
        """
        instance = self.instance
        self._capacity = -(-capacity_bytes // instance.granule)
        self._highest = instance.highest_offsets(capacity_bytes) + instance.shift
        placed_u = np.zeros(len(instance), dtype=np.int64)
        stack: list[_Frame] = []
        nodes = 0
        if not len(instance):
            return SearchResult(Verdict.FOUND, placed_u, nodes)
        floor = instance.lo + instance.shift
        self._enter(_State(len(instance), floor, self._weight.sum(axis=0), 0, -1), stack, None)
        while stack:
            frame = stack[-1]
            if not frame.choices:
                stack.pop()
                continue
            nodes += 1
            if nodes > node_limit or (
                nodes % CLOCK_EVERY_NODES == 0 and time.monotonic() > deadline_s
            ):
                return SearchResult(Verdict.GAVE_UP, None, nodes)
            b = frame.choices.pop()
            placed_u[b] = frame.state.floor[b]
            if frame.state.count > 1:
                self._enter(self._place(frame.state, b), stack, frame.after)
            elif frame.after is not None:
                later = frame.after
                del stack[later.height :]
                self._enter(later.state, stack, later.after)
            else:
                return SearchResult(Verdict.FOUND, placed_u - instance.shift, nodes)
        return SearchResult(Verdict.NONE, None, nodes)

    def _place(self, state: _State, b: int) -> _State:
        """Return the state after `b` was put on its floor."""
        level = int(state.floor[b])
        floor = np.maximum(state.floor, self._sep[b] + level)
        floor[b] = FAR
        if not self._is_aligned:
            floor = self._aligned(floor)
        return _State(state.count - 1, floor, state.todo - self._weight[b], level, b)

    def _aligned(self, floor: IntArray) -> IntArray:
        align, shift = self.instance.align, self.instance.shift
        return np.where(floor < FAR, -(-(floor - shift) // align) * align + shift, floor)

    def _enter(self, state: _State, stack: list[_Frame], after: _Later | None) -> None:
        """Push a frame for `state`, or for its parts, unless it has no solution."""
        reachable = np.maximum(state.floor, state.level)
        if ((reachable > self._highest) & (state.floor < FAR)).any():
            return
        lowest = np.minimum.reduceat((reachable - self.instance.shift)[self._members], self._starts)
        if ((lowest + state.todo > self._capacity) & (state.todo > 0)).any():
            return
        parts = self._parts(state)
        for part in parts[:0:-1]:
            after = _Later(part, len(stack), after)
        stack.append(_Frame(parts[0], self._choices(parts[0]), after))

    def _parts(self, state: _State) -> list[_State]:
        """Split the waiting buffers where no one crosses from one section to the next."""
        waiting = np.flatnonzero(state.floor < FAR)
        first, final = self._first[waiting], self._final[waiting]
        order = np.argsort(first, kind="stable")
        first = first[order]
        reach = np.maximum.accumulate(final[order])
        cuts = np.flatnonzero(first[1:] > reach[:-1]) + 1
        if not len(cuts):
            return [state]
        parts = []
        for members in np.split(waiting[order], cuts):
            floor = np.full_like(state.floor, FAR)
            floor[members] = state.floor[members]
            todo = np.zeros_like(state.todo)
            inside = slice(self._first[members].min(), self._final[members].max() + 1)
            todo[inside] = state.todo[inside]
            parts.append(_State(len(members), floor, todo, state.level, state.last))
        # The small parts first: they cost the least, whether they fail or not.
        return sorted(parts, key=lambda part: part.count)

    def _choices(self, state: _State) -> list[int]:
        """Return what may be placed next, the best last."""
        floor, level, last = state.floor, state.level, state.last
        room = (self._capacity - state.todo + self._highest_shift)[state.todo > 0]
        highest = min(int((floor + self._reach).min()) - 1, int(room.min(initial=FAR)))
        may = (floor >= level) & (floor <= highest)
        if last >= 0:
            # Equal u: in the order of rank, unless the last one is what raised it to here.
            may &= (floor > level) | (self._rank > self._rank[last]) | (self._sep[last] == 0)
        if self._has_twins:
            twin = self._twin_before
            may &= (twin < 0) | (floor[twin] == FAR)
        choices = np.flatnonzero(may)
        best_first = np.lexsort((self._rank[choices], floor[choices]))
        return [int(b) for b in choices[best_first[::-1]]]


def _twins(instance: Instance, rank: IntArray) -> IntArray:
    """Return for each buffer the equal one just before it in rank, or -1.

    Equal: same size, alignment and lifetime, no pin, and the same separations to all others.
    """
    twin = np.full(len(instance), -1, dtype=np.int64)
    latest: dict[tuple[object, ...], int] = {}
    for i in np.argsort(rank).tolist():
        b = instance.buffers[i]
        has_overlap = bool(
            (instance.sep[i][list(instance.neighbours[i])] != instance.size[i]).any()
            or (instance.sep[list(instance.neighbours[i]), i]
                != instance.size[list(instance.neighbours[i])]).any()
        )  # fmt: skip
        if b.fixed_offset is None and not has_overlap:
            key = (b.size_bytes, b.align_bytes, b.start, b.stop, int(instance.shift[i]))
            twin[i] = latest.get(key, -1)
            latest[key] = i
    return twin
