"""Scalar float64 functions on NumPy arrays, with the same bits as `runtime_c/math/ec_double.h`.

As `edgec.numerics.float_math`, for float64. Errors are below 2 units in the last place for exp and
log, and of powers 1e-13 of the result; a power with a whole exponent below 1024 is a product of
powers of two, so it is exact where these are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[Any]

_F = np.float64
#: ln 2 in two parts, the first of 32 bits: products with exponents are exact.
_LN2_HIGH, _LN2_LOW = _F(6.93147180369123816490e-01), _F(1.90821492927058770002e-10)
_LOG2_E = _F(1.4426950408889634)
#: 1.5 * 2**52: adding and subtracting it rounds to an integer, half to even.
_ROUNDER = _F(6755399441055744.0)
#: Taylor's coefficients of (exp(r) - 1 - r) / r**2, and 2 / (2 n + 3) of the series of atanh.
_EXP = tuple(1.0 / math.factorial(n) for n in range(2, 14))
_LOG = tuple(2.0 / (2 * n + 3) for n in range(10))
#: The bits of sqrt(1/2).
_SQRT_HALF = 0x3FE6A09E667F3BCD
#: Whole exponents below it are products.
MOST_PRODUCTS = 1024.0


def exp(x: Any) -> FloatArray:
    """e**x: x = n ln 2 + r, a polynomial of r, and 2**n in two exact factors."""
    x = np.asarray(x, _F)
    with np.errstate(all="ignore"):
        limited = np.where(x > -746.0, x, _F(-746))
        limited = np.where(limited < 710.0, limited, _F(710))
        n = (limited * _LOG2_E + _ROUNDER) - _ROUNDER
        r = (limited - n * _LN2_HIGH) - n * _LN2_LOW
        y = (r * r * _polynomial(_EXP, r) + r) + _F(1)
        power = n.astype(np.int64)
        half = power >> 1
        y = y * _power_of_two(half) * _power_of_two(power - half)
    return np.asarray(np.where(np.isnan(x), x, y))


def log(x: Any) -> FloatArray:
    """The natural logarithm: x = 2**k (1 + f). -inf for zeros, NaN for negative numbers."""
    x = np.asarray(x, _F)
    with np.errstate(all="ignore"):
        is_small = x < _F(2.0**-1022)  # a denormal, whose exponent says nothing
        bits = np.where(is_small, x * _F(2.0**54), x).view(np.int64)
        bits = bits + (0x3FF0000000000000 - _SQRT_HALF)
        k = ((bits >> 52) - 1023 - np.where(is_small, 54, 0)).astype(_F)
        f = ((bits & 0x000FFFFFFFFFFFFF) + _SQRT_HALF).view(_F) - _F(1)
        s = f / (f + _F(2))
        z = s * s
        half = _F(0.5) * f * f
        low = s * (z * _polynomial(_LOG, z) + half) + k * _LN2_LOW
        y = k * _LN2_HIGH + (f - (half - low))
    y = np.where((x > 0) & (x < np.inf), y, x)  # infinity and NaN stay
    y = np.where(x == 0, _F(-np.inf), y)
    return np.where(x < 0, _F(np.nan), y)


def pow(x: Any, y: Any) -> FloatArray:
    """x**y, with C's results for infinities, zeros and NaNs."""
    x, y = np.broadcast_arrays(np.asarray(x, _F), np.asarray(y, _F))
    with np.errstate(all="ignore"):
        size, steps = np.abs(x), np.abs(y)
        is_whole = np.isinf(y) | (np.rint(y) == y)
        is_few = is_whole & (steps < MOST_PRODUCTS)
        found = np.where(is_few, _product(x, np.where(is_few, steps, 0).astype(np.int64), y < 0),
                         np.where(size == 1, _F(1), exp(y * log(size))))  # fmt: skip
        # From 2**53 on every number is even.
        is_odd = is_whole & (steps < 2.0**53)
        is_odd &= (np.where(is_odd, steps, 0).astype(np.int64) & 1) == 1
        turned = np.where(np.signbit(x) & is_odd & ~is_few, -found, found)
        undefined = (x < 0) & ~is_whole & np.isfinite(x)
        turned = np.where(undefined | np.isnan(x) | np.isnan(y), _F(np.nan), turned)
    return np.asarray(np.where((y == 0) | (x == 1), _F(1), turned))


def whole_pow(x: Any, y: Any) -> npt.NDArray[np.int64]:
    """x**y of int64, which wraps; of a negative y 1 or -1 where x is, else 0."""
    x, y = np.broadcast_arrays(np.asarray(x, np.int64), np.asarray(y, np.int64))
    is_odd = (y & 1) == 1
    inverse = np.where(x == 1, 1, np.where(x == -1, np.where(is_odd, -1, 1), 0))
    total, factor, rest = np.ones_like(x), x.copy(), np.where(y < 0, 0, y)
    with np.errstate(over="ignore"):
        for _ in range(63):
            total = np.where(rest & 1, total * factor, total)
            factor, rest = factor * factor, rest >> 1
    return np.asarray(np.where(y < 0, inverse, total))


def _product(x: FloatArray, steps: npt.NDArray[np.int64], inverse: Any) -> FloatArray:
    """x**steps by squares, or one over it."""
    total, factor = np.ones_like(x), x.copy()
    for _ in range(10):
        total = np.where(steps & 1, total * factor, total)
        factor, steps = factor * factor, steps >> 1
    return np.asarray(np.where(inverse, _F(1) / total, total))


def _polynomial(coefficients: tuple[float, ...], x: FloatArray) -> FloatArray:
    """Horner's scheme, every step rounded."""
    total = np.full_like(x, _F(coefficients[-1]))
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + _F(coefficient)
    return total


def _power_of_two(n: npt.NDArray[np.int64]) -> FloatArray:
    """2**n for n from -1022 to 1023, from its bits."""
    return ((n + 1023) << 52).view(_F)
