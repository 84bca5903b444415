"""Integer forms of two-operand functions: proven on all pairs, or not offered."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.numerics.linear_sum import (
    FlooredSum,
    LinearSum,
    find_floored_sum,
    find_linear_sum,
)

PAIRS = np.meshgrid(np.arange(-128, 128), np.arange(-128, 128), indexing="ij")


def apply(form: LinearSum, minimum: int, maximum: int) -> np.ndarray:
    """The form on all pairs, with every partial sum checked to fit in int32."""
    first = PAIRS[0] * form.first + form.constant
    total = first + PAIRS[1] * form.second
    for part in (PAIRS[0] * form.first, PAIRS[1] * form.second, first, total):
        assert np.abs(part).max() < 1 << 31
    return np.clip(total >> form.shift, minimum, maximum)


def apply_floored(form: FlooredSum, minimum: int, maximum: int) -> np.ndarray:
    """The same of a form whose products keep their upper words."""
    first, second = (
        operand * factor >> 8
        for operand, factor in zip(PAIRS, (form.first, form.second), strict=True)
    )
    total = first + second + form.constant
    for part in (first, second, first + form.constant, second + form.constant, total):
        assert np.abs(part).max() < 1 << 31
    assert max(abs(form.first), abs(form.second)) < 1 << 31
    return np.clip((total >> 16) - 128, minimum, maximum)


@pytest.mark.parametrize("factors", [(0.7, 0.4), (1.9, -0.01), (0.5, 0.5), (1e-4, 3.0)])
@pytest.mark.parametrize("limits", [(-128, 127), (-128, 100), (3, 90)])
def test_floored_sums_give_the_rounded_sum(factors, limits):
    exact = PAIRS[0] * factors[0] + PAIRS[1] * factors[1] + 0.3217
    table = np.clip(np.rint(exact).astype(np.int64), *limits)
    form = find_floored_sum(table, factors, *limits)
    assert form is not None
    assert np.array_equal(apply_floored(form, *limits), table)


@pytest.mark.parametrize("factors", [(0.7, 0.4), (1.9, 0.01), (0.5, 0.5), (1e-4, 1.0)])
@pytest.mark.parametrize("limits", [(-128, 127), (-128, 100), (3, 90)])
def test_gives_the_rounded_sum(factors, limits):
    exact = PAIRS[0] * factors[0] + PAIRS[1] * factors[1] + 0.3217
    table = np.clip(np.rint(exact).astype(np.int64), *limits)
    form = find_linear_sum(table, factors, *limits)
    assert form is not None
    assert np.array_equal(apply(form, *limits), table)


def test_a_constant_result_is_linear_too():
    table = np.full((256, 256), 127)
    form = find_linear_sum(table, (0.5, 0.5), -128, 127)
    assert form is not None
    assert np.array_equal(apply(form, -128, 127), table)


def test_a_function_that_is_not_linear_has_no_form():
    table = np.clip(PAIRS[0] * 0.5 + PAIRS[1] * 0.5, -128, 127).astype(np.int64)
    table[200, 31] += 5
    assert find_linear_sum(table, (0.5, 0.5), -128, 127) is None
    assert find_floored_sum(table, (0.5, 0.5), -128, 127) is None


def test_factors_too_large_for_a_word_have_no_form():
    table = np.clip(PAIRS[0] * 200 + PAIRS[1], -128, 127)
    assert find_floored_sum(table, (200.0, 1.0), -128, 127) is None
