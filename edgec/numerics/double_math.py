"""Scalar float64 functions on NumPy arrays, with the same bits as `runtime_c/math/ec_double.h`.

As `edgec.numerics.float_math`, for float64. Errors are below 2 units in the last place for exp and
log, and of powers 1e-13 of the result; a power with a whole exponent below 1024 is a product of
powers of two, so it is exact where these are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.numerics import exp_log

FloatArray = npt.NDArray[Any]

_F = np.float64
#: Whole exponents below it are products.
MOST_PRODUCTS = 1024.0


def exp(x: Any) -> FloatArray:
    return exp_log.exp(x, exp_log.FLOAT64)


def log(x: Any) -> FloatArray:
    """The natural logarithm."""
    return exp_log.log(x, exp_log.FLOAT64)


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


def fmod(a: Any, b: Any) -> FloatArray:
    """The remainder of a / b towards zero, with the sign of a; exact."""
    with np.errstate(all="ignore"):
        return np.asarray(np.fmod(np.asarray(a, _F), np.asarray(b, _F)))


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
