"""What streaming a segment would need, from the windows of its members alone.

`edgec.passes.stream_groups` makes the loops of a segment and proves everything from them. To choose
among hundreds of segments that is too slow; this runs the rows by number only: which row is made
when, how many rows of each value are alive, and how far what is written gets ahead of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Stands for the segment's input where members are numbered.
SOURCE = -1


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

    def span(self, row: int, height: int) -> tuple[int, int]:
        """Rows [first, stop) of the inputs that an output row reads."""
        first = row * self.stride - self.top
        return max(0, first), min(height, first + self.reach)


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


def row_flow(members: Sequence[FlowMember], height: int, input_row_bytes: int) -> Flow | None:
    """Run the segment by numbers; None if some rows never come."""
    order = _order(members, height)
    if order is None:
        return None
    return _Measure(members, height, input_row_bytes, order).flow()


def _order(members: Sequence[FlowMember], height: int) -> list[tuple[int, int]] | None:
    """(member, row) in the order in which they are made: each as soon as it can be."""
    heights = [height if m.reads[0] == SOURCE else members[m.reads[0]].rows for m in members]
    made = [0] * len(members)
    arrived = 0
    order: list[tuple[int, int]] = []
    readers: dict[int, list[int]] = {}
    for number, member in enumerate(members):
        for source in dict.fromkeys(member.reads):
            readers.setdefault(source, []).append(number)

    def advance(source: int) -> None:
        for number in readers.get(source, ()):
            member = members[number]
            while made[number] < member.rows:
                _, stop = member.span(made[number], heights[number])
                if any((arrived if s == SOURCE else made[s]) < stop for s in member.reads):
                    break
                order.append((number, made[number]))
                made[number] += 1
                advance(number)

    while arrived < height:
        order.append((SOURCE, arrived))
        arrived += 1
        advance(SOURCE)
    complete = all(done == member.rows for done, member in zip(made, members, strict=True))
    return order if complete else None


class _Measure:
    def __init__(
        self,
        members: Sequence[FlowMember],
        height: int,
        input_row_bytes: int,
        order: list[tuple[int, int]],
    ) -> None:
        self.members = members
        self.order = order
        self.height = height
        self.input_bytes = height * input_row_bytes
        # Per member: (time, first row, stop row, whether written) of its output.
        self.touched: list[list[tuple[int, int, int, bool]]] = [[] for _ in members]
        self.replaced: set[int] = set()
        for number in reversed(range(len(members))):
            place = members[number].replaces
            if place is not None:
                self.touched[place] = self.touched[number]
                self.replaced.add(place)
        heights = [height if m.reads[0] == SOURCE else members[m.reads[0]].rows for m in members]
        # The lowest byte of the input that is read at a time or later.
        self.pending = [self.input_bytes] * (len(order) + 1)
        self.first_time = [len(order)] * len(members)
        self.source: list[tuple[int, int, int, bool]] = []
        for time, (number, row) in enumerate(order):
            if number == SOURCE:
                self.source.append((time, row, row + 1, True))
                continue
            member = members[number]
            span = member.span(row, heights[number])
            self.first_time[number] = min(self.first_time[number], time)
            for source in dict.fromkeys(member.reads):
                if source == SOURCE:
                    self.pending[time] = min(self.pending[time], span[0] * input_row_bytes)
                    self.source.append((time, *span, False))
                else:
                    self.touched[source].append((time, *span, False))
            if not member.is_sum:
                self.touched[number].append((time, row, row + 1, True))
        for time in reversed(range(len(order))):
            self.pending[time] = min(self.pending[time], self.pending[time + 1])

    def flow(self) -> Flow:
        rows, distances = [], []
        for number, member in enumerate(self.members):
            last = number + 1 == len(self.members)
            if member.is_sum or number in self.replaced:
                rows.append(0)
                distances.append(-self.input_bytes)  # a sum is finished when all has been read
            elif last:
                rows.append(0)
                distances.append(self.distance(number, [0] * member.rows, 0))
            else:
                kept, base = _kept(self.touched[number], member.rows)
                rows.append(kept)
                distances.append(self.distance(number, base, kept))
        starts = tuple(-self.pending[time] for time in self.first_time)
        limited = tuple(max(d, -self.input_bytes) for d in distances)
        source_rows, _ = _kept(self.source, self.height)
        return Flow(source_rows, tuple(rows), limited, starts)

    def distance(self, number: int, base: list[int], kept: int) -> int:
        """How far the written bytes get ahead of those of the input still to be read."""
        size = self.members[number].row_bytes
        ahead = -self.input_bytes
        for time, first, _, is_write in self.touched[number]:
            if not is_write:
                continue
            if kept and not base:
                end = (first % kept + 1) * size
            elif kept and base[first]:
                end = kept * size  # rows have moved through all of it
            else:
                end = (first + 1) * size
            ahead = max(ahead, end - self.pending[time])
        return ahead


def _kept(touches: list[tuple[int, int, int, bool]], count: int) -> tuple[int, list[int]]:
    """How many of `count` rows are kept, and the first one kept when each row is made."""
    touched = sorted(touches, key=lambda t: (t[0], t[3]))
    base = [count] * count
    steps, step = [], -1
    for _, first, _, is_write in touched:
        step = first if is_write else step
        steps.append(step)
        base[step] = min(base[step], first)
    for row in reversed(range(len(base) - 1)):
        base[row] = min(base[row], base[row + 1])
    if all(stop - first == 1 for _, first, stop, _ in touched):
        alive = max(step + 1 - first for step, (_, first, _, _) in zip(steps, touched, strict=True))
        return alive, []  # a ring: no rows move
    alive = max(stop - base[s] for s, (_, _, stop, _) in zip(steps, touched, strict=True))
    return alive, base
