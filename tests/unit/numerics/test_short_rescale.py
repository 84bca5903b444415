"""Short rescaling equals the defined one for every accumulator, or is not offered."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.loop.intrinsics import multiply_add_high, rescale_parts
from edgec.numerics.fixed_point import INT32_MAX, INT32_MIN, IntArray, Rounding, requantize
from edgec.numerics.short_rescale import (
    PART_BITS,
    Line,
    Staircase,
    find_staircase,
    high_line,
    parts_line,
)

CHANNELS = 12
ROUNDINGS: tuple[Rounding, ...] = ("tflm", "single")


def draw(
    rng: np.random.Generator, rounding: Rounding, zero_point: int, limits: tuple[int, int]
) -> tuple[Staircase, tuple[float, ...]]:
    """Channels as layers have them: a scale that spreads a few hundred to a few ten thousand
    accumulators over the stored values, and more accumulators than that."""
    scales = np.exp2(rng.uniform(-10, -6, CHANNELS)).astype(np.float32).astype(np.float64)
    scales[0] = 2.0**-8  # exact ties
    multiplier = tuple(scales.tolist())
    reach = np.minimum((rng.uniform(0.5, 4, CHANNELS) * 256 / scales), 1 << 18).astype(np.int64)
    low, high = -reach, reach + rng.integers(-100, 100, CHANNELS)
    low[1], high[1] = 17, 17  # a constant

    def stored(acc: IntArray) -> IntArray:
        return np.clip(requantize(acc, multiplier, rounding) + zero_point, *limits)

    stairs = find_staircase(stored, low, high, scales, zero_point, limits)
    assert stairs is not None
    return stairs, multiplier


def every(stairs: Staircase, channel: int) -> IntArray:
    return np.arange(stairs.low[channel], stairs.high[channel] + 1)


def on_line(line: Line, channel: int, acc: IntArray) -> IntArray:
    offset = int(line.offset[channel]) << line.offset_shift
    return (acc * int(line.multiplier[channel]) + line.start + offset) >> line.shift


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize(
    ("zero_point", "limits"), [(-128, (-128, 127)), (5, (-128, 127)), (-20, (-20, 90))]
)
def test_every_accumulator_gives_the_same_value(
    rounding: Rounding, zero_point: int, limits: tuple[int, int]
) -> None:
    found = 0
    for seed in range(2):
        stairs, multiplier = draw(np.random.default_rng(seed), rounding, zero_point, limits)
        lines = [
            fit(stairs, zero_point, single)
            for fit in (high_line, parts_line)
            for single in (False, True)
        ]
        for line in lines:
            if line is None:
                continue
            found += 1
            for channel in range(CHANNELS):
                acc = every(stairs, channel)
                expected = requantize(acc[:, None], (multiplier[channel],), rounding)[:, 0]
                expected = np.clip(expected + zero_point, *limits)
                given = np.clip(on_line(line, channel, acc), *limits)
                np.testing.assert_array_equal(given, expected, f"seed {seed} channel {channel}")
    if rounding == "single" or limits[0] == zero_point:
        assert found >= 6, "hardly any rescaling was shortened"


@pytest.mark.parametrize("single", [False, True])
def test_parts_never_leave_int32(single: bool) -> None:
    stairs, _ = draw(np.random.default_rng(1), "tflm", -128, (-128, 127))
    line = parts_line(stairs, -128, single)
    assert line is not None
    for channel in range(CHANNELS):
        acc = every(stairs, channel)
        total, below = np.zeros_like(acc), 0
        for part, bits in enumerate(PART_BITS):
            product = acc * (int(line.multiplier[channel]) >> below & (1 << bits) - 1)
            total = total + product
            if part == 1:
                total = total + (int(line.offset[channel]) << line.offset_shift - below)
            for number in (product, total):
                assert number.min() >= INT32_MIN and number.max() <= INT32_MAX
            total, below = total >> bits, below + bits
        whole = on_line(line, channel, acc) + 128  # the zero point is added after
        np.testing.assert_array_equal((total + 1) >> 1, whole)


def test_offsets_of_a_byte_are_tried_first() -> None:
    stairs, _ = draw(np.random.default_rng(1), "single", -128, (-128, 127))
    for fit in (high_line, parts_line):
        line, finer = fit(stairs, -128), fit(stairs, -128, True)
        assert line is not None and line.offset.dtype == np.uint8
        assert finer is not None and finer.offset.dtype == np.uint16


def test_large_accumulators_are_not_split_into_parts() -> None:
    stairs, _ = draw(np.random.default_rng(2), "tflm", -128, (-128, 127))
    wide = Staircase(stairs.value, stairs.at, stairs.low * 16, stairs.high * 16, stairs.scale)
    assert parts_line(wide, -128) is None


def test_a_staircase_without_a_line_is_refused() -> None:
    low, high = np.array([0]), np.array([1000])

    def uneven(acc: IntArray) -> IntArray:
        return np.where(acc < 10, -128, np.where(acc < 900, -127, -126))

    stairs = find_staircase(uneven, low, high, np.array([2.0**-8]), -128, (-128, -125))
    assert stairs is None or (high_line(stairs, -128) is None and parts_line(stairs, -128) is None)
    near = find_staircase(uneven, low, high, np.array([1 / 500]), -128, (-128, -125))
    assert near is None or high_line(near, -128) is None


def test_one_channel_without_a_line_refuses_all_channels() -> None:
    stairs, _ = draw(np.random.default_rng(1), "tflm", -128, (-128, 127))
    at = stairs.at.copy()
    at[40:60, CHANNELS - 1] = at[40, CHANNELS - 1]  # a jump of twenty values
    bent = Staircase(stairs.value, at, stairs.low, stairs.high, stairs.scale)
    assert high_line(stairs, -128) is not None
    assert high_line(bent, -128) is None


def test_factors_of_a_half_and_more_are_refused() -> None:
    def stored(acc: IntArray) -> IntArray:
        return np.clip(requantize(acc, (0.75,), "tflm"), -128, 127)

    low, high = np.array([-200]), np.array([200])
    stairs = find_staircase(stored, low, high, np.array([0.75]), 0, (-128, 127))
    assert stairs is not None and high_line(stairs, 0) is None


def test_the_intrinsics_are_the_lines() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        acc, offset = int(rng.integers(-(1 << 18), 1 << 18)), int(rng.integers(0, 1 << 16))
        multiplier, start = int(rng.integers(0, 1 << 31)), int(rng.integers(-1000, 1000))
        whole = acc * multiplier + (offset << 16) + (start << 32)
        assert multiply_add_high(acc, multiplier, offset, start) == whole >> 32
        small = multiplier >> 4
        assert rescale_parts(acc, small, offset) == (
            (acc * small + (offset << 11) + (1 << 32)) >> 33
        )
