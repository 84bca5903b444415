"""Exact integer and rounding arithmetic of quantized networks, on NumPy arrays.

The one place where rounding is defined in Python. `runtime_c/include/edgec/ec_fixed_point.h` is
the same in C. Four ways to requantize, named by the `rounding` attribute of the graph IR:

tflm    gemmlowp's double rounding as TFLite Micro and CMSIS-NN do it: a saturating rounding
        doubling high multiply, then a rounding divide by a power of two (ties away from zero).
single  TFLite's single rounding (64-bit product, one rounding shift, ties towards plus infinity).
tflm16  TFLite's rescaling of int64 accumulators, which int16 activations have: a multiplier of
        15 bits and one rounding shift, ties towards plus infinity.
onnx    ONNX Runtime: float32(accumulator) * float32 multiplier, rounded half to even.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from edgec.errors import TypeMismatch

IntArray = npt.NDArray[np.int64]
Rounding = Literal["tflm", "single", "tflm16", "onnx"]
ROUNDINGS: tuple[Rounding, ...] = ("tflm", "single", "tflm16", "onnx")

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
#: Largest left shifts of TFLite's kernels, for int32 and for int64 accumulators.
MOST_SHIFT, MOST_SHORT_SHIFT = 30, 7


def quantize_multiplier(real: float, most_shift: int = MOST_SHIFT) -> tuple[int, int]:
    """(multiplier, shift) with real ~= multiplier * 2**(shift - 31), multiplier in [2**30, 2**31).

    Source: TFLite `QuantizeMultiplier`: frexp, round half away from zero to 31 bits, shifts under
    -31 result in zero. Raises TypeMismatch for shifts over `most_shift`: TFLite's kernels shift
    int32 by them, which C does not define.
    """
    if real == 0.0:
        return 0, 0
    fraction, shift = math.frexp(real)
    multiplier = math.floor(abs(fraction) * 2**31 + 0.5) * (1 if fraction > 0 else -1)
    if multiplier == 2**31:
        multiplier //= 2
        shift += 1
    if shift < -31:
        return 0, 0
    if shift > most_shift:
        raise _too_large(real, most_shift)
    return multiplier, shift


def check_factors(factors: Iterable[float], rounding: Rounding) -> None:
    """Raise TypeMismatch for a factor that the rounding has no multiplier and shift for."""
    if rounding != "onnx":
        fit = short_multiplier if rounding == "tflm16" else quantize_multiplier
        for factor in factors:
            fit(factor)


def _too_large(real: float, most: int) -> TypeMismatch:
    return TypeMismatch(
        f"a factor of {real:g} between scales is too large; fewer than 2**{most} are possible",
        hint="a scale in the file is wrong: quantize the model again with samples of its input",
    )


def short_multiplier(real: float) -> tuple[int, int]:
    """(multiplier, shift) with real ~= multiplier * 2**-shift, multiplier in [2**14, 2**15).

    Source: TFLite's MultiplyByQuantizedMultiplier for int64: the upper 16 bits of
    `quantize_multiplier`, rounded half up and held below 2**15. shift is from 8 to 46. Raises
    TypeMismatch for a real number of 2**7 or more, which TFLite does not define.
    """
    multiplier, exponent = quantize_multiplier(real)
    if exponent > MOST_SHORT_SHIFT:
        raise _too_large(real, MOST_SHORT_SHIFT)
    short = (multiplier + (1 << 15)) >> 16 if multiplier < 0x7FFF0000 else 0x7FFF
    return short, 15 - exponent


def wrap_int32(value: npt.NDArray[Any]) -> IntArray:
    """Reduce modulo 2**32 into the int32 range, as two's complement addition does."""
    return value.astype(np.int32).astype(np.int64)


def rounding_doubling_high_multiply(a: npt.NDArray[Any], b: npt.NDArray[Any] | int) -> IntArray:
    """gemmlowp's SaturatingRoundingDoublingHighMul: (a * b * 2 + rounding) >> 32, saturated.

    int32 operands. gemmlowp (fixedpoint.h) adds 2**30, or 1 - 2**30 to a negative product, and
    divides by 2**31 towards zero: that is the same as rounding halves up. Only the product of
    INT32_MIN and itself is then too large.
    """
    product: IntArray = np.multiply(a, b, dtype=np.int64)
    product += 2**30
    product >>= 31
    return np.minimum(product, INT32_MAX)


def rounding_divide_by_power_of_two(
    x: npt.NDArray[Any], exponent: npt.NDArray[Any] | int
) -> IntArray:
    """gemmlowp's RoundingDivideByPOT: x / 2**exponent, ties away from zero, exponent 0..31."""
    mask = (np.int64(1) << exponent) - 1
    threshold = (mask >> 1) + (x < 0)
    result: IntArray = (x >> exponent) + ((x & mask) > threshold)
    return result


