"""gemmlowp's double rounding of sums as a line of floats: fewer instructions than 64-bit products.

The result of a channel is a function of its sum that never falls, so the least sum of each result
says all. Where a line, rounded down, reaches each result at the same sum, it is that function:

    result(sum) = floor(high * sum + (low * sum + above))        below instead where sum < 0

high + low is exactly multiplier * 2**(shift - 31). Rounding `high * sum + ...` down to a float
changes no floor, since integers are floats; the inner sum is below 2, so its rounding and
the rounding of `above` change less than ERROR. `above` and `below` lie in the middle of the
allowed range, so the lines hold in any order of operations.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgec.loop.values import Array

#: The fields of a channel that replace its multiplier and shift.
LINES = {"high": "float32", "low": "float32", "above": "float32", "below": "float32"}
#: An upper bound of the rounding error in both directions.
ERROR = 2.0**-22
#: Sums up to here are exact floats; rounding a larger sum changes a line by less than MORE_ERROR.
MOST_SUM = 1 << 24
MORE_ERROR = 2.0**-15
#: The largest shift of `above` and `below`.
MOST_MOVE = 0.25
_INT32 = 1 << 31


def find_lines(
    tables: Mapping[str, Array], reach: tuple[Array, Array], limits: tuple[int, int]
) -> Mapping[str, Array] | None:
    """The lines of channels; None where a channel has none.

    tables: multipliers from 2**30 on, or 0, and shifts of 0 or less. reach: the least and the
    largest sum of each channel. limits: the least and the largest result, without a zero point.
    """
    multiplier = tables["multiplier"].astype(np.int64)[:, None]
    down = -tables["shift"].astype(np.int64)[:, None]
    is_nothing = (multiplier == 0) & (down == 0)
    if np.any((multiplier < _INT32 >> 1) & ~is_nothing) or np.any(down < 0):
        return None
    low, high = (end.astype(np.int64)[:, None] for end in reach)
    results = np.arange(limits[0] + 1, limits[1] + 1)
    half = (np.int64(1) << down) >> 1
    first = _first_sums(multiplier, (results << down) - half + ((results <= 0) & (down > 0)))
    if np.any((np.abs(first) >= MOST_SUM) & (first > low) & (first <= high)):
        return None
    first = np.clip(first, low, high + 1)
    scale = multiplier * 2.0 ** (-31 - down)
    above = 0.5 ** (down + 1) + half * 0.5**down
    found = {}
    for name, start in (("above", above), ("below", above - 0.5**down * (down > 0))):
        least_move, most_move = -MOST_MOVE, MOST_MOVE
        for at, is_used, end in ((first, first <= high, -1), (first - 1, first > low, 1)):
            error = (np.abs(at) > MOST_SUM) * MORE_ERROR
            moves = end * (results - (at * scale + start)) - error
            is_own = is_used & ((at < 0) == (name == "below"))
            nearest = end * np.where(is_own, moves, MOST_MOVE).min(axis=1, initial=MOST_MOVE)
            least_move, most_move = (nearest, most_move) if end < 0 else (least_move, nearest)
        if np.any(most_move - least_move < ERROR):
            return None
        found[name] = (start[:, 0] + (least_move + most_move) / 2).astype(np.float32)
    upper = scale[:, 0].astype(np.float32)
    return {**found, "high": upper, "low": (scale[:, 0] - upper).astype(np.float32)}


def _first_sums(multiplier: Array, least: Array) -> Array:
    """The least sums whose high product with a multiplier is `least` or more."""
    least = np.clip(least, -_INT32 - 1, _INT32 + 1)
    return np.asarray(-(((_INT32 >> 1) - least * _INT32) // np.maximum(multiplier, 1)))


def factors_of(lines: Mapping[str, Array]) -> Mapping[str, Array]:
    """The multipliers and shifts of lines."""
    scale = lines["high"].astype(np.float64) + lines["low"].astype(np.float64)
    fraction, exponent = np.frexp(scale)
    return {
        "multiplier": (fraction * _INT32).astype(np.int64), "shift": exponent.astype(np.int64),
    }  # fmt: skip
