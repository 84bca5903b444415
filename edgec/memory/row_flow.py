"""What streaming a segment would need, from the windows of its members alone.

`edgec.passes.stream_groups` makes the loops of a segment and proves everything from them. To choose
among hundreds of segments that is too slow; this runs the rows by number only: which row is made
when, how many rows of each value are alive, and how far what is written gets ahead of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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

    `row_bytes` is what a row of its output takes. A sum makes no rows: `is_sum`. `replaces` is the
    member whose rows it replaces where they are.
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
    """What a segment needs.

    rows: kept of each member's output (0: of the last one, which is kept whole, and of those whose
    rows are replaced). distances: bytes
    by which the rows, the output, or a member's scratch of no bytes must start below the input to
    share memory with it, by member. source_rows: what is kept of the input if it is fed by rows.
    """

    source_rows: int
    rows: tuple[int, ...]
    distances: tuple[int, ...]
    scratch_distances: tuple[int, ...]


@lru_cache(maxsize=MOST_KEPT)
def row_flow(members: tuple[FlowMember, ...], height: int, input_row_bytes: int) -> Flow | None:
    """Run the segment by numbers; None if some rows never come."""
    heights = [height if m.reads[0] == SOURCE else members[m.reads[0]].rows for m in members]
    spans = [_spans(member, heights[number]) for number, member in enumerate(members)]
    made = _order(members, [stop.tolist() for _, stop in spans], height)
    return None if made is None else _Measure(members, height, input_row_bytes, spans, made).flow()


def _spans(member: FlowMember, height: int) -> tuple[IntArray, IntArray]:
    """Rows [first, stop) of the inputs that each output row reads."""
    first = np.arange(member.rows) * member.stride - member.top
    return np.maximum(first, 0), np.minimum(first + member.reach, height)


def _order(
    members: Sequence[FlowMember], stops: Sequence[Sequence[int]], height: int
) -> list[IntArray] | None:
    """When each row of each member is made, as soon as it can be; the input's rows come last.

    stops: by member and row, the end of the rows of the inputs that it reads.
    """
    at: list[list[int]] = [[] for _ in (*members, SOURCE)]
    readers: dict[int, list[int]] = {}
    for number, member in enumerate(members):
        for source in dict.fromkeys(member.reads):
            readers.setdefault(source, []).append(number)
    time = 0

    def advance(source: int) -> None:
        nonlocal time
        for number in readers.get(source, ()):
            member, own = members[number], at[number]
            while len(own) < member.rows:
                stop = stops[number][len(own)]
                for read in member.reads:
                    if len(at[read]) < stop:
                        break
                else:
                    own.append(time)
                    time += 1
                    if number in readers:
                        advance(number)
                    continue
                break

    for _ in range(height):
        at[SOURCE].append(time)
        time += 1
        advance(SOURCE)
    complete = all(len(own) == member.rows for own, member in zip(at, members, strict=False))
    return [np.array(own, dtype=np.int64) for own in at] if complete else None


@dataclass(frozen=True)
class _Touches:
    """Accesses of rows that one member makes, or that replace them: when, and rows [first, stop).

    reads: arrays of each reader. writes: (times, whose every row is written).
    """

    reads: list[tuple[IntArray, IntArray, IntArray]]
    writes: list[IntArray]


class _Measure:
    def __init__(
        self,
        members: Sequence[FlowMember],
        height: int,
        input_row_bytes: int,
        spans: Sequence[tuple[IntArray, IntArray]],
        made: Sequence[IntArray],
    ) -> None:
        self.members = members
        self.made = made
        self.height = height
        self.input_bytes = height * input_row_bytes
        touched = [_Touches([], []) for _ in (*members, SOURCE)]
        self.replaced: set[int] = set()
        for number in reversed(range(len(members))):
            place = members[number].replaces
            if place is not None:
                touched[place] = touched[number]
                self.replaced.add(place)
        # The lowest byte of the input that is read at a time or later.
        events = sum(len(times) for times in made)
        self.pending = np.full(events + 1, self.input_bytes, dtype=np.int64)
        for number, member in enumerate(members):
            first, stop = spans[number]
            for source in dict.fromkeys(member.reads):
                touched[source].reads.append((made[number], first, stop))
                if source == SOURCE:
                    self.pending[made[number]] = first * input_row_bytes
            if not member.is_sum:
                touched[number].writes.append(made[number])
        touched[SOURCE].writes.append(made[SOURCE])
        self.touched = touched
        self.pending = np.minimum.accumulate(self.pending[::-1])[::-1]

    def flow(self) -> Flow:
        rows, distances = [], []
        for number, member in enumerate(self.members):
            last = number + 1 == len(self.members)
            if member.is_sum or number in self.replaced:
                rows.append(0)
                distances.append(-self.input_bytes)  # a sum is finished when all has been read
            elif last:
                rows.append(0)
                distances.append(self.distance(number, np.zeros(member.rows, np.int64), 0))
            else:
                kept, base = _kept(self.touched[number], member.rows)
                rows.append(kept)
                distances.append(self.distance(number, base, kept))
        starts = tuple(int(-self.pending[times[0]]) for times in self.made[:-1])
        limited = tuple(max(d, -self.input_bytes) for d in distances)
        source_rows, _ = _kept(self.touched[SOURCE], self.height)
        return Flow(source_rows, tuple(rows), limited, starts)

    def distance(self, number: int, base: IntArray | None, kept: int) -> int:
        """How far the written bytes get ahead of those of the input still to be read.

        base: the first row kept when each row is made, None where rows lie in a ring.
        """
        ahead = -self.input_bytes
        for times in self.touched[number].writes:
            row = np.arange(len(times))
            end = row + 1
            if kept and base is None:
                end = row % kept + 1
            elif kept and base is not None:
                end = np.where(base[row] > 0, kept, end)  # rows have moved through all of it
            ahead = max(
                ahead, int((end * self.members[number].row_bytes - self.pending[times]).max())
            )
        return ahead


def _kept(touches: _Touches, count: int) -> tuple[int, IntArray | None]:
    """How many of `count` rows are kept, and the first one kept when each row is made.

    None for that of a ring, in which no rows move: every access is of one row.
    """
    times = np.concatenate(touches.writes)
    order = np.argsort(times)
    times, written = (
        times[order],
        np.concatenate([np.arange(len(t)) for t in touches.writes])[order],
    )
    base = np.full(count, count, dtype=np.int64)
    np.minimum.at(base, written, written)
    # A read comes before what is written at its time, and after what was written before that.
    steps = [written[np.searchsorted(times, when) - 1] for when, _, _ in touches.reads]
    for step, (_, first, _) in zip(steps, touches.reads, strict=True):
        np.minimum.at(base, step, first)
    base = np.minimum.accumulate(base[::-1])[::-1]
    if all((stop - first == 1).all() for _, first, stop in touches.reads):
        reads = zip(steps, touches.reads, strict=True)
        return max([1, *(int((step + 1 - first).max()) for step, (_, first, _) in reads)]), None
    alive = int((written + 1 - base[written]).max())
    for step, (_, _, stop) in zip(steps, touches.reads, strict=True):
        alive = max(alive, int((stop - base[step]).max()))
    return alive, base
