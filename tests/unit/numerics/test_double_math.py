"""Functions of float64: near NumPy's, at the ends as well."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.numerics import double_math


def steps(found: np.ndarray, exact: np.ndarray) -> float:
    """The largest error in units of the last place."""
    return float(np.max(np.abs(found - exact) / np.spacing(np.abs(exact))))


def test_exp_and_log() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-708, 709, 20_000)
    assert steps(double_math.exp(x), np.exp(x)) <= 2
    for x in (rng.uniform(0.4, 2.5, 20_000), np.exp(rng.uniform(-740, 709, 20_000))):
        assert steps(double_math.log(x), np.log(x)) <= 2


def test_ends() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, 800, -800])
    np.testing.assert_array_equal(double_math.exp(x), [np.nan, np.inf, 0, 1, np.inf, 0])
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, -1])
    np.testing.assert_array_equal(
        double_math.log(x), [np.nan, np.inf, np.nan, -np.inf, -np.inf, np.nan]
    )


@pytest.mark.parametrize("exponent", [-3, -2.5, -1, 0, 1 / 3, 0.5, 2, 7, 100, 1023, 1000.5])
def test_pow(exponent: float) -> None:
    x = np.random.default_rng(1).uniform(0.5, 2, 5000)
    np.testing.assert_allclose(double_math.pow(x, exponent), np.power(x, exponent), rtol=3e-13)


def test_whole_powers_wrap() -> None:
    x, y = np.meshgrid(np.arange(-9, 10), np.arange(-3, 80))
    found = double_math.whole_pow(x, y)
    wrapped = [
        {1: 1, -1: (-1) ** int(b % 2)}.get(int(a), 0)
        if b < 0
        else (int(a) ** int(b) + 2**63) % 2**64 - 2**63
        for a, b in zip(x.flat, y.flat, strict=True)
    ]
    np.testing.assert_array_equal(found.reshape(-1), np.array(wrapped, np.int64))
