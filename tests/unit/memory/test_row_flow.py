"""Rows that a segment keeps: exactly those that somebody still reads, by an own simulation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgec.memory.row_flow import SOURCE, FlowMember, row_flow


def chain(rng: np.random.Generator, height: int) -> list[FlowMember]:
    """Windows one after the other, with paddings and strides that give at least one row."""
    members: list[FlowMember] = []
    for number in range(int(rng.integers(1, 5))):
        reach, stride = int(rng.choice([1, 2, 3, 5])), int(rng.choice([1, 1, 2, 3]))
        top, bottom = (int(rng.integers(0, reach)) for _ in range(2))
        rows = (height + top + bottom - reach) // stride + 1
        if rows < 1:
            break
        members.append(FlowMember(reach, stride, top, rows, 10, (number - 1,)))
        height = rows
    return members or [FlowMember(1, 1, 0, height, 10, (SOURCE,))]


def web(rng: np.random.Generator, height: int) -> list[FlowMember]:
    """Windows of which each reads the value before, and others of the same height."""
    members: list[FlowMember] = []
    heights = [height]
    for number, member in enumerate(chain(rng, height)):
        more = [n - 1 for n in range(number)
                if heights[n] == heights[number] and rng.random() < 0.5]  # fmt: skip
        members.append(replace(member, reads=(number - 1, *more)))
        heights.append(member.rows)
    return members


#: A block whose input is added to its output; readers that fall behind at other times than at the
#: start, found among random ones.
UNEVEN = [
    (8, [(3, 1, 1, 8, 10, (-1,)), (3, 1, 1, 8, 10, (0,)), (3, 1, 1, 8, 10, (1,)),
         (3, 1, 1, 8, 10, (2,)), (1, 1, 0, 8, 10, (3, -1))]),
    (12, [(2, 2, 0, 6, 29, (-1,)), (3, 2, 2, 7, 16, (-1,)), (5, 2, 4, 6, 22, (1,)),
          (1, 1, 0, 6, 27, (2, 0))]),
    (9, [(1, 2, 0, 5, 21, (-1,)), (1, 2, 0, 3, 2, (0,)), (3, 1, 2, 5, 12, (1,)),
         (1, 2, 0, 3, 17, (0, 2))]),
    (10, [(2, 1, 1, 11, 15, (-1,)), (5, 2, 4, 7, 29, (0,)), (1, 3, 0, 3, 2, (1,)),
          (5, 1, 4, 7, 15, (2,)), (1, 1, 0, 7, 12, (3, 1))]),
    (9, [(5, 1, 1, 9, 4, (-1,)), (1, 1, 0, 9, 1, (-1,)), (3, 2, 0, 4, 8, (1, -1, 0)),
         (3, 1, 2, 5, 4, (2,))]),
]  # fmt: skip


def branches(rng: np.random.Generator, height: int) -> list[FlowMember]:
    """Two windows over the input, and one over both: rows of the first wait for the second."""
    reach, last = int(rng.choice([3, 5])), int(rng.choice([1, 1, 3]))
    return [
        FlowMember(1, 1, 0, height, 10, (SOURCE,)),
        FlowMember(reach, 1, reach // 2, height, 10, (SOURCE,)),
        FlowMember(last, 1, last // 2, height, 10, (0, 1)),
    ]


#: Of the input and of each member: when each row was made; when rows are read, and from which on.
Times = list[list[int]]
Reads = list[list[tuple[int, int]]]
ROW_BYTES = 7  # of the input


def run_by_rows(members: list[FlowMember], height: int) -> tuple[Times, Reads]:
    """One row after the other.

    Of the members that have their rows, one that reads the latest value makes its next row; if none
    has, a row of the input comes.
    """
    heights = [height, *(m.rows for m in members)]
    made = [0] * (len(members) + 1)
    times: Times = [[] for _ in made]
    reads: Reads = [[] for _ in made]
    time = 0
    while made != heights:  # rows that nobody reads any more are made, too
        time += 1
        # Readers of the same value are served in their order, each with all that reads it.
        for number in sorted(range(len(members)), key=lambda n: (-max(members[n].reads), n)):
            member, row = members[number], made[number + 1]
            stop = min(row * member.stride - member.top + member.reach,
                       heights[member.reads[0] + 1])  # fmt: skip
            if row < member.rows and all(stop <= made[read + 1] for read in member.reads):
                for read in member.reads:
                    first = max(row * member.stride - member.top, 0)
                    reads[read + 1].append((time, first))
                break
        else:
            number = SOURCE
        made[number + 1] += 1
        times[number + 1].append(time)
    return times, reads


def most_rows_needed(times: Times, reads: Reads) -> list[int]:
    """For the input and each member: rows from the lowest one that is still read to the newest."""
    return [
        max(row + 1 - min(_later(read, when), default=row) for row, when in enumerate(own))
        for own, read in zip(times, reads, strict=True)
    ]


def _later(reads: list[tuple[int, int]], when: int) -> list[int]:
    return [first for at, first in reads if at > when]


def distances_needed(
    members: list[FlowMember], times: Times, reads: Reads, kept: list[int], height: int
) -> list[int]:
    """How far each member's written bytes get ahead of the input's bytes that are still read."""

    def end(number: int, row: int, when: int) -> int:
        """The end of the bytes that are written, in rows."""
        readers = [m for m in members if number in m.reads]
        if not readers:
            return row + 1  # the output is kept whole
        if all(m.reach == 1 for m in readers):
            return row % kept[number + 1] + 1  # a ring
        has_moved = min(_later(reads[number + 1], when), default=row) > 0
        return kept[number + 1] if has_moved else row + 1

    return [
        max(-height * ROW_BYTES, max(
            end(number, row, when) * member.row_bytes - pending(reads, when, height)
            for row, when in enumerate(times[number + 1])
        ))
        for number, member in enumerate(members)
    ]  # fmt: skip


def pending(reads: Reads, when: int, height: int) -> int:
    """The lowest byte of the input that is read then or later."""
    return ROW_BYTES * min((row for at, row in reads[0] if at >= when), default=height)


def check(members: list[FlowMember], height: int) -> None:
    """What the run by numbers says is what the run by rows needs."""
    flow = row_flow(tuple(members), height, ROW_BYTES)
    assert flow is not None
    times, reads = run_by_rows(members, height)
    kept = most_rows_needed(times, reads)
    assert [flow.source_rows, *flow.rows[:-1]] == kept[:-1]
    assert flow.rows[-1] == 0  # the output is kept whole
    assert [*flow.distances] == distances_needed(members, times, reads, kept, height)
    assert [*flow.scratch_distances] == [-pending(reads, own[0], height) for own in times[1:]]


@pytest.mark.parametrize("seed", range(80))
def test_rows_are_kept_as_long_as_they_are_read_and_no_longer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    height = int(rng.integers(4, 20))
    check((branches, chain, web, chain)[seed % 4](rng, height), height)


@pytest.mark.parametrize(("height", "members"), UNEVEN)
def test_rows_of_uneven_readers(height: int, members: list[tuple[Any, ...]]) -> None:
    check([FlowMember(*each) for each in members], height)


@pytest.mark.parametrize("reach", [1, 3])
def test_rows_that_replace_others_take_no_place_of_their_own(reach: int) -> None:
    first, last = (
        FlowMember(3, 2, 1, 8, 10, (SOURCE,)),
        FlowMember(reach, 1, reach // 2, 8, 4, (0,)),
    )
    plain = row_flow((first, last), 16, ROW_BYTES)
    same = FlowMember(1, 1, 0, 8, 10, (0,), replaces=0)
    found = row_flow((first, same, replace(last, reads=(1,))), 16, ROW_BYTES)
    assert plain is not None and found is not None
    assert found.rows == (0, *plain.rows) and found.source_rows == plain.source_rows
    # The rows that are replaced lie where the others do, which says where that may be.
    assert found.distances == (-16 * ROW_BYTES, *plain.distances)


def test_a_sum_is_written_when_all_was_read() -> None:
    members = (
        FlowMember(1, 1, 0, 8, 10, (SOURCE,)),
        FlowMember(1, 1, 0, 8, 10, (0,), is_sum=True),
    )
    flow = row_flow(members, 8, ROW_BYTES)
    assert flow is not None and flow.distances[-1] == -8 * ROW_BYTES


def test_rows_that_never_come_have_no_flow() -> None:
    short = FlowMember(3, 1, 0, 6, 10, (SOURCE,))
    both = FlowMember(1, 1, 0, 8, 10, (0, 1))
    assert row_flow((FlowMember(1, 1, 0, 8, 10, (SOURCE,)), short, both), 8, ROW_BYTES) is None


def test_a_window_of_three_rows_keeps_three() -> None:
    members = FlowMember(1, 1, 0, 8, 10, (SOURCE,)), FlowMember(3, 1, 1, 8, 10, (0,))
    flow = row_flow(members, 8, 10)
    assert flow is not None and flow.rows == (3, 0) and flow.source_rows == 1
