"""Rows of integers that are sums of few of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from edgec.numerics.integer_factors import integer_factors

Rows = npt.NDArray[np.int8]
RNG = np.random.default_rng(5)


def sums(count: int, width: int, rank: int, limit: int = 9) -> Rows:
    """Rows that are sums and multiples of `rank` of them, in any order; some are zero."""
    base = RNG.integers(-limit, limit + 1, (rank, width))
    mix = RNG.integers(-1, 2, (count - rank, rank))
    rows = np.concatenate([base, mix @ base])
    rows[-1] = 3 * base[0]
    rows[-2] = 0
    return np.asarray(RNG.permutation(rows), np.int8)


@pytest.mark.parametrize(("count", "width", "rank"), [(8, 8, 1), (32, 40, 5), (300, 700, 11)])
def test_factors_make_all_rows(count: int, width: int, rank: int) -> None:
    matrix = sums(count, width, rank)
    found = integer_factors(matrix)
    assert found is not None and len(found.rows) == rank
    np.testing.assert_array_equal(found.mix.astype(int) @ matrix[list(found.rows)], matrix)


@pytest.mark.parametrize(
    "matrix",
    [
        RNG.integers(-127, 128, (40, 50)).astype(np.int8),
        sums(20, 20, 12),  # saves less than half of the products
        np.zeros((8, 8), np.int8),
        np.repeat(np.outer([2, 3], np.arange(1, 17)), 8, axis=0).astype(np.int8),  # 3 is no 2 n
        np.full((1, 9), 4, np.int8),
        np.arange(16, dtype=np.int8).reshape(16, 1),
    ],
)
def test_other_rows_have_none(matrix: Rows) -> None:
    assert integer_factors(matrix) is None


def test_columns_that_were_not_looked_at_are_checked() -> None:
    """One column differs; most of its neighbours are not looked at."""
    for column in range(60):
        matrix = sums(24, 60, 1)
        matrix[3, column] += 1
        found = integer_factors(matrix)
        if found is not None:
            rows = matrix[list(found.rows)]
            np.testing.assert_array_equal(found.mix.astype(int) @ rows, matrix)