def requantize_tflm(
    x: npt.NDArray[Any], multiplier: npt.NDArray[Any], shift: npt.NDArray[Any]
) -> IntArray:
    """x * multiplier * 2**(shift - 31) with double rounding; int32 in and out."""
    shift64 = np.asarray(shift, dtype=np.int64)
    left = np.maximum(shift64, 0)
    right = np.maximum(-shift64, 0)
    raised = wrap_int32(x.astype(np.int64) << left) if left.any() else x
    return rounding_divide_by_power_of_two(
        rounding_doubling_high_multiply(raised, np.asarray(multiplier)), right
    )


def requantize_single(
    x: npt.NDArray[Any], multiplier: npt.NDArray[Any], shift: npt.NDArray[Any]
) -> IntArray:
    """x * multiplier * 2**(shift - 31) with one rounding (TFLite with TFLITE_SINGLE_ROUNDING)."""
    total = 31 - np.asarray(shift, dtype=np.int64)
    product = x.astype(np.int64) * np.asarray(multiplier, dtype=np.int64)
    rounded: IntArray = (product + (np.int64(1) << (total - 1))) >> total
    return np.clip(rounded, INT32_MIN, INT32_MAX)


def requantize_tflm16(
    x: npt.NDArray[Any], multiplier: npt.NDArray[Any], shift: npt.NDArray[Any]
) -> IntArray:
    """x * multiplier * 2**-shift with one rounding, half up; `short_multiplier` returns both.

    int64 in; the product wraps modulo 2**64 and the result modulo 2**32, as TFLite's do.
    """
    shift64 = np.asarray(shift, dtype=np.int64)
    with np.errstate(over="ignore"):
        product = x.astype(np.int64) * np.asarray(multiplier, dtype=np.int64)
        return wrap_int32((product + (np.int64(1) << (shift64 - 1))) >> shift64)


def requantize_onnx(x: npt.NDArray[Any], multiplier: npt.NDArray[Any]) -> IntArray:
    """float32(x) * float32(multiplier), rounded half to even."""
    product = x.astype(np.float32) * np.asarray(multiplier, dtype=np.float32)
    # Values beyond the int32 range are clamped by the caller's output range anyway.
    clipped = np.minimum(np.maximum(product, -(2.0**31)), 2.0**31 - 128)
    return np.rint(clipped).astype(np.int64)


def requantize(x: npt.NDArray[Any], multiplier: tuple[float, ...], rounding: Rounding) -> IntArray:
    """round(x * multiplier) in one of the four ways; no zero point, no clamping.

    x: int32 values of any shape (int64 too for `tflm16`). multiplier: one real number, or one for
    each index of x's last axis, exact as doubles. Raises ValueError for an unknown rounding.
    """
    if rounding == "onnx":
        return requantize_onnx(x, np.array(multiplier))
    if rounding == "tflm16":
        short = np.array([short_multiplier(real) for real in multiplier], np.int64)
        return requantize_tflm16(x, short[:, 0], short[:, 1])
    pairs = [quantize_multiplier(real) for real in multiplier]
    fixed = np.array([pair[0] for pair in pairs], np.int64)
    shift = np.array([pair[1] for pair in pairs], np.int64)
    if rounding == "tflm":
        return requantize_tflm(x, fixed, shift)
    if rounding == "single":
        return requantize_single(x, fixed, shift)
    raise ValueError(f"unknown rounding {rounding!r}")


#: Saturation limits of round_half_away.
MOST_ROUNDED = 1 << 30


def round_half_away(x: npt.NDArray[Any]) -> IntArray:
    """C's round() of float32 or float64 values, limited to +-MOST_ROUNDED; 0 for a NaN."""
    limited = np.minimum(np.maximum(x, -MOST_ROUNDED), MOST_ROUNDED)
    whole = np.trunc(limited)
    whole = whole + np.trunc(2 * (limited - whole))  # exact: a rest of a half or more is one
    return np.where(np.isnan(whole), 0, whole).astype(np.int64)


def saturating_shift_left(x: npt.NDArray[Any], exponent: int) -> IntArray:
    """gemmlowp's SaturatingRoundingMultiplyByPOT for an exponent >= 0: x * 2**exponent."""
    shifted: IntArray = np.clip(x.astype(np.int64) << exponent, INT32_MIN, INT32_MAX)
    return shifted


