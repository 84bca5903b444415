"""Rescaling with fewer instructions and provably equal stored values.

Between the smallest and the largest accumulator that weights and inputs allow, a rescaled, rounded
and limited value is a staircase: the least accumulator of each stored value. A line (acc *
multiplier + offset) >> shift has a staircase too. If a multiplier and an offset with an equal
staircase are found for every channel, the line replaces the rescaling, whatever its rounding.
gemmlowp's rounding has a line if results are limited to the zero point and above, as by a ReLU:
below it, ties are rounded in the other direction.

Two ways to compute the line are offered, for cores with a long multiply and for those without:

high    the upper word of the 64-bit sum acc * multiplier + offset, then perhaps a shift.
parts   the multiplier in three parts of 11, 8 and up to 13 bits, the least first, each product
        shifted down before the next is added; nothing leaves 32 bits. Flooring in steps is
        flooring once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgec.numerics.fixed_point import INT32_MAX, IntArray

#: Bits of the parts of the multiplier, the least first.
PART_BITS = (11, 8, 13)
MOST_PARTS = (1 << 32) - 1
#: Shifts of the line that are tried in turn: few, so that layers of one shape share code. A line of
#: 32 bits needs no further shift, but mostly finer offsets than bytes.
HIGH_SHIFTS = (34, 37, 32)
PARTS_SHIFT = 33
#: Dtypes of offsets, and shifts of their last bit that are tried in turn. A byte suffices if an
#: accumulator's step is several of its units; finer offsets take two bytes. Offsets for `parts` are
#: added where 2**11 counts as one.
HIGH_OFFSETS = (("uint8", 24), ("uint16", 16))
PARTS_OFFSETS = (
    ("uint8", 20), ("uint8", 19), ("uint8", 18), ("uint16", 12), ("uint16", 13), ("uint16", 14),
)  # fmt: skip
#: One offset for all channels takes no room: the finest, and the line with the fewest instructions.
SINGLE_HIGH_OFFSETS, SINGLE_HIGH_SHIFTS = (("uint16", 16),), (32, 34, 37)
SINGLE_PARTS_OFFSETS = (("uint16", 12), ("uint16", 13), ("uint16", 14))
#: Multipliers that are tried, around the nearest to the real factor.
_CANDIDATES = np.array(sorted(range(-32, 33), key=abs), np.int64)
#: More steps of a search that starts beside its goal mean that something is not as assumed.
_MOST_STEPS = 64


@dataclass(frozen=True)
class Staircase:
    """The least accumulator of each stored value above the least one, for each channel.

    value: [values]. at: [values, channels], between low and high + 1; high + 1 if no accumulator
    has the value. low, high: [channels], the range of accumulators. scale: [channels], the real
    factor from accumulators to values.
    """

    value: IntArray
    at: IntArray
    low: IntArray
    high: IntArray
    scale: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Line:
    """(acc * multiplier + start + (offset << offset_shift)) >> shift, the same staircase.

    multiplier: int64 [channels], not negative. offset: uint8 or uint16 [channels].
    """

    multiplier: IntArray
    offset: npt.NDArray[np.uint8] | npt.NDArray[np.uint16]
    offset_shift: int
    start: int
    shift: int


def find_staircase(
    stored: Callable[[IntArray], IntArray],
    low: IntArray,
    high: IntArray,
    scale: npt.NDArray[np.float64],
    zero_point: int,
    limits: tuple[int, int],
) -> Staircase | None:
    """The staircase of `stored`, from accumulators [any, channels] to values within `limits`.

    `stored` never falls. Near its goal a search starts where `scale` says; None if it does not get
    there soon.
    """
    value = np.arange(limits[0] + 1, limits[1] + 1, dtype=np.int64)
    wanted = value[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        guess = np.ceil((wanted - zero_point - 0.5) / scale)
    guess = np.nan_to_num(guess, nan=0.0, posinf=2.0**40, neginf=-(2.0**40))
    at = np.clip(guess, low, high + 1).astype(np.int64)
    for _ in range(_MOST_STEPS):
        down = (at > low) & (stored(np.maximum(at - 1, low)) >= wanted)
        up = (at <= high) & (stored(np.minimum(at, high)) < wanted)
        if not (down.any() or up.any()):
            return Staircase(value, at, low, high, scale)
        at = at - down + up
    return None


def high_line(stairs: Staircase, zero_point: int, single: bool = False) -> Line | None:
    """A line for `high`: multipliers below 2**31, a start that has no lower word."""
    shifts = SINGLE_HIGH_SHIFTS if single else HIGH_SHIFTS
    for dtype, offset_shift in SINGLE_HIGH_OFFSETS if single else HIGH_OFFSETS:
        for shift in shifts:
            half_up = (1 << (shift - 1)) + (zero_point << shift)
            start = half_up >> 32 << 32
            for lower in (0, 1 << 32):
                line = _fit(stairs, shift, start - lower, dtype, offset_shift, INT32_MAX)
                if line is not None:
                    return line
    return None


def parts_line(stairs: Staircase, zero_point: int, single: bool = False) -> Line | None:
    """A line for `parts`: multipliers below 2**32, and no sum that leaves int32."""
    start = (1 << (PARTS_SHIFT - 1)) + (zero_point << PARTS_SHIFT)
    for dtype, offset_shift in SINGLE_PARTS_OFFSETS if single else PARTS_OFFSETS:
        line = _fit(stairs, PARTS_SHIFT, start, dtype, offset_shift, MOST_PARTS)
        if line is not None:
            return line if _stays_narrow(stairs, line) else None
    return None


def _fit(
    stairs: Staircase, shift: int, start: int, dtype: str, offset_shift: int, most_multiplier: int
) -> Line | None:
    """The line of this shift and start, if there are multipliers and offsets that make it exact."""
    nearest = np.rint(stairs.scale * 2.0**shift)
    if not nearest.max(initial=0) <= most_multiplier:
        return None
    value, far, most_offset = stairs.value[:, None] << shift, np.int64(1) << 62, np.iinfo(dtype).max

    def offsets(channels: slice, tried: IntArray) -> IntArray:
        """The offset that makes each multiplier exact for its channel, -1 where none does."""
        at = stairs.at[:, channels]
        reached, risen = at <= stairs.high[channels], at > stairs.low[channels]
        least = np.where(reached, value - tried * at, -far).max(axis=0, initial=-far)
        most = np.where(risen, value - tried * (at - 1) - 1, far).min(axis=0, initial=far)
        found = np.maximum(-((start - least) >> offset_shift), 0)
        fits = (found <= most_offset) & (start + (found << offset_shift) <= most)
        return np.where(fits, found, -1)

    multiplier = np.clip(nearest.astype(np.int64), 0, most_multiplier)
    offset = offsets(slice(None), multiplier)
    # One channel at a time: the first without a line ends the search, often at once.
    for channel in np.flatnonzero(offset < 0):
        tried = np.clip(multiplier[channel] + _CANDIDATES, 0, most_multiplier)
        found = offsets(slice(channel, channel + 1), tried)
        first = np.argmax(found >= 0)
        if found[first] < 0:
            return None
        multiplier[channel], offset[channel] = tried[first], found[first]
    return Line(multiplier, offset.astype(dtype), offset_shift, start, shift)


def _stays_narrow(stairs: Staircase, line: Line) -> bool:
    """Whether all products and sums of `parts` fit in int32, at the ends of the accumulators.

    Apart from flooring, each sum is monotonic in the accumulator, so its ends suffice.
    """
    room = INT32_MAX - 2
    for acc in (stairs.low, stairs.high):
        total, below = np.zeros_like(acc), 0
        for part, bits in enumerate(PART_BITS):
            product = acc * (line.multiplier >> below & (1 << bits) - 1)
            sums = [product, total + product]
            if part == 1:
                sums.append(sums[-1] + (line.offset.astype(np.int64) << line.offset_shift - below))
            if max(np.abs(number).max(initial=0) for number in sums) > room:
                return False
            total, below = sums[-1] >> bits, below + bits
    return True
