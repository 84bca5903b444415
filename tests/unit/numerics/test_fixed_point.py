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


# --- gemmlowp's fixedpoint.h once more, a number at a time, in Python's own integers -------------

#: What gemmlowp multiplies by: exp(-2**k) with 31 fraction bits, from k = -2 on.
POWERS = [round(math.exp(-(2.0**k)) * 2**31) for k in range(-2, 5)]
#: exp(-1/8), 1/3, and 48/17 and 32/17 with 29 fraction bits.
EIGHTH, THIRD = 1895147668, round(2**31 / 3)
SEED, SLOPE = round(48 / 17 * 2**29), round(32 / 17 * 2**29)


def high(a: int, b: int) -> int:
    return min((a * b + 2**30) >> 31, fp.INT32_MAX)


def exponential(x: int, integer_bits: int) -> int:
    bits = 31 - integer_bits
    if x == 0:
        return fp.INT32_MAX
    rest = (-x) % 2 ** (bits - 2)
    near = (2 ** (bits - 2) - rest) % 2 ** (bits - 2) - 2 ** (bits - 2)  # in [-1/4, 0)
    a = (near << integer_bits) + 2**28
    a2 = high(a, a)
    higher = high(away(Fraction(high(a2, a2), 4)) + high(a2, a), THIRD) + a2
    result = EIGHTH + high(a + away(Fraction(higher, 2)), EIGHTH)
    for k, factor in zip(range(-2, integer_bits), POWERS, strict=False):
        if ((near - x) >> (bits + k)) & 1:
            result = high(result, factor)
    return result


def reciprocal(x: int) -> int:
    """2 / (1 + x) with two integer bits."""
    half = (x + fp.INT32_MAX + 1) // 2
    y = SEED + high(half, -SLOPE)
    for _ in range(3):
        y += 4 * high(y, 2**29 - high(half, y))
    return y


def limited(value: int) -> int:
    return min(max(value, fp.INT32_MIN), fp.INT32_MAX)


@pytest.mark.parametrize("integer_bits", range(6))
def test_gemmlowp_s_functions_in_every_bit(integer_bits: int) -> None:
    edges = [0, -1, -2, *(-(2**k) for k in range(31)), *(1 - 2**k for k in range(2, 31))]
    random = np.random.default_rng(integer_bits).integers(-(2**31), 1, 300).tolist()
    numbers = [*edges, *random]
    x = np.array(numbers)
    powers = [exponential(n, integer_bits) for n in numbers]
    assert fp.exp_on_negative_values(x, integer_bits).tolist() == powers
    halves = [limited(2 * reciprocal(power)) for power in powers]
    assert fp.one_over_one_plus_x(np.array(powers)).tolist() == halves
    logistic = [2**30 if n == 0 else half for n, half in zip(numbers, halves, strict=True)]
    assert fp.logistic(-x, integer_bits).tolist() == logistic
    assert fp.logistic(x, integer_bits).tolist() == [
        2**30 if n == 0 else fp.INT32_MAX - half for n, half in zip(numbers, halves, strict=True)
    ]
    if integer_bits < 5:
        twice = [
            n and limited(4 * (reciprocal(exponential(n, integer_bits + 1)) - 2**29))
            for n in numbers
        ]
        assert fp.tanh(-x, integer_bits).tolist() == twice
        assert fp.tanh(x, integer_bits).tolist() == [-n for n in twice]


def test_reciprocal_roots_in_every_bit() -> None:
    a, b, c = 1433898720, -1763825220, 879706809  # of the docstring's polynomial, 29 fraction bits
    random = np.random.default_rng(1).integers(2**29, 2**31, 300).tolist()
    numbers, roots = [2**29, 2**29 + 1, 2**30, 2**31 - 1, *random], []
    for x in numbers:
        y = a + high(x, b + high(x, c))
        for _ in range(3):
            y = 2 * high(y, 4 * (3 * 2**27 - high(x, high(y, y))))
        roots.append(y)
    assert fp.reciprocal_root(np.array(numbers)).tolist() == roots


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (0.5, 1), (-0.5, -1), (0.49999997, 0), (1.5, 2), (2.5, 3), (-2.5, -3), (-0.2, 0),
        (float("nan"), 0), (float("inf"), 2**30), (-float("inf"), -(2**30)),
        (2.0**30 - 0.5, 2**30), (2.0**30 + 7, 2**30), (-(2.0**30) - 7, -(2**30)),
        (2.0**30 - 1, 2**30 - 1), (1 - 2.0**30, 1 - 2**30),
    ],
)  # fmt: skip
def test_halves_are_rounded_away(x: float, expected: int) -> None:
    assert one(fp.round_half_away(np.array(x))) == expected


def test_each_rounding_at_its_edges() -> None:
    x = np.array([fp.INT32_MIN, -3, -1, 0, 1, 3, fp.INT32_MAX])
    ends = {"tflm": [0, -6, -2, 0, 2, 6, -2], "single": [fp.INT32_MIN, -6, -2, 0, 2, 6,
            fp.INT32_MAX], "onnx": [fp.INT32_MIN, -6, -2, 0, 2, 6, 2**31 - 128]}  # fmt: skip
    for rounding, expected in ends.items():
        assert fp.requantize(x, (2.0,), rounding).tolist() == expected, rounding  # type: ignore
    ones = np.array([1, -1, 3])
    halves = {"tflm": [1, 0, 2], "single": [1, 0, 2], "tflm16": [1, 0, 2], "onnx": [0, 0, 2]}
    for rounding, expected in halves.items():
        assert fp.requantize(ones, (0.5,), rounding).tolist() == expected, rounding  # type: ignore
    quarters = {"tflm": [-1, 1, 2], "single": [0, 1, 2], "tflm16": [0, 1, 2], "onnx": [0, 0, 2]}
    for rounding, expected in quarters.items():
        found = fp.requantize(np.array([-2, 2, 7]), (0.25,), rounding)  # type: ignore
        assert found.tolist() == expected, rounding
    for multiplier, shift in ((2**30, 0), (2**30 + 1, 3), (-(2**30), 1), (2**31 - 1, -5)):
        pair = np.array([multiplier]), np.array([shift])
        for value in (-1001, -8, 5, 8, 77):
            raised = value * 2 ** max(shift, 0)
            first = math.floor(Fraction(raised * multiplier, 2**31) + Fraction(1, 2))
            found = one(fp.requantize_tflm(np.array([value]), *pair))
            assert found == away(Fraction(first, 2 ** max(-shift, 0)))
    with pytest.raises(TypeMismatch, match=r"1\.28e"):
        fp.quantize_multiplier(128e9)
    assert fp.quantize_multiplier(-0.75) == (-3 * 2**29, 0)
    assert fp.quantize_multiplier(64.0, 7) == (2**30, 7)
    with pytest.raises(TypeMismatch, match=r"fewer than 2\*\*7 are"):
        fp.quantize_multiplier(128.0, 7)
