"""Rows that a segment keeps: exactly those that somebody still reads, by an own simulation."""

from __future__ import annotations

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


def branches(rng: np.random.Generator, height: int) -> list[FlowMember]:
    """Two windows over the input, and one over both: rows of the first wait for the second."""
    reach, last = int(rng.choice([3, 5])), int(rng.choice([1, 1, 3]))
    return [
        FlowMember(1, 1, 0, height, 10, (SOURCE,)),
        FlowMember(reach, 1, reach // 2, height, 10, (SOURCE,)),
        FlowMember(last, 1, last // 2, height, 10, (0, 1)),
    ]


def most_rows_needed(members: list[FlowMember], height: int) -> list[int]:
    """For the input and each member: rows from the lowest one that is still read to the newest one.

    Of the members that have their rows, one that reads the latest value makes its next row; if none
    has, a row of the input comes.
    """
    heights = [height, *(m.rows for m in members)]
    made = [0] * (len(members) + 1)
    times: list[list[int]] = [[] for _ in made]  # when each row was made
    reads: list[list[tuple[int, int]]] = [[] for _ in made]  # when, and the lowest row
    time = 0
    while made != heights:  # rows that nobody reads any more are made, too
        time += 1
        # Readers of the same value are served in their order, each with all that reads it.
        for number in sorted(range(len(members)), key=lambda n: (-members[n].reads[0], n)):
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
    need = [1] * len(made)
    for number, own in enumerate(times):
        for row, when in enumerate(own):
            later = [first for at, first in reads[number] if at > when]
            need[number] = max(need[number], row + 1 - min(later, default=row))
    return need


@pytest.mark.parametrize("seed", range(60))
def test_rows_are_kept_as_long_as_they_are_read_and_no_longer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    height = int(rng.integers(4, 20))
    members = branches(rng, height) if seed % 4 == 0 else chain(rng, height)
    flow = row_flow(tuple(members), height, 7)
    assert flow is not None
    need = most_rows_needed(members, height)
    assert [flow.source_rows, *flow.rows[:-1]] == need[:-1]
    assert flow.rows[-1] == 0  # the output is kept whole


def test_a_window_of_three_rows_keeps_three() -> None:
    members = FlowMember(1, 1, 0, 8, 10, (SOURCE,)), FlowMember(3, 1, 1, 8, 10, (0,))
    flow = row_flow(members, 8, 10)
    assert flow is not None and flow.rows == (3, 0) and flow.source_rows == 1
