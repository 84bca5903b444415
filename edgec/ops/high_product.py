"""Products of two stored int8 values, rescaled by the upper word of one multiplication.

There are at most 130,000 such products, so a multiplier is searched for and checked on every one:
clamp(((product * multiplier + 2**31) >> 32) + zero_point) equals the exactly defined result.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgec.loop.intrinsics import HALF
from edgec.numerics.fixed_point import INT32_MAX, IntArray

#: Multipliers that are tried, around the nearest to the real factor: those above it first, which
#: round ties away from zero.
_CANDIDATES = sorted(range(-32, 33), key=lambda step: (abs(step), -step))


def find_high_multiplier(
    stored: Callable[[IntArray], IntArray],
    zero_points: tuple[int, int],
    factor: float,
    zero_point: int,
    limits: tuple[int, int],
) -> int | None:
    """A multiplier below 2**31 that rescales every product to `stored`; None if none is found.

    stored: from products, int64 of any shape, to stored values within `limits`. zero_points: of the
    operands. factor: the real factor from products to stored values.
    """
    ends = [(-128 - start, 127 - start) for start in zero_points]
    corners = [first * second for first in ends[0] for second in ends[1]]
    products = np.arange(min(corners), max(corners) + 1, dtype=np.int64)
    wanted = stored(products)
    nearest = round(factor * 2**32)
    for step in _CANDIDATES:
        multiplier = nearest + step
        if not 0 <= multiplier <= INT32_MAX:
            continue
        rescaled = (products * multiplier + (HALF << 16) >> 32) + zero_point
        if np.array_equal(np.clip(rescaled, *limits), wanted):
            return multiplier
    return None