def exp_on_negative_values(x: npt.NDArray[Any], integer_bits: int) -> IntArray:
    """gemmlowp's exp(x) for x <= 0, x as int32 with `integer_bits` (0..5) integer bits.

    The result has no integer bits: 2**31 - 1 stands for one. A Taylor series of degree 4 about
    -1/8 on [-1/4, 0), then one factor exp(-2**k) for each bit of the rest.
    """
    fraction_bits = 31 - integer_bits
    quarter = np.int64(1) << (fraction_bits - 2)
    x64 = x.astype(np.int64)
    reduced = (x64 & (quarter - 1)) - quarter  # x modulo 1/4, in [-1/4, 0)
    multiply = rounding_doubling_high_multiply

    a = (reduced << integer_bits) + (1 << 28)  # no integer bits, shifted by 1/8
    a2 = multiply(a, a)
    a3 = multiply(a2, a)
    a4_over_4 = rounding_divide_by_power_of_two(multiply(a2, a2), 2)
    higher = rounding_divide_by_power_of_two(
        multiply(a4_over_4 + a3, 715827883) + a2,  # 1/3
        1,
    )
    at_minus_eighth = 1895147668  # exp(-1/8)
    result = at_minus_eighth + multiply(a + higher, at_minus_eighth)

    rest = reduced - x64
    # exp(-2**k) with 31 fraction bits, k from -2 upwards (gemmlowp, fixedpoint.h).
    factors = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
    for position, factor in enumerate(factors):
        if integer_bits > position - 2:
            bit = np.int64(1) << (fraction_bits + position - 2)
            result = np.where(rest & bit, multiply(result, factor), result)
    return np.where(x64 == 0, INT32_MAX, result)


def _two_over_one_plus_x(x: npt.NDArray[Any]) -> IntArray:
    """gemmlowp's 2 / (1 + x) with 2 integer bits, for x in [0, 1) as int32 without integer bits.

    Three Newton-Raphson steps from 48/17 - 32/17 d, as in gemmlowp's fixedpoint.h.
    """
    multiply = rounding_doubling_high_multiply
    half_denominator = (x.astype(np.int64) + INT32_MAX + 1) >> 1  # a rounding half sum
    estimate = 1515870810 + multiply(half_denominator, -1010580540)
    for _ in range(3):
        error = (1 << 29) - multiply(half_denominator, estimate)
        estimate = estimate + saturating_shift_left(multiply(estimate, error), 2)
    return estimate


def one_over_one_plus_x(x: npt.NDArray[Any]) -> IntArray:
    """gemmlowp's 1 / (1 + x) for x in [0, 1): int32 without integer bits in and out."""
    return saturating_shift_left(_two_over_one_plus_x(x), 1)


def one_minus_x_over_one_plus_x(x: npt.NDArray[Any]) -> IntArray:
    """gemmlowp's (1 - x) / (1 + x) for x in [0, 1): int32 without integer bits in and out."""
    return saturating_shift_left(_two_over_one_plus_x(x) - (1 << 29), 2)


def logistic(x: npt.NDArray[Any], integer_bits: int) -> IntArray:
    """gemmlowp's 1 / (1 + exp(-x)): int32 with `integer_bits` in, without integer bits out."""
    x64 = x.astype(np.int64)
    positive = one_over_one_plus_x(exp_on_negative_values(-np.abs(x64), integer_bits))
    result = np.where(x64 > 0, positive, INT32_MAX - positive)
    return np.where(x64 == 0, 1 << 30, result)


def tanh(x: npt.NDArray[Any], integer_bits: int) -> IntArray:
    """gemmlowp's tanh: int32 with `integer_bits` (at most 4) in, without integer bits out."""
    x64 = x.astype(np.int64)
    # exp(-2 |x|): the same bits with one more integer bit mean twice the number.
    magnitude = one_minus_x_over_one_plus_x(exp_on_negative_values(-np.abs(x64), integer_bits + 1))
    return np.asarray(np.sign(x64) * magnitude)


#: Reciprocal roots start from c[0] + c[1] x + c[2] x**2, which is off by 2.4 % at most on [1/4, 1);
#: c has 29 fraction bits (the polynomial of the least relative error).
_ROOT_SEED = (1433898720, -1763825220, 879706809)


def reciprocal_root(x: npt.NDArray[Any]) -> IntArray:
    """1 / sqrt(x) for x in [1/4, 1): int32, x with 31 fraction bits, the result with 29.

    Three steps y <- y (3 - x y**2) / 2 of Newton's method: off by less than 2**-26 of the result.
    """
    multiply = rounding_doubling_high_multiply
    constant, linear, square = _ROOT_SEED
    y = constant + multiply(x, linear + multiply(x, square))
    for _ in range(3):
        rest = (3 << 27) - multiply(x, multiply(y, y))  # 27 fraction bits
        y = multiply(y, rest << 2) << 1
    return y
