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

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from edgec.memory.problem import Buffer, Overlap

IntArray = npt.NDArray[np.int64]

NEVER = -(1 << 40)  # a separation that never binds: the pair does not conflict
FAR = 1 << 40  # an offset beyond every arena


@dataclass(frozen=True)
class Section:
    """The buffers live together in one stretch of steps, and the least bytes they need.

    `weights[i]` is what `members[i]` surely adds to the height of the stack: its size in
    granules, less what a permitted overlap within the section can save.
    """

    start: int
    members: tuple[int, ...]
    weights: tuple[int, ...]


@dataclass(frozen=True)
class Instance:
    """Arrays over the n buffers that have bytes; offsets and sizes in granules.

    sep [n, n]: see the module text, NEVER where the pair does not conflict. shift [n] >= 0.
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
    sep: IntArray
    scale: int
    shift: IntArray
    sections: tuple[Section, ...]
    is_exact: bool
    neighbours: tuple[tuple[int, ...], ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.buffers)

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
    for o in overlaps:
        if o.first in index and o.second in index:
            pair = (index[o.second], index[o.first])
            granules = -(-o.distance_bytes // granule)
            distance[pair] = min(distance.get(pair, granules), granules)
    sep = _separations(kept, size, distance)
    scale, shift, is_exact = _positive_coordinate(sep)
    return Instance(
        buffers=kept,
        granule=granule,
        size=size,
        size_bytes=size_bytes,
        align=np.array([b.align_bytes // granule for b in kept], dtype=np.int64),
        lo=np.array([(b.fixed_offset or 0) // granule for b in kept], dtype=np.int64),
        sep=sep,
        scale=scale,
        shift=shift,
        sections=_sections(kept, size, sep),
        is_exact=is_exact,
        neighbours=tuple(tuple(np.flatnonzero(row > NEVER).tolist()) for row in sep),
    )


def _separations(
    buffers: tuple[Buffer, ...], size: IntArray, distance: dict[tuple[int, int], int]
) -> IntArray:
    start = np.array([b.start for b in buffers], dtype=np.int64)
    stop = np.array([b.stop for b in buffers], dtype=np.int64)
    conflict = (start[:, None] < stop[None, :]) & (start[None, :] < stop[:, None])
    np.fill_diagonal(conflict, False)
    sep = np.where(conflict, size[:, None], NEVER)
    for (low, high), granules in distance.items():
        if conflict[low, high]:
            sep[low, high] = min(sep[low, high], granules)
    # Whole offsets: if the two half-lines cover every difference, the pair is free.
    is_free = conflict & (sep + sep.T <= 1)
    sep[is_free] = NEVER
    return sep


def _positive_coordinate(sep: IntArray) -> tuple[int, IntArray, bool]:
    """Return scale and shift with `sep[a, b] * scale + shift[b] - shift[a] >= 1`, and success.

    The shifts are longest paths from a common source (Bellman-Ford). If a cycle of separations
    sums to less than 1 there are none: then those below 1 in `sep` are raised to 1.
    """
    n = len(sep)
    shift = np.zeros(n, dtype=np.int64)
    if not ((sep > NEVER) & (sep < 1)).any():
        return 1, shift, True
    scale = n + 1  # a cycle has at most n pairs, each of which needs 1 in the new coordinate
    weight = np.where(sep > NEVER, 1 - sep * scale, -FAR)
    for _ in range(n + 1):
        raised = np.maximum(shift, (shift[:, None] + weight).max(axis=0))
        if (raised == shift).all():
            return scale, shift, True
        shift = raised
    sep[(sep > NEVER) & (sep < 1)] = 1
    return 1, np.zeros_like(shift), False


def _sections(buffers: tuple[Buffer, ...], size: IntArray, sep: IntArray) -> tuple[Section, ...]:
    # The live set only shrinks between two starts, so the maximal sets are found at starts.
    # Lifetimes are intervals: if any live set contains this one, the next one does.
    starts = sorted({b.start for b in buffers})
    live_sets = [{i for i, b in enumerate(buffers) if b.start <= t < b.stop} for t in starts]
    sections = []
    for at, (t, live) in enumerate(zip(starts, live_sets, strict=True)):
        if at + 1 == len(live_sets) or not live <= live_sets[at + 1]:
            members = tuple(sorted(live, key=lambda i: (buffers[i].start, i)))
            sections.append(Section(t, members, _weights(members, size, sep)))
    return tuple(sections)


def _weights(members: tuple[int, ...], size: IntArray, sep: IntArray) -> tuple[int, ...]:
    """Return the granules that each member surely adds beyond the members before it.

    A pair with `sep[low, high] < size[low]` shares at most size[low] - max(sep[low, high], 0)
    granules, and never more than the smaller of the two.
    """
    weights = []
    for at, b in enumerate(members):
        saved = 0
        for a in members[:at]:
            shared = size[b] if sep[a, b] == NEVER else 0  # such a pair shares all it can
            for low, high in ((a, b), (b, a)):
                if NEVER < sep[low, high] < size[low]:
                    shared = max(shared, size[low] - max(sep[low, high], 0))
            saved += int(min(shared, size[a], size[b]))
        weights.append(max(0, int(size[b]) - saved))
    return tuple(weights)
