"""Products of two stored int8 values, rescaled by the upper word of one multiplication.

Such products are 130,000 numbers at most. So a multiplier is searched for and proven on all of
them: (product * multiplier + 2**31) >> 32, the zero point added and the result limited, is then
what any definition of rounding says.
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
    """A multiplier below 2**31 that gives `stored` of every product; None if none is found.

    stored: from products, int64 of any shape, to stored values within `limits`. zero_points: of
    the operands. factor: about how much a stored value rises for one product.
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
