"""Choose one precision for every layer: the least loss within limits, exactly.

Every layer has options, each with a cost and a loss; costs and losses add up. The search adds one
layer after the other. It keeps the Pareto-optimal sums: no other sum is at least as good in bytes,
instructions and loss together (the dominance of multiple-choice knapsack problems: H. Kellerer, U.
Pferschy, D. Pisinger, "Knapsack Problems", 2004, chapter 11).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

#: Losses and instructions are rounded to multiples of this part of the largest sum.
FINEST = 1e-6
#: Maximum number of sums to keep.
MOST_SUMS = 10_000


@dataclass(frozen=True)
class Option:
    """One precision of one layer. loss: of all outputs, in any unit; never negative."""

    bits: int
    size_bytes: int
    instructions: int
    loss: float


@dataclass(frozen=True)
class Point:
    """An assignment: which option of each layer, and the sums."""

    chosen: tuple[int, ...]
    size_bytes: int
    instructions: int
    loss: float


#: Bytes, rounded instructions and loss, and the option of each layer so far.
_Sum = tuple[int, int, int, tuple[int, ...]]


def all_best(layers: Sequence[Sequence[Option]]) -> list[Point]:
    """Every assignment that no other is as good as in all three, the fewest bytes first.

    Losses and instructions are distinguished to a millionth of all; where that makes too many sums,
    ten times as coarsely, until it does not.
    """
    part = FINEST
    while True:
        sums = _sums(layers, part)
        if sums is not None:
            return [point_of(layers, chosen) for *_, chosen in sums]
        part *= 10


def _sums(layers: Sequence[Sequence[Option]], part: float) -> list[_Sum] | None:
    loss_step = part * sum(max(o.loss for o in options) for options in layers) or 1.0
    time_step = part * sum(max(o.instructions for o in options) for options in layers) or 1.0
    sums: list[_Sum] = [(0, 0, 0, ())]
    for options in layers:
        steps = [
            (o.size_bytes, round(o.instructions / time_step), round(o.loss / loss_step), index)
            for index, o in enumerate(options)
        ]
        sums = _undominated(
            [
                (size + more, time + longer, loss + worse, (*chosen, index))
                for size, time, loss, chosen in sums
                for more, longer, worse, index in steps
            ]
        )
        if len(sums) > MOST_SUMS:
            return None
    return sums


def least_loss(
    points: Sequence[Point], most_bytes: float, most_instructions: float
) -> Point | None:
    within = [
        point
        for point in points
        if point.size_bytes <= most_bytes and point.instructions <= most_instructions
    ]
    return min(within, key=lambda p: (p.loss, p.size_bytes), default=None)


def front_of(points: Sequence[Point]) -> list[Point]:
    """The points that no other point matches in both bytes and loss; instructions do not count."""
    found: list[Point] = []
    for point in sorted(points, key=lambda p: (p.size_bytes, p.loss)):
        if not found or point.loss < found[-1].loss:
            found.append(point)
    return found


def point_of(layers: Sequence[Sequence[Option]], chosen: Sequence[int]) -> Point:
    """The assignment of these options, by their indices in the layers' menus."""
    taken = [options[index] for options, index in zip(layers, chosen, strict=True)]
    return Point(
        tuple(chosen),
        sum(option.size_bytes for option in taken),
        sum(option.instructions for option in taken),
        sum(option.loss for option in taken),
    )


def _undominated(sums: list[_Sum]) -> list[_Sum]:
    """The Pareto-optimal sums (bytes, instructions, loss), by ascending bytes."""
    kept: list[_Sum] = []
    # Of the kept sums: ascending instructions, and the smallest loss up to each.
    times: list[int] = []
    losses: list[int] = []
    for each in sorted(sums):
        _, time, loss, _ = each
        index = bisect_right(times, time)
        if index and losses[index - 1] <= loss:
            continue
        kept.append(each)
        first = last = bisect_left(times, time)
        while last < len(losses) and losses[last] >= loss:
            last += 1
        times[first:last] = [time]
        losses[first:last] = [loss]
    return kept
