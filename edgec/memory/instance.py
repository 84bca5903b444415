"""One region's placement problem as integer arrays, the form that every solver here works on.

1. Buffers without bytes are left out; they conflict with nothing.
2. Offsets are counted in granules: the largest power of two that divides every offset.
3. Every rule between two buffers becomes a *separation*: for a conflicting pair, either
   `off[b] >= off[a] + sep[a, b]` or `off[a] >= off[b] + sep[b, a]`. Without a permitted overlap
   `sep[a, b]` is the size of a; an overlap lowers `sep[second, first]` to its distance.
4. A separation may be zero or negative. Then `scale` and `shift` make all of them positive in the
   coordinate `u = off * scale + shift`, so that "below" orders the buffers of any plan without
   cycles, and a search may build it from below.
5. Time is cut into sections: steps with the same live buffers; sections whose buffers are all
   live in another section are dropped.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from edgec.memory.problem import Buffer, Overlap

IntArray = npt.NDArray[np.int64]

NEVER = -(1 << 40)  # a separation that never binds: the pair does not conflict
FAR = 1 << 40  # an offset beyond every arena


@dataclass(frozen=True)
class Section:
    """The buffers that live together in consecutive steps, and the least bytes they need.

    `weights[i]` is the least that `members[i]` adds to the height of the stack: its size in
    granules minus the most that a permitted overlap within the section can save.
    """

    start: int
    members: tuple[int, ...]
    weights: tuple[int, ...]


@dataclass(frozen=True)
class Instance:
    """Arrays over the n buffers that have bytes; offsets and sizes in granules.

    gaps: `gaps[a][b]` is `sep[a, b]`, of the pairs that conflict. shift [n] >= 0.
    lo [n]: smallest legal offset. align [n]: offsets are multiples of it. `is_exact` is False
    when no shift exists and the separations below 1 were raised to 1: plans stay legal, but
    a search over them proves nothing below their peak.
    """

    buffers: tuple[Buffer, ...]
    granule: int
    size: IntArray
    size_bytes: IntArray
    align: IntArray
    lo: IntArray
    gaps: tuple[dict[int, int], ...] = field(repr=False)
    scale: int
    shift: IntArray
    sections: tuple[Section, ...]
    is_exact: bool

    def __len__(self) -> int:
        return len(self.buffers)

    @cached_property
    def sep(self) -> IntArray:
        """The separations [n, n], NEVER where a pair does not conflict; for searches alone.

        Everything else reads `gaps`: a model of thousands of steps has few pairs in conflict.
        """
        sep = np.full((len(self), len(self)), NEVER, dtype=np.int64)
        for low, gaps in enumerate(self.gaps):
            sep[low, list(gaps)] = list(gaps.values())
        return sep

    def highest_offsets(self, capacity_bytes: int) -> IntArray:
        """Return for each buffer the largest legal offset under a capacity, in granules."""
        room = (capacity_bytes - self.size_bytes) // self.granule
        room = room // self.align * self.align
        for i, buffer in enumerate(self.buffers):
            if buffer.fixed_offset is not None:
                room[i] = min(room[i], buffer.fixed_offset // self.granule)
        return room

    def peak_bytes(self, offsets: Sequence[int] | IntArray) -> int:
        """Return where the highest buffer ends, for offsets in granules."""
        if not len(self):
            return 0
        return int((np.asarray(offsets) * self.granule + self.size_bytes).max())


def make_instance(buffers: Sequence[Buffer], overlaps: Sequence[Overlap]) -> Instance:
    """Translate the buffers of one region and their overlaps (of absent buffers too)."""
    kept = tuple(b for b in buffers if b.size_bytes > 0)
    index = {b.name: i for i, b in enumerate(kept)}
    granule = math.gcd(*(b.align_bytes for b in kept)) if kept else 1
    size_bytes = np.array([b.size_bytes for b in kept], dtype=np.int64)
    size = -(-size_bytes // granule)
    distance: dict[tuple[int, int], int] = {}
    sharing: list[set[int]] = [set() for _ in kept]
    for o in overlaps:
        if o.first in index and o.second in index:
            pair = (index[o.second], index[o.first])
            granules = -(-o.distance_bytes // granule)
            distance[pair] = min(distance.get(pair, granules), granules)
            sharing[pair[0]].add(pair[1])
            sharing[pair[1]].add(pair[0])
    gaps = _gaps(kept, size.tolist(), distance)
    scale, shift, is_exact = _positive_coordinate(gaps)
    return Instance(
        buffers=kept,
        granule=granule,
        size=size,
        size_bytes=size_bytes,
        align=np.array([b.align_bytes // granule for b in kept], dtype=np.int64),
        lo=np.array([(b.fixed_offset or 0) // granule for b in kept], dtype=np.int64),
        gaps=gaps,
        scale=scale,
        shift=shift,
        sections=_sections(kept, size.tolist(), gaps, sharing),
        is_exact=is_exact,
    )


def _gaps(
    buffers: tuple[Buffer, ...], size: list[int], distance: dict[tuple[int, int], int]
) -> tuple[dict[int, int], ...]:
    """The separations of the pairs that conflict, by the lower buffer and the higher one."""
    gaps: list[dict[int, int]] = [{} for _ in buffers]
    live: list[int] = []
    for b in sorted(range(len(buffers)), key=lambda i: buffers[i].start):
        live = [a for a in live if buffers[a].stop > buffers[b].start]
        for a in live:
            up = min(size[a], distance.get((a, b), size[a]))
            down = min(size[b], distance.get((b, a), size[b]))
            # Whole offsets: if the two half-lines cover every difference, the pair is free.
            if up + down > 1:
                gaps[a][b], gaps[b][a] = up, down
        live.append(b)
    return tuple(dict(sorted(of.items())) for of in gaps)


def _positive_coordinate(gaps: tuple[dict[int, int], ...]) -> tuple[int, IntArray, bool]:
    """Return scale and shift with `sep[a, b] * scale + shift[b] - shift[a] >= 1`, and success.

    The shifts are longest paths from a common source (Bellman-Ford). If a cycle of separations
    sums to less than 1 there are none: then those below 1 in `gaps` are raised to 1.
    """
    n = len(gaps)
    shift = [0] * n
    pulling = [a for a, of in enumerate(gaps) if min(of.values(), default=1) < 1]
    if not pulling:
        return 1, np.zeros(n, dtype=np.int64), True
    scale = n + 1  # a cycle has at most n pairs, and each needs 1 in the new coordinate
    # A path without a cycle leaves each buffer once: a longer one has a cycle.
    longest = sum(
        max(1 - gap * scale for gap in of.values()) for of in map(gaps.__getitem__, pulling)
    )
    for order in itertools.cycle((range(n), range(n - 1, -1, -1))):
        is_raised = False
        for a in order:
            for b, gap in gaps[a].items():
                raised = shift[a] + 1 - gap * scale
                if raised > shift[b]:
                    shift[b], is_raised = raised, True
        if not is_raised:
            return scale, np.array(shift, dtype=np.int64), True
        if max(shift) > longest:
            break
    for of in gaps:
        of.update({b: 1 for b, gap in of.items() if gap < 1})
    return 1, np.zeros(n, dtype=np.int64), False


def _sections(
    buffers: tuple[Buffer, ...], size: list[int], gaps: tuple[dict[int, int], ...],
    sharing: Sequence[set[int]],
) -> tuple[Section, ...]:  # fmt: skip
    # The live set only shrinks between two starts, so the maximal sets are found at starts.
    # Lifetimes are intervals: if any live set contains this one, the next one does.
    live: list[int] = []
    sections = []
    order = sorted(range(len(buffers)), key=lambda i: (buffers[i].start, i))
    for start, starting in itertools.groupby(order, key=lambda i: buffers[i].start):
        still = [i for i in live if buffers[i].stop > start]
        if len(still) < len(live):
            sections.append((buffers[live[-1]].start, tuple(live)))
        live = still + list(starting)
    if live:
        sections.append((buffers[live[-1]].start, tuple(live)))
    return tuple(Section(t, own, _weights(own, size, gaps, sharing)) for t, own in sections)


def _weights(
    members: tuple[int, ...], size: list[int], gaps: tuple[dict[int, int], ...],
    sharing: Sequence[set[int]],
) -> tuple[int, ...]:  # fmt: skip
    """Return the granules that each member surely adds beyond the members before it.

    A pair with `sep[low, high] < size[low]` shares at most size[low] - max(sep[low, high], 0)
    granules, and never more than the smaller of the two. `sharing[b]`: the pairs of b that a rule
    lets overlap; no others do.
    """
    weights = []
    before = set[int]()
    for b in members:
        saved = 0
        for a in sharing[b] & before:
            if b not in gaps[a]:  # such a pair shares all it can
                saved += min(size[a], size[b])
                continue
            up, down = max(gaps[a][b], 0), max(gaps[b][a], 0)
            saved += max(0, min(max(size[a] - up, size[b] - down), size[a], size[b]))
        weights.append(max(0, size[b] - saved))
        before.add(b)
    return tuple(weights)
