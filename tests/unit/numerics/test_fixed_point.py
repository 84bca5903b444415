"""The arithmetic of quantized networks, against definitions in Python's own integers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgec.errors import TypeMismatch
from edgec.numerics import fixed_point as fp

int32s = st.integers(fp.INT32_MIN, fp.INT32_MAX)


def away(value: Fraction) -> int:
    """To the nearest integer, ties away from zero."""
    return math.floor(abs(value) + Fraction(1, 2)) * (1 if value >= 0 else -1)


def one(array) -> int:
    return int(np.asarray(array).item())


@given(st.floats(1e-9, 1e9))
def test_quantize_multiplier_is_the_nearest_with_31_bits(real: float) -> None:
    multiplier, shift = fp.quantize_multiplier(real)
    assert 2**30 <= multiplier < 2**31
    error = abs(Fraction(multiplier) * Fraction(2) ** (shift - 31) - Fraction(real))
    assert error <= Fraction(2) ** (shift - 32)


@pytest.mark.parametrize(
    ("real", "expected"),
    [
        (0.0, (0, 0)),
        (0.5, (2**30, 0)),
        (1.0, (2**30, 1)),
        (1 - 2**-40, (2**30, 1)),  # rounds up to the next power of two
        (2.0**-33, (0, 0)),  # below the smallest
        (2.0**-32, (2**30, -31)),
        (2.0**29, (2**30, 30)),
        (2.0**30 - 1, ((2**30 - 1) * 2, 30)),  # the largest shift
    ],
)
def test_quantize_multiplier_at_its_edges(real: float, expected: tuple[int, int]) -> None:
    assert fp.quantize_multiplier(real) == expected


@pytest.mark.parametrize("rounding", ["tflm", "single", "tflm16"])
def test_factors_that_no_shift_holds_are_refused(rounding: fp.Rounding) -> None:
    """TFLite's kernels shift an int32 by more than 30 bits then, which C does not define."""
    most = 2.0**7 if rounding == "tflm16" else 2.0**30
    fp.check_factors([most * 0.99, 2.0**-40], rounding)
    with pytest.raises(TypeMismatch, match="too large; fewer than 2"):
        fp.check_factors([0.5, most], rounding)
    fp.check_factors([2.0**40], "onnx")


@given(st.floats(1e-8, 127.9))
def test_short_multiplier_is_near_with_15_bits(real: float) -> None:
    multiplier, shift = fp.short_multiplier(real)
    assert 2**14 <= multiplier < 2**15 and 8 <= shift <= 46
    assert abs(multiplier * 2.0**-shift - real) <= 2.0**-shift


def test_short_multiplier_at_its_edges() -> None:
    assert fp.short_multiplier(0.0) == (0, 15)
    assert fp.short_multiplier(1 - 2**-20) == (0x7FFF, 15)  # not rounded up to 2**15
    with pytest.raises(TypeMismatch, match="too large"):
        fp.short_multiplier(128.0)


@given(st.integers(-(2**47), 2**47), st.floats(1e-8, 127.9))
def test_requantize_tflm16_rounds_once_half_up(x: int, real: float) -> None:
    multiplier, shift = fp.short_multiplier(real)
    result = one(fp.requantize(np.array(x), (real,), "tflm16"))
    exact = math.floor(Fraction(x * multiplier, 2**shift) + Fraction(1, 2))
    assert result == one(fp.wrap_int32(np.array(exact)))


@given(int32s, int32s)
def test_doubling_high_multiply(a: int, b: int) -> None:
    result = one(fp.rounding_doubling_high_multiply(np.array(a), np.array(b)))
    # Nearest, ties towards plus infinity; saturated.
    expected = math.floor(Fraction(a * b, 2**31) + Fraction(1, 2))
    assert result == min(expected, fp.INT32_MAX)


def test_doubling_high_multiply_saturates() -> None:
    low = np.array(fp.INT32_MIN)
    assert one(fp.rounding_doubling_high_multiply(low, low)) == fp.INT32_MAX


