"""Primitives that choose: the decision is recorded, so that a trace repeats or changes it."""

from __future__ import annotations

import random
from collections.abc import Sequence

from edgec.errors import ScheduleError
from edgec.loop.ir import PrimFunc
from edgec.loop.primitives.lookup import find_loop


def perfect_tiles(extent: int, parts: int, max_innermost: int) -> list[tuple[int, ...]]:
    """All ways to write the extent as a product of `parts` factors, the last one limited."""
    if parts == 1:
        return [(extent,)] if extent <= max_innermost else []
    found: list[tuple[int, ...]] = []
    for first in range(1, extent + 1):
        if extent % first == 0:
            found += [(first, *r) for r in perfect_tiles(extent // first, parts - 1, max_innermost)]
    return found


def sample_perfect_tile(
    func: PrimFunc,
    loop: str,
    parts: int,
    max_innermost: int,
    decision: Sequence[int] | None,
    rng: random.Random,
) -> list[int]:
    """Choose factors, outermost first, whose product is the loop's extent.

        for i in 0..12    ->    (3, 2, 2)        for parts = 3, say

    A `decision` is checked and taken; without one, `rng` chooses evenly among all.
    """
    target, _ = find_loop(func, loop)
    extent = target.extent
    if extent is None:
        raise ScheduleError(f"sample_perfect_tile: the extent of loop {loop} is not constant")
    choices = perfect_tiles(extent, parts, max_innermost)
    if decision is None:
        if not choices:
            raise ScheduleError(
                f"sample_perfect_tile: {extent} is not a product of {parts} factors "
                f"whose last is at most {max_innermost}"
            )
        return list(rng.choice(choices))
    if tuple(decision) not in choices:
        raise ScheduleError(
            f"sample_perfect_tile: {list(decision)} does not tile loop {loop} of extent {extent}"
        )
    return list(decision)


def sample_categorical(
    candidates: Sequence[int],
    probabilities: Sequence[float],
    decision: Sequence[int] | None,
    rng: random.Random,
) -> list[int]:
    """Choose one of the candidates. `decision` is its position, as a list of one.

    (1, 2, 4) with (0.2, 0.3, 0.5)    ->    4, most often
    """
    if len(candidates) != len(probabilities) or not candidates:
        raise ScheduleError("sample_categorical: candidates and probabilities differ in number")
    if decision is None:
        positions = list(range(len(candidates)))
        return [rng.choices(positions, weights=list(probabilities))[0]]
    if len(decision) != 1 or not 0 <= decision[0] < len(candidates):
        raise ScheduleError(f"sample_categorical: there is no candidate {list(decision)}")
    return list(decision)
