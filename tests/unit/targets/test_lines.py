"""Lines of floats give each sum the result of gemmlowp's double rounding."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.targets.common.kernels.lines import factors_of, find_lines


def rounded_twice(sums: np.ndarray, multiplier: int, down: int) -> np.ndarray:
    """As gemmlowp says it: a high product, rounded half up, and halves away from zero."""
    high = (sums * multiplier + (1 << 30)) >> 31
    rest = high & ((1 << down) - 1)
    return (high >> down) + (rest > (((1 << down) - 1) >> 1) + (high < 0))


def on_line(sums: np.ndarray, lines: dict[str, np.ndarray], channel: int) -> np.ndarray:
    """What the vectors compute: the inner sum is a float, the outer one is rounded down."""
    start = np.where(sums < 0, lines["below"][channel], lines["above"][channel]).astype(np.float64)
    x = sums.astype(np.float32).astype(np.float64)
    rest = (x * float(lines["low"][channel]) + start).astype(np.float32).astype(np.float64)
    return np.floor(x * float(lines["high"][channel]) + rest)


@pytest.mark.parametrize("zero_point", [-128, -3, 0, 90, 127])
@pytest.mark.parametrize("most_shift", [0, 1, 4, 9])
def test_every_result_begins_at_the_same_sum(zero_point: int, most_shift: int) -> None:
    rng = np.random.default_rng(128 + zero_point + 1000 * most_shift)
    multiplier = rng.integers(1 << 30, 1 << 31, 40)
    multiplier[:3] = 1 << 30, (1 << 31) - 1, 0
    shift = -rng.integers(0, most_shift + 1, 40)
    shift[2] = 0
    reach = rng.integers(1, 1 << 20, 40)
    limits = -128 - zero_point, 127 - zero_point
    factors = {"multiplier": multiplier, "shift": shift}
    lines = find_lines(factors, (-reach, reach), limits)
    assert lines is not None
    for name, values in factors_of(lines).items():
        assert np.array_equal(values, factors[name])
    for c in range(40):
        step = 2.0 ** (31 - shift[c]) / max(multiplier[c], 1)
        edges = np.rint((np.arange(limits[0], limits[1] + 2) - 0.5) * step)[:, None]
        sums = np.concatenate([(edges + np.arange(-3, 4)).reshape(-1), np.arange(-4, 5)])
        sums = np.clip(sums, -reach[c], reach[c]).astype(np.int64)
        want = np.clip(rounded_twice(sums, int(multiplier[c]), -int(shift[c])), *limits)
        assert np.array_equal(np.clip(on_line(sums, lines, c), *limits), want), c


def test_channels_of_one_result_have_lines_however_large_their_sums_are() -> None:
    factors = {"multiplier": np.array([1097675990]), "shift": np.array([-26])}
    reach = np.array([(1 << 30) - 90_000]), np.array([(1 << 30) + 90_000])
    lines = find_lines(factors, reach, (0, 255))
    assert lines is not None
    sums = np.arange(reach[0][0], reach[1][0], 997)
    assert np.array_equal(on_line(sums, lines, 0), rounded_twice(sums, 1097675990, 26))


def test_results_too_close_to_the_next_sum_have_none() -> None:
    factors = {"multiplier": np.array([1234567890]), "shift": np.array([-17])}
    most = np.array([1 << 26])
    assert find_lines(factors, (-most, most), (-128, 127)) is None