@given(int32s, st.integers(0, 31))
def test_divide_by_power_of_two(x: int, exponent: int) -> None:
    result = one(fp.rounding_divide_by_power_of_two(np.array(x), np.array(exponent)))
    assert result == away(Fraction(x, 2**exponent))


@given(int32s, st.floats(1e-9, 0.999))
def test_tflm_requantize_rounds_twice(x: int, real: float) -> None:
    multiplier, shift = fp.quantize_multiplier(real)
    result = one(fp.requantize(np.array([x]), (real,), "tflm"))
    first = min(math.floor(Fraction(x * multiplier, 2**31) + Fraction(1, 2)), fp.INT32_MAX)
    assert result == away(Fraction(first, 2**-shift))


@given(int32s, st.floats(1e-9, 0.999))
def test_single_requantize_rounds_once(x: int, real: float) -> None:
    multiplier, shift = fp.quantize_multiplier(real)
    result = one(fp.requantize(np.array([x]), (real,), "single"))
    exact = Fraction(x * multiplier) / 2 ** (31 - shift)
    assert result == math.floor(exact + Fraction(1, 2))


@given(st.integers(-(2**23), 2**23), st.floats(1e-6, 0.999))
def test_onnx_requantize_rounds_half_to_even(x: int, real: float) -> None:
    result = one(fp.requantize(np.array([x]), (real,), "onnx"))
    assert result == round(float(np.float32(x) * np.float32(real)))


def test_single_and_double_rounding_differ_somewhere() -> None:
    x = np.arange(-(2**16), 2**16)
    assert not np.array_equal(
        fp.requantize(x, (0.0123,), "tflm"), fp.requantize(x, (0.0123,), "single")
    )


def test_requantize_takes_a_multiplier_for_each_channel_and_refuses_other_roundings() -> None:
    result = fp.requantize(np.array([[64, 64], [128, 128]]), (0.25, 0.5), "tflm")
    assert result.tolist() == [[16, 32], [32, 64]]
    with pytest.raises(ValueError, match="unknown rounding"):
        fp.requantize(np.array([1]), (1.0,), "floor")


@given(st.integers(-(2**40), 2**40))
def test_wrap_int32_is_two_s_complement(x: int) -> None:
    assert one(fp.wrap_int32(np.array(x))) == (x + 2**31) % 2**32 - 2**31


@given(int32s, st.integers(0, 10))
def test_saturating_shift_left(x: int, exponent: int) -> None:
    expected = min(max(x << exponent, fp.INT32_MIN), fp.INT32_MAX)
    assert one(fp.saturating_shift_left(np.array(x), exponent)) == expected


@pytest.mark.parametrize("integer_bits", [0, 1, 2, 3, 4, 5])
def test_exponential_is_within_its_error(integer_bits: int) -> None:
    fraction_bits = 31 - integer_bits
    x = np.linspace(-(2.0**integer_bits), 0, 20001)[1:]
    raw = np.round(x * 2.0**fraction_bits).astype(np.int64)
    found = fp.exp_on_negative_values(raw, integer_bits) / 2**31
    np.testing.assert_allclose(found, np.exp(raw / 2.0**fraction_bits), atol=1e-6)
    assert fp.exp_on_negative_values(np.array([0]), integer_bits).tolist() == [fp.INT32_MAX]


def test_reciprocal_is_within_its_error() -> None:
    raw = np.linspace(0, 2**31 - 1, 20001).astype(np.int64)
    found = fp.one_over_one_plus_x(raw) / 2**31
    np.testing.assert_allclose(found, 1 / (1 + raw / 2**31), atol=1e-8)


def test_reciprocal_root_is_within_its_error() -> None:
    raw = np.linspace(2**29, 2**31 - 1, 20001).astype(np.int64)
    found = fp.reciprocal_root(raw) / 2**29
    np.testing.assert_allclose(found, 1 / np.sqrt(raw / 2**31), rtol=2**-26)
