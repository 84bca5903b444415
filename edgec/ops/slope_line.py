"""x * a for each sign of a stored int8 value, in one multiplication, addition and shift of int32.

There are 256 operands for each slope, so multipliers are searched for and checked on every one:
clamp((x * multiplier + start) >> shift) equals the exactly defined result. With scales that are
powers of two, results can be halves, and halves rounded to even do not lie on a line; then 1 is
added first where the number below the half is odd.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgec.numerics.fixed_point import INT32_MAX, IntArray

#: Shifts that are tried: above them a zero point leaves int32, below multipliers are too coarse.
SHIFTS = range(24, 10, -1)
#: Multipliers that are tried, around the nearest to the real factor.
_CANDIDATES = np.array(sorted(range(-8, 9), key=abs))
#: Factors from here on take every operand but 0 to a limit.
_MOST_FACTOR = 256.0
#: The largest magnitude of an operand from its zero point.
_MOST_OPERAND = 255


@dataclass(frozen=True)
class SlopeLine:
    """clamp((x * m + start) >> shift): m is `positive` where x >= 0, elsewhere one of `negative`.

    x counts from its zero point. to_even: start is one less than a half, and the number of halves
    to the next even one, (x * m >> shift) & 1, is added, too. All sums fit in int32.
    """

    positive: int
    negative: IntArray
    start: int
    shift: int
    to_even: bool


def find_slope_line(
    x: IntArray, results: IntArray, factors: tuple[float, npt.NDArray[np.float64]], zero_point: int
) -> SlopeLine | None:
    """The line through all int8 `results` [len(x), slopes]; None if none is found.

    x: operands minus their zero point. factors: real slopes, for positive x and, for each slope,
    for negative x. zero_point: of the results.
    """
    for shift, to_even in _forms(max(factors[0], np.abs(factors[1]).max(initial=0)), zero_point):
        start = (zero_point << shift) + (1 << shift - 1) - to_even
        found = [
            _multipliers(x[side], results[side], real, start, shift, to_even)
            for side, real in ((x >= 0, np.array([factors[0]])), (x < 0, factors[1]))
        ]
        positive, negative = found
        # Where x is positive there is one slope alone: all columns are the same.
        if positive is not None and negative is not None:
            return SlopeLine(int(positive[0]), negative, start, shift, to_even)
    return None


def _forms(factor: float, zero_point: int) -> Iterator[tuple[int, bool]]:
    """(shift, to_even) whose sums fit in int32, the finest first."""
    most = min(factor, _MOST_FACTOR)
    for to_even in (False, True):
        for shift in SHIFTS:
            multiplier = most * (1 << shift) + max(_CANDIDATES) + 1
            half = (abs(zero_point) << shift) + (1 << shift - 1) + 1
            if _MOST_OPERAND * multiplier + half <= INT32_MAX:
                yield shift, to_even


def _multipliers(
    x: IntArray,
    results: IntArray,
    factors: npt.NDArray[np.float64],
    start: int,
    shift: int,
    to_even: bool,
) -> IntArray | None:
    """A multiplier for each factor that maps all x to its column of the results."""
    nearest = np.rint(np.clip(factors, -_MOST_FACTOR, _MOST_FACTOR) * 2.0**shift).astype(np.int64)
    tried = nearest + _CANDIDATES[:, None]
    product = x[:, None, None] * tried
    total = product + start + (product >> shift & 1 if to_even else 0)
    same = np.clip(total >> shift, -128, 127) == results[:, None, : len(factors)]
    fits = same.all(axis=0)
    if not fits.any(axis=0).all():
        return None
    found: IntArray = np.take_along_axis(tried, fits.argmax(axis=0)[None], axis=0)[0]
    return found
