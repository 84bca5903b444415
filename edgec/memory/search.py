"""The exact search: is there a plan whose peak does not exceed a capacity?

Any plan can be settled: lower single buffers until none can be lowered any more. The search builds
settled plans from below, in the shifted coordinate u of instance.py. A waiting buffer is a *source*
of a plan if every waiting buffer that conflicts with it lies above it; in a settled plan a source
sits exactly on its floor, the highest separation that the placed buffers impose. One step is:

1. Choose a section. Its lowest waiting buffer lies at or below `latest`, or the rest would not fit
   on top. That buffer is a source, or something waits below it, and so on down: following "may lie
   below" from the buffers that may be lowest gives a set that contains a source of every plan.
   A small set is better; often it has one buffer.
2. Try each of that set as the source: put it on its floor and raise the floors of its neighbours.
   A buffer that was tried in vain sleeps: it is not a source until a neighbour was placed.

A node fails when a floor is too high for the capacity, when a section has no buffer that may be
lowest, or when

3. a neighbour of the buffer just placed would fit below it and disturb no one: not settled;
4. of two equal buffers the second would be placed first;
5. the same buffers on the same floors, with no more of them asleep, have failed before.

When the waiting buffers fall apart in time, the parts are solved one after the other, and a part
without solution fails the node where it was split off, not the parts solved before it.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from edgec.memory.instance import FAR, NEVER, Instance, IntArray
from edgec.memory.strategy import SectionRule, Strategy

BoolArray = npt.NDArray[np.bool_]

CLOCK_EVERY_NODES = 64
# About 1 KB each for the largest problems; above this number, failures are no longer remembered.
MAX_REMEMBERED = 100_000
# How much of the blame of earlier runs is left at the next.
_BLAME_DECAY = 0.9


class Verdict(Enum):
    """Result of a search."""

    FOUND = "found"
    NONE = "none"  # proven: no plan fits
    GAVE_UP = "gave up"  # out of nodes or time


@dataclass(frozen=True)
class SearchResult:
    """The verdict, the plan in granules if there is one, and how many placements were tried.

    waiting: the fewest buffers that were still to be placed at any node.
    """

    verdict: Verdict
    offsets: IntArray | None
    nodes: int
    waiting: int


@dataclass(frozen=True)
class _State:
    """Buffers waiting to be placed above those placed already."""

    count: int  # how many wait
    floor: IntArray  # [n] in u; FAR for buffers that do not wait here
    todo: IntArray  # [sections] granules that the waiting buffers surely add
    asleep: BoolArray  # [n] known to be no source


@dataclass(frozen=True)
class _Later:
    """A part to solve once the current one is done; `height` frames then still stand.

    count: how many buffers wait in this part and in those after it.
    """

    state: _State
    height: int
    after: _Later | None
    count: int


@dataclass
class _Frame:
    """A state, its untried choices (the best last), the tried ones, and the next part after a
    solution.
    """

    state: _State
    choices: list[int]
    tried: list[int]
    after: _Later | None
    key: bytes


class Search:
    """Searches one instance, for any capacity, with one strategy after the other."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        n, sections = len(instance), instance.sections
        self._conflict = instance.sep > NEVER
        scaled = instance.sep * instance.scale + instance.shift[None, :] - instance.shift[:, None]
        self._sep = np.where(self._conflict, scaled, -FAR)
        self._below = np.where(self._conflict, scaled, FAR).T.copy()  # [c, y]: sep of y under c
        self._is_aligned = bool((instance.align == 1).all())
        self._members = np.array([m for s in sections for m in s.members], dtype=np.int64)
        lengths = [len(s.members) for s in sections]
        self._starts = np.cumsum([0, *lengths[:-1]], dtype=np.int64)
        self._lengths = lengths
        self._section_of = np.repeat(np.arange(len(sections)), lengths)
        self._weight = np.zeros((n, len(sections)), dtype=np.int64)
        self._first = np.full(n, len(sections), dtype=np.int64)
        self._final = np.zeros(n, dtype=np.int64)
        self._highest_shift = np.zeros(len(sections), dtype=np.int64)
        for at, section in enumerate(sections):
            members = list(section.members)
            self._weight[members, at] = section.weights
            self._first[members] = np.minimum(self._first[members], at)
            self._final[members] = at
            self._highest_shift[at] = instance.shift[members].max()
        self._by_first = np.argsort(self._first, kind="stable")
        self._blame = np.ones(len(sections))
        self._spans = np.stack([self._first, self._final + 1], axis=1)

    def run(
        self,
        capacity_bytes: int,
        strategy: Strategy,
        node_limit: int,
        deadline_s: float = float("inf"),
    ) -> SearchResult:
        """Search for a plan with a peak of at most `capacity_bytes`.

        Gives up after `node_limit` placements, or when `time.process_time()` passes `deadline_s`.
        Only the deadline is not deterministic.
        """
        instance = self.instance
        self._strategy = strategy
        self._rank = strategy.rank
        self._blame = 1 + (self._blame - 1) * _BLAME_DECAY
        self._twin = _twins(instance, strategy.rank)
        self._capacity = -(-capacity_bytes // instance.granule)
        highest = instance.highest_offsets(capacity_bytes)
        self._highest = highest * instance.scale + instance.shift
        self._failed: dict[bytes, list[BoolArray]] = {}
        placed_u = np.zeros(len(instance), dtype=np.int64)
        stack: list[_Frame] = []
        nodes = 0
        self._waiting = len(instance)
        if not len(instance):
            return SearchResult(Verdict.FOUND, placed_u, nodes, 0)
        root = _State(
            len(instance),
            instance.lo * instance.scale + instance.shift,
            self._weight.sum(axis=0),
            np.zeros(len(instance), dtype=np.bool_),
        )
        self._enter(root, stack, None)
        while stack:
            frame = stack[-1]
            if not frame.choices:
                stack.pop()
                if len(self._failed) < MAX_REMEMBERED:
                    self._failed.setdefault(frame.key, []).append(frame.state.asleep)
                continue
            nodes += 1
            if nodes > node_limit or (
                nodes % CLOCK_EVERY_NODES == 0 and time.process_time() > deadline_s
            ):
                return SearchResult(Verdict.GAVE_UP, None, nodes, self._waiting)
            b = frame.choices.pop()
            placed_u[b] = frame.state.floor[b]
            if frame.state.count > 1:
                child = self._place(frame, b)
                if child is not None:
                    self._enter(child, stack, frame.after)
            elif frame.after is not None:
                later = frame.after
                del stack[later.height :]
                self._enter(later.state, stack, later.after)
            else:
                offsets = (placed_u - instance.shift) // instance.scale
                return SearchResult(Verdict.FOUND, offsets, nodes, 0)
        return SearchResult(Verdict.NONE, None, nodes, self._waiting)

    def _place(self, frame: _Frame, b: int) -> _State | None:
        """Return the state after `b` was put on its floor; None if that is not settled."""
        state = frame.state
        u = int(state.floor[b])
        floor = np.maximum(state.floor, self._sep[b] + u)
        floor[b] = FAR
        if not self._is_aligned:
            floor = self._aligned(floor)
        frame.tried.append(b)
        for c in (state.floor + self._below[b] <= u).nonzero()[0].tolist():
            if (floor >= self._sep[c] + state.floor[c]).all():
                return None
        asleep = state.asleep & ~self._conflict[b]
        for other in frame.tried:
            if not self._conflict[b, other]:
                asleep[other] = True
        asleep[b] = False
        return _State(state.count - 1, floor, state.todo - self._weight[b], asleep)

    def _aligned(self, floor: IntArray) -> IntArray:
        instance = self.instance
        offset = (floor - instance.shift) // instance.scale
        aligned = -(-offset // instance.align) * instance.align
        return np.where(floor < FAR, aligned * instance.scale + instance.shift, floor)

    def _enter(self, state: _State, stack: list[_Frame], after: _Later | None) -> None:
        """Push a frame for `state`, or for its parts, unless it has no solution."""
        self._waiting = min(self._waiting, state.count + (after.count if after else 0))
        too_high = (state.floor > self._highest) & (state.floor < FAR)
        if too_high.any():
            for b in too_high.nonzero()[0].tolist():
                first, end = self._spans[b].tolist()
                self._blame[first:end] += 1 / (end - first)
            return
        floor_of_member = state.floor[self._members]
        lowest = np.minimum.reduceat(floor_of_member, self._starts)
        latest = self._latest(state)
        overfull = (lowest > latest) & (lowest < FAR)
        if overfull.any():
            self._blame[overfull] += 1 / overfull.sum()
            return
        parts = self._parts(state)
        if len(parts) > 1:
            for part in parts[:0:-1]:
                count = part.count + (after.count if after else 0)
                after = _Later(part, len(stack), after, count)
            state = parts[0]
            floor_of_member = state.floor[self._members]
            lowest = np.minimum.reduceat(floor_of_member, self._starts)
            latest = self._latest(state)
        key = hashlib.blake2b(state.floor.tobytes(), digest_size=16).digest()
        for asleep in self._failed.get(key, ()):
            if not (asleep & ~state.asleep).any():
                return
        may_be_lowest = floor_of_member <= latest[self._section_of]
        section = self._choose_section(state, may_be_lowest, lowest, latest)
        choices = self._possible_sources(state, section, latest)
        stack.append(_Frame(state, choices, [], after, key))

    def _latest(self, state: _State) -> IntArray:
        """Return for each section the highest u that its lowest waiting buffer can have."""
        return (self._capacity - state.todo) * self.instance.scale + self._highest_shift

    def _parts(self, state: _State) -> list[_State]:
        """Split the waiting buffers where no one crosses from one section to the next."""
        waiting = self._by_first[state.floor[self._by_first] < FAR]
        first = self._first[waiting]
        reach = np.maximum.accumulate(self._final[waiting])
        cuts = (first[1:] > reach[:-1]).nonzero()[0] + 1
        if not len(cuts):
            return [state]
        parts = []
        for members in np.split(waiting, cuts):
            floor = np.full_like(state.floor, FAR)
            floor[members] = state.floor[members]
            asleep = np.zeros_like(state.asleep)
            asleep[members] = state.asleep[members]
            todo = np.zeros_like(state.todo)
            inside = slice(self._first[members].min(), self._final[members].max() + 1)
            todo[inside] = state.todo[inside]
            parts.append(_State(len(members), floor, todo, asleep))
        # The small parts first: they cost the least, whether they fail or not.
        return sorted(parts, key=lambda part: part.count)

    def _choose_section(
        self, state: _State, may_be_lowest: BoolArray, lowest: IntArray, latest: IntArray
    ) -> int:
        """Return the section to branch in, among sections with waiting buffers."""
        count = np.add.reduceat(may_be_lowest.astype(np.int64), self._starts)
        count[lowest >= FAR] = FAR
        rule = self._strategy.section_rule
        if rule is SectionRule.LOWEST or (
            rule is SectionRule.FORCED_THEN_LOWEST and count.min() > 1
        ):
            return int(np.lexsort((count, lowest))[0])
        if rule is SectionRule.BLAMED:
            return int(np.argmin(np.where(count == 1, 0, count / self._blame)))
        if rule is SectionRule.FULLEST:
            return int(np.lexsort((count, np.where(lowest < FAR, latest, FAR)))[0])
        fewest = (count == count.min()).nonzero()[0]
        if rule is SectionRule.FEWEST_THEN_FULLEST:
            return int(fewest[np.argmax(state.todo[fewest])])
        if rule is SectionRule.FEWEST_THEN_TIGHTEST:
            return int(fewest[np.argmin((latest - lowest)[fewest])])
        return int(fewest[0])

    def _possible_sources(self, state: _State, section: int, latest_of: IntArray) -> list[int]:
        """Return buffers among which every plan has a source, the best last, none asleep.

        `limit[c]` is the highest u at which c can lie if it is in the chain of buffers at or below
        the lowest of the section. A source is the lowest waiting buffer of all its sections.
        """
        latest = int(latest_of[section])
        start = int(self._starts[section])
        members = self._members[start : start + self._lengths[section]]
        front = members[state.floor[members] <= latest]
        limit = np.full(len(state.floor), -FAR)
        limit[front] = np.minimum(latest, self._highest[front])
        if len(front) < int((state.floor <= np.minimum(latest, self._highest)).sum()):
            while len(front):
                below = (limit[front][:, None] - self._below[front]).max(axis=0)
                below = np.minimum(below, self._highest)
                front = ((below > limit) & (below >= state.floor)).nonzero()[0]
                limit[front] = below[front]
        is_choice = (limit >= state.floor) & ~state.asleep
        is_choice &= (self._twin < 0) | (state.floor[self._twin] >= FAR)
        choices = is_choice.nonzero()[0]
        if len(choices):
            spans = self._spans[choices].ravel()
            room = np.minimum.reduceat(np.append(latest_of, FAR), spans)[::2]
            choices = choices[state.floor[choices] <= room]
        best_first = np.lexsort((self._rank[choices], state.floor[choices]))
        return [int(b) for b in choices[best_first[::-1]]]


def _twins(instance: Instance, rank: IntArray) -> IntArray:
    """Return for each buffer the equal one just before it in rank, or -1.

    Equal: same size, alignment and lifetime, no pin, and no overlap with anything.
    """
    plain = np.where(instance.sep > NEVER, instance.size[:, None], NEVER)
    is_plain = (instance.sep == plain).all(axis=1) & (instance.sep == plain).all(axis=0)
    twin = np.full(len(instance), -1, dtype=np.int64)
    latest: dict[tuple[int, ...], int] = {}
    for i in np.argsort(rank).tolist():
        b = instance.buffers[i]
        if b.fixed_offset is None and is_plain[i]:
            key = (b.size_bytes, b.align_bytes, b.start, b.stop, int(instance.shift[i]))
            twin[i] = latest.get(key, -1)
            latest[key] = i
    return twin
