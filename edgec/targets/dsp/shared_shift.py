"""One shift for all channels of products, so that one instruction shifts results and limits them.

Channels have multipliers M and shifts e. A shift of `SHIFT` for all takes M without its lowest
bits, the more the larger e is. M is rounded so that these are zero, if every sum still gives the
same int8.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgec.loop.values import Array

#: The shift of the upper words of products of M and 256 times a sum. The least e that it serves,
#: which loses no bit; and how many bits can be lost at most, so that a half that is added stays.
SHIFT, LEAST, MOST_LOST = 12, 5, 6


def share_shift(tables: Mapping[str, Array], zero_point: int) -> tuple[dict[str, Array], int]:
    """The tables with rounded multipliers, and SHIFT; or the tables unchanged, and 0."""
    unchanged = dict(tables), 0
    exponents = -tables["shift"].astype(np.int64)
    lost = exponents - LEAST
    if zero_point != -128 or lost.min() < 0 or lost.max() > MOST_LOST:
        return unchanged
    multiplier = tables["multiplier"].astype(np.int64)
    sums = _last_sums(multiplier, exponents)
    expected = _results(sums, multiplier, exponents)
    chosen = np.zeros_like(multiplier)
    for up in (0, 1):
        rounded = ((multiplier >> lost) + up * (multiplier % (1 << lost) > 0)) << lost
        is_same = (_results(sums, rounded, exponents) == expected).all(axis=0)
        chosen = np.where(is_same & (rounded < 1 << 31), rounded, chosen)
    if not chosen.all():
        return unchanged
    return {**tables, "multiplier": chosen.astype(np.int32)}, SHIFT


def _last_sums(multiplier: Array, exponents: Array) -> Array:
    """[510, channels]: for each result but the largest, the last sum that gives it and the next."""
    halves = (2 * np.arange(1, 256)[:, None] - 1) << (exponents - 1)
    first = -(-((halves << 31) - (1 << 30)) // multiplier)
    return np.concatenate([first - 1, first])


def _results(sums: Array, multiplier: Array, exponents: Array) -> Array:
    """The results with gemmlowp's rounding, over the zero point."""
    high = (sums * multiplier + (1 << 30)) >> 31
    return np.clip((high + (1 << (exponents - 1))) >> exponents, 0, 255)
