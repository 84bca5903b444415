"""Scalar float32 functions on NumPy arrays, with the same bits as `runtime_c/math/ec_float.h`.

The one place where they are defined in Python. Both sides use only operations that IEEE 754
rounds correctly (+ - * / and comparisons) and integer operations on the bits, in the same order.
A NaN stays a NaN, but its sign and payload are the machine's. Denormals are kept.

Largest errors, in units in the last place (ULP) of the exact result rounded to float32, measured
over every float (tests/runtime_c/test_float_math.py):

    exp 1.0   log 0.9   sigmoid 2.4   tanh 1.5   erf 1.5   sqrt 0.5   rsqrt 1.5   fmod 0
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[Any]

_F = np.float32

#: ln 2 in two parts: nine bits, so that products with small integers are exact, and the rest.
_LN2_HIGH, _LN2_LOW = _F(0.693359375), _F(-2.12194440e-4)
_LOG2_E = _F(1.44269504)
#: Adding and subtracting it rounds to an integer, half to even: 1.5 * 2**23.
_ROUNDER = _F(12582912.0)
#: (exp(r) - 1 - r) / r**2 on [-ln 2 / 2, ln 2 / 2], lowest power first; fitted for this project,
#: as are all polynomials here.
_EXP = (0.5, 0.1666666567325592, 0.04166628047823906, 0.00833350419998169,
        0.0013945752289146185, 0.0001978926593437791)  # fmt: skip
#: (tanh(x) - x) / x**3 in x**2, for |x| < 0.625.
_TANH = (-0.3333333134651184, 0.1333320587873459, -0.05394676327705383, 0.021700700744986534,
         -0.008177394978702068, 0.0021429588086903095)  # fmt: skip
_TANH_SMALL = _F(0.625)
#: (erf(x) - x) / x in x**2, for |x| < 1.
_ERF = (0.12837916612625122, -0.3761262595653534, 0.1128358542919159, -0.026853810995817184,
        0.005188327748328447, -0.0008010192541405559, 0.0000785385738708079)  # fmt: skip
#: log(1 - erf(x)) for x from 1 to 4, from where on erf(x) rounds to 1.
_ERF_REST = (-0.0003537095617502928, -1.1270400285720825, -0.6382256150245667,
             -0.10303743183612823, 0.021805349737405777, -0.0029396151658147573,
             0.00018557484145276248)  # fmt: skip
#: (2 atanh(s) - 2 s) / s**3 in s**2, for 1 + f between sqrt(1/2) and sqrt(2), s = f / (2 + f).
_LOG = (0.6666666269302368, 0.4000033736228943, 0.28537169098854065, 0.23584990203380585)
#: The bits of sqrt(1/2).
_SQRT_HALF = 0x3F3504F3


def float_minimum(a: Any, b: Any) -> FloatArray:
    """C's `a < b ? a : b`: b if they are equal (zeros of any sign) or either is a NaN."""
    return np.asarray(np.where(a < b, a, b))


def float_maximum(a: Any, b: Any) -> FloatArray:
    """C's `a > b ? a : b`: b if they are equal (zeros of any sign) or either is a NaN."""
    return np.asarray(np.where(a > b, a, b))


def exp(x: Any) -> FloatArray:
    """e**x: x = n ln 2 + r, a polynomial of r, and 2**n in two exact factors."""
    x = np.asarray(x, _F)
    with np.errstate(all="ignore"):
        limited = float_minimum(float_maximum(x, _F(-104)), _F(89))
        n = (limited * _LOG2_E + _ROUNDER) - _ROUNDER
        r = (limited - n * _LN2_HIGH) - n * _LN2_LOW
        y = (r * r * _polynomial(_EXP, r) + r) + _F(1)
        power = n.astype(np.int32)
        half = power >> 1
        y = y * _power_of_two(half) * _power_of_two(power - half)
    return np.asarray(np.where(np.isnan(x), x, y))


def log(x: Any) -> FloatArray:
    """The natural logarithm: x = 2**k (1 + f). -inf for zeros, NaN for negative numbers."""
    x = np.asarray(x, _F)
    with np.errstate(all="ignore"):
        is_small = x < _F(2.0**-126)  # a denormal, whose exponent says nothing
        bits = np.where(is_small, x * _F(2.0**23), x).view(np.int32) + (0x3F800000 - _SQRT_HALF)
        k = ((bits >> 23) - 127 - np.where(is_small, 23, 0)).astype(_F)
        f = ((bits & 0x007FFFFF) + _SQRT_HALF).astype(np.int32).view(_F) - _F(1)
        s = f / (f + _F(2))
        z = s * s
        half = _F(0.5) * f * f
        low = s * (z * _polynomial(_LOG, z) + half) + k * _LN2_LOW
        y = k * _LN2_HIGH + (f - (half - low))
    y = np.where((x > 0) & (x < np.inf), y, x)  # infinity and NaN stay
    y = np.where(x == 0, _F(-np.inf), y)
    return np.where(x < 0, _F(np.nan), y)


def sigmoid(x: Any) -> FloatArray:
    """1 / (1 + e**-x), by the exponential of -|x|, which cannot overflow."""
    x = np.asarray(x, _F)
    with np.errstate(all="ignore"):
        t = exp(np.where(x < 0, x, -x))
        return np.asarray(np.where(x < 0, t, _F(1)) / (t + _F(1)))


def tanh(x: Any) -> FloatArray:
    """A polynomial near zero, 1 - 2 / (e**(2|x|) + 1) elsewhere."""
    x = np.asarray(x, _F)
    with np.errstate(all="ignore"):
        z = x * x
        small = x + x * z * _polynomial(_TANH, z)
        size = np.where(x < 0, -x, x)
        large = _F(1) - _F(2) / (exp(size + size) + _F(1))
        return np.where(size < _TANH_SMALL, small, np.where(x < 0, -large, large))


def erf(x: Any) -> FloatArray:
    """The error function: a polynomial near zero, 1 - e**polynomial elsewhere."""
    x = np.asarray(x, _F)
    with np.errstate(all="ignore"):
        small = x + x * _polynomial(_ERF, x * x)
        size = np.where(x < 0, -x, x)
        large = _F(1) - exp(_polynomial(_ERF_REST, float_minimum(size, _F(4))))
        result = np.where(size < _F(1), small, np.where(x < 0, -large, large))
    return np.asarray(np.where(np.isnan(x), x, result))


def sqrt(x: Any) -> FloatArray:
    """The square root, correctly rounded; NaN for negative numbers."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.sqrt(np.asarray(x, _F)))


def rsqrt(x: Any) -> FloatArray:
    """1 / sqrt(x), with both roundings."""
    with np.errstate(all="ignore"):
        return np.asarray(_F(1) / sqrt(x))


def fmod(a: Any, b: Any) -> FloatArray:
    """The remainder of a / b towards zero, with the sign of a; exact."""
    with np.errstate(all="ignore"):
        return np.asarray(np.fmod(np.asarray(a, _F), np.asarray(b, _F)))


def _polynomial(coefficients: tuple[float, ...], x: FloatArray) -> FloatArray:
    """Horner's scheme, every step rounded to float32."""
    total = np.full_like(x, _F(coefficients[-1]))
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + _F(coefficient)
    return total


def _power_of_two(n: npt.NDArray[np.int32]) -> FloatArray:
    """2**n for n from -126 to 127, from its bits."""
    return ((n + 127) << 23).astype(np.int32).view(_F)
