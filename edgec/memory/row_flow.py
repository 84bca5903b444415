"""The memory that streaming a segment needs, computed from the windows of its members alone.

`edgec.passes.stream_groups` makes the loops of a segment and proves everything from them. That is
too slow for a choice among hundreds of segments, so this module simulates only row numbers: when
each row is made, how many rows of each value are alive, and how far the writes get ahead of the
input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

#: Stands for the segment's input where members are numbered.
SOURCE = -1
#: Segments whose flows are remembered: layers repeat, so segments do.
MOST_KEPT = 1 << 14


@dataclass(frozen=True)
class FlowMember:
    """One member: its window, the rows it makes, and which members (or SOURCE) it reads.

    row_bytes: size of an output row. is_sum: it makes no rows. replaces: the member whose rows it
    replaces in place.
    """

    reach: int
    stride: int
    top: int
    rows: int
    row_bytes: int
    reads: tuple[int, ...]
    is_sum: bool = False
    replaces: int | None = None


@dataclass(frozen=True)
class Flow:
    """The memory that a segment needs.

    rows: kept of each member's output (0 for the last member, whose output is complete, and for
    members whose rows are replaced). distances: by member, the bytes by which the rows, the output,
    or a scratch of 0 bytes must start below the input to share memory with it. source_rows: kept of
    the input if it is fed by rows.
    """

    source_rows: int
    rows: tuple[int, ...]
    distances: tuple[int, ...]
    scratch_distances: tuple[int, ...]


@lru_cache(maxsize=MOST_KEPT)
def row_flow(members: tuple[FlowMember, ...], height: int, input_row_bytes: int) -> Flow | None:
    """Run the segment by numbers; None if some rows never come."""
    run = _run(members, height, input_row_bytes)
    return None if run is None else run.flow()


@lru_cache(maxsize=MOST_KEPT)
def _run(members: tuple[FlowMember, ...], height: int, input_row_bytes: int) -> _Run | None:
    """Simulate a segment, starting from the run of the segment without its last member."""
    if not members:
        events = np.arange(height)
        return _Run((), input_row_bytes, (0, height), events, events, (), (), {})
    before = _run(members[:-1], height, input_row_bytes)
    return None if before is None else before.with_member(members[-1])


@dataclass(frozen=True)
class _Run:
    """A segment run by numbers: every row of its input and of its members is an event.

    starts: where the rows of the input, of each member, and of the next one begin among the events.
    times: when each event happens. ends: when the last event happens that it leads to at once.
    spans: by member, rows [first, stop) of its inputs that each row reads. slots: the
    member in whose slot the rows of each member lie in the end. kept: by slot, how many rows are
    kept, and how far they must start below the input; the last member's is not there yet.
    """

    members: tuple[FlowMember, ...]
    input_row_bytes: int
    starts: tuple[int, ...]
    times: IntArray
    ends: IntArray
    spans: tuple[tuple[IntArray, IntArray], ...]
    slots: tuple[int, ...]
    kept: Mapping[int, tuple[int, int]]

    @property
    def input_bytes(self) -> int:
        return self.starts[1] * self.input_row_bytes

    def rows(self, number: int) -> slice:
        """The events of a member's rows, or of the input's."""
        return slice(self.starts[number + 1], self.starts[number + 2])

    def with_member(self, member: FlowMember) -> _Run | None:
        """The run with one member more; None if some of its rows never come.

        Earlier events keep their order; only the rows that the member reads are kept differently.
        """
        sources = [self.rows(source) for source in dict.fromkeys(member.reads)]
        first, stop = _span(member, sources[0].stop - sources[0].start)
        if any(stop.max() > rows.stop - rows.start for rows in sources):
            return None
        after, since = self.tried(sources, stop)
        made = after + 1 + np.arange(member.rows)
        # The member's rows move later events, and belong to all that leads to them.
        left, right = np.searchsorted(after, self.ends), np.searchsorted(after, self.ends, "right")
        leads = since[np.minimum(left, member.rows - 1)] >= self.times
        number = len(self.members)
        moved = None if member.replaces is None else self.slots[member.replaces]
        run = replace(
            self,
            members=(*self.members, member),
            starts=(*self.starts, self.starts[-1] + member.rows),
            times=np.append(self.times + np.searchsorted(after, self.times), made),
            ends=np.append(self.ends + np.where(leads, right, left), made),
            spans=(*self.spans, (first, stop)),
            slots=(*(number if p == moved else p for p in self.slots), number),
        )
        changed = {run.slots[n] if n != SOURCE else SOURCE for n in member.reads}
        changed |= {*run.slots[-2:-1]} if SOURCE not in changed else {*run.slots}
        return replace(run, kept={**self.kept, **{n: run.keep(n) for n in changed - {number}}})

    def tried(self, sources: Sequence[slice], stop: IntArray) -> tuple[IntArray, IntArray]:
        """The event after which each row of a new member is made, and when its cause began.

        stop: the end of the source rows that each row reads. After each source row and all its
        consequences, every row is made that can be.
        """
        needed = np.maximum(stop, 0) - 1
        ready = np.max([np.append(self.times[rows], -1)[needed] for rows in sources], axis=0)
        tries = np.concatenate([np.arange(rows.start, rows.stop) for rows in sources])
        tries = tries[np.lexsort((-self.times[tries], self.ends[tries]))]
        tries = tries[np.searchsorted(self.ends[tries], np.maximum.accumulate(ready))]
        return self.ends[tries], self.times[tries]

    def flow(self) -> Flow:
        last, nothing = len(self.members) - 1, (0, -self.input_bytes)
        kept = [self.kept[n] if self.slots[n] == n else nothing for n in range(last)]
        distances = [max(distance, -self.input_bytes) for _, distance in kept]
        ahead = -self.input_bytes  # a sum is finished when all has been read
        if not self.members[last].is_sum:
            ahead = max(ahead, self.ahead(last, np.zeros(self.members[last].rows, np.int64), 0))
        begun = -self.pending(self.times[list(self.starts[1:-1])])
        return Flow(
            self.kept[SOURCE][0], (*(count for count, _ in kept), 0), (*distances, ahead),
            tuple(begun.tolist()),
        )  # fmt: skip

    def keep(self, place: int) -> tuple[int, int]:
        """The rows kept in a buffer, and how far they must start below the input."""
        inside = [n for n, each in enumerate(self.slots) if each == place] or [SOURCE]
        writes = [self.times[self.rows(n)] for n in inside]
        reads = [
            (self.times[self.rows(n)], *self.spans[n])
            for n, member in enumerate(self.members)
            for source in dict.fromkeys(member.reads)
            if source in inside
        ]
        count, base = _kept(writes, reads, len(writes[-1]))
        return count, self.ahead(place, base, count)

    def ahead(self, place: int, base: IntArray | None, kept: int) -> int:
        """Most bytes by which writes get ahead of the input bytes still to be read.

        base: the first row kept when each row is made, None where rows lie in a ring.
        """
        found = -self.input_bytes
        for number in (n for n, each in enumerate(self.slots) if each == place):
            row = np.arange(self.members[number].rows)
            # Once rows move, they do so through all of it.
            ends = row % kept if base is None else np.where(base[row] > 0, kept - 1, row)
            written = (ends + 1) * self.members[place].row_bytes
            found = max(found, int((written - self.pending(self.times[self.rows(number)])).max()))
        return found

    def pending(self, times: IntArray) -> IntArray:
        """The lowest byte of the input that is read at each of these times or later."""
        readers = [n for n, member in enumerate(self.members) if SOURCE in member.reads]
        when = np.concatenate([self.times[self.rows(n)] for n in readers])
        order = np.argsort(when)
        first = np.concatenate([self.spans[n][0] for n in readers])[order] * self.input_row_bytes
        lowest = np.minimum.accumulate(np.append(first, self.input_bytes)[::-1])[::-1]
        return lowest[np.searchsorted(when[order], times)]


def _span(member: FlowMember, height: int) -> tuple[IntArray, IntArray]:
    """Rows [first, stop) of the inputs that each output row reads."""
    first = np.arange(member.rows) * member.stride - member.top
    return np.maximum(first, 0), np.minimum(first + member.reach, height)


def _kept(
    writes: Sequence[IntArray], reads: Sequence[tuple[IntArray, IntArray, IntArray]], count: int
) -> tuple[int, IntArray | None]:
    """Number of the `count` rows to keep, and the first one kept when each row is made.

    writes: when every row is written, once or, where it is replaced, again. reads: when each reader
    reads rows [first, stop). None for the first row of a ring, in which no rows move: every access
    is of one row.
    """
    times = np.concatenate(writes)
    order = np.argsort(times)
    times, written = times[order], np.concatenate([np.arange(len(t)) for t in writes])[order]
    base = np.arange(count)
    # A read precedes the write at its time and follows the write before that.
    steps = [
        (written[np.searchsorted(times, when) - 1], first, stop) for when, first, stop in reads
    ]
    for step, first, _ in steps:
        np.minimum.at(base, step, first)
    base = np.minimum.accumulate(base[::-1])[::-1]
    if all((stop - first == 1).all() for _, first, stop in reads):
        return max([1, *(int((step + 1 - first).max()) for step, first, _ in steps)]), None
    alive = int((written + 1 - base[written]).max())
    return max([alive, *(int((stop - base[step]).max()) for step, _, stop in steps)]), base
