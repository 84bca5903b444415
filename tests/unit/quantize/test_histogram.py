"""Histograms that grow, and the ranges that observers take from them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgec.errors import EdgecError
from edgec.quantizer.histogram import MOST_BINS, Histogram, joined
from edgec.quantizer.observers import OBSERVERS, observe_minmax, observe_mse, observe_percentile
from edgec.quantizer.scheme import (
    LEVELS,
    activation_quant,
    quantize_bias,
    quantize_weights,
)

REALS = st.floats(-1e6, 1e6, width=32)


def histogram(*parts: object) -> Histogram:
    made = Histogram()
    for part in parts:
        made.add(np.asarray(part, np.float32))
    return made


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(REALS, min_size=1, max_size=20), min_size=1, max_size=5))
def test_nothing_is_lost_however_the_range_grows(parts: list[list[float]]) -> None:
    seen = histogram(*parts)
    every = np.concatenate([np.asarray(p, np.float32) for p in parts]).astype(np.float64)
    assert seen.total == len(every)
    assert (seen.lowest, seen.highest) == (every.min(), every.max())
    assert len(seen.counts) <= MOST_BINS
    bins = np.floor(every / seen.width).astype(np.int64) - seen.first
    assert np.array_equal(np.bincount(bins, minlength=len(seen.counts)), seen.counts)


@settings(max_examples=200, deadline=None)
@given(*[st.lists(st.lists(REALS, min_size=1, max_size=20), max_size=4)] * 2)
@example([[0.0]], [[8.093370988940371e-20]])
def test_joined_histograms_count_what_both_did(
    first: list[list[float]], second: list[list[float]]
) -> None:
    made = joined(histogram(*first), histogram(*second))
    every = np.asarray([x for part in (*first, *second) for x in part], np.float32)
    assert made.total == len(every) and len(made.counts) <= MOST_BINS
    if len(every):
        assert (made.lowest, made.highest) == (every.min(), every.max())
        bins = np.floor(every.astype(np.float64) / made.width).astype(np.int64) - made.first
        assert np.array_equal(np.bincount(bins, minlength=len(made.counts)), made.counts)


def test_numbers_that_are_none_are_refused() -> None:
    for bad in (np.nan, np.inf):
        with pytest.raises(EdgecError, match="NaN or an infinity"):
            histogram([1.0, bad])


@settings(max_examples=50, deadline=None)
@given(st.lists(REALS, min_size=1, max_size=200), st.sampled_from(sorted(OBSERVERS)))
def test_every_range_holds_zero_and_is_within_what_was_seen(values: list[float], name: str) -> None:
    seen = histogram(values)
    low, high = OBSERVERS[name](seen, LEVELS)
    widest = observe_minmax(seen, LEVELS)
    assert widest[0] <= low <= 0.0 <= high <= widest[1]


def test_outliers_are_cut() -> None:
    rng = np.random.default_rng(1)
    seen = histogram(rng.standard_normal(100_000), [80.0])
    assert observe_minmax(seen, LEVELS)[1] == 80.0
    assert 3.0 < observe_percentile(seen, LEVELS)[1] < 5.0
    low, high = observe_mse(seen, LEVELS)
    assert high < 80.0

    def error(low: float, high: float) -> float:
        x = rng.standard_normal(20_000)
        quant = activation_quant(low, high)
        scale, zero_point = quant.scale[0], quant.zero_point[0]
        stored = np.clip(np.rint(x / scale) + zero_point, -128, 127)
        return float(np.mean((x - (stored - zero_point) * scale) ** 2))

    assert error(low, high) < error(*observe_minmax(seen, LEVELS))


def test_zero_is_exact_and_the_range_is_covered() -> None:
    for low, high in ((-1.0, 3.0), (0.0, 6.0), (-2.0, 0.0), (0.0, 0.0), (-1e-30, 1e-30)):
        quant = activation_quant(low, high)
        scale, zero_point = quant.scale[0], quant.zero_point[0]
        assert -128 <= zero_point <= 127 and scale > 0
        assert (-128 - zero_point) * scale <= low + scale / 2
        assert (127 - zero_point) * scale >= high - scale / 2
    with pytest.raises(ValueError, match="does not hold 0"):
        activation_quant(1.0, 2.0)


def test_weights_are_symmetric_along_their_axis() -> None:
    rng = np.random.default_rng(2)
    weights = rng.standard_normal((4, 3, 3, 2)).astype(np.float32)
    weights[2] = 0.0
    stored, quant = quantize_weights(weights, 0)
    assert stored.dtype == np.int8 and stored.min() >= -127
    assert len(quant.scale) == 4 and quant.axis == 0 and set(quant.zero_point) == {0}
    scales = np.asarray(quant.scale).reshape(4, 1, 1, 1)
    assert np.abs(stored * scales - weights).max() <= np.max(scales) / 2 * 1.0001
    assert not stored[2].any()
    assert all(np.abs(stored[c]).max() == 127 for c in (0, 1, 3))


def test_bias_is_in_the_scale_of_the_accumulators() -> None:
    _, weights = quantize_weights(np.array([[1.0], [2.0]], np.float32), 0)
    data, quant = quantize_bias(np.array([1.0, -1e12], np.float32), 0.5, weights)
    assert data[0] == round(1.0 / (0.5 * weights.scale[0]))
    assert data[1] == -(2**31)  # saturated, not wrapped
    assert quant.scale == tuple(np.float32(0.5) * np.float32(s) for s in weights.scale)


def test_weights_that_were_integers_are_so_again() -> None:
    rng = np.random.default_rng(3)
    stored = rng.integers(-90, 91, (5, 40))
    stored[1] = 0
    stored[2] = np.where(np.arange(40) % 2, 3, -3)  # three steps, or one
    scales = np.float32([0.01, 0.2, 3.0, 1e-6, 0.37])
    weights = (stored * scales[:, None]).astype(np.float32)
    weights[4, 7] *= np.float32(1.01)  # off the grid
    data, quant = quantize_weights(weights, 0)
    real = data * np.float32(quant.scale)[:, None]
    np.testing.assert_allclose(real[:4], weights[:4], rtol=1e-6, atol=0)
    assert np.abs(data[2]).max() > 63  # as fine as it can be, for the bias's sake
    assert quant.scale[4] == pytest.approx(np.abs(weights[4]).max() / 127)
