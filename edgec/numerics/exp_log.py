"""exp and log on NumPy arrays of either width: one text, and a set of constants for each format.

`runtime_c/math/ec_float.h` and `ec_double.h` do the same operations in the same order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[Any]


@dataclass(frozen=True)
class Format:
    """An IEEE 754 format and the constants of its polynomials.

    mantissa_bits: stored ones. ln2: ln 2 in two parts, the first short enough that products with
    exponents are exact. lowest, highest: arguments of exp outside them round to 0 or infinity.
    exp: coefficients of (exp(r) - 1 - r) / r**2 on [-ln 2 / 2, ln 2 / 2], and log: of
    (2 atanh(s) - 2 s) / s**3 in s**2, lowest power first. sqrt_half_bits: the bits of sqrt(1/2).
    denormal_shift: a denormal times 2 to this power is normal.
    """

    floats: Any
    integers: Any
    mantissa_bits: int
    ln2: tuple[float, float]
    log2_e: float
    lowest: float
    highest: float
    exp: tuple[float, ...]
    log: tuple[float, ...]
    sqrt_half_bits: int
    denormal_shift: int

    @property
    def bias(self) -> int:
        """The exponent's."""
        return int(np.finfo(self.floats).maxexp) - 1

    @property
    def rounder(self) -> Any:
        """Adding and subtracting it rounds to an integer, half to even."""
        return self.floats(1.5 * 2.0**self.mantissa_bits)

    def power_of_two(self, n: npt.NDArray[Any]) -> FloatArray:
        """2**n for exponents of normal numbers, from its bits."""
        return ((n + self.bias) << self.mantissa_bits).astype(self.integers).view(self.floats)


FLOAT32 = Format(
    floats=np.float32,
    integers=np.int32,
    mantissa_bits=23,
    ln2=(0.693359375, -2.12194440e-4),
    log2_e=1.44269504,
    lowest=-104,
    highest=89,
    # Fitted for this project.
    exp=(0.5, 0.1666666567325592, 0.04166628047823906, 0.00833350419998169,
         0.0013945752289146185, 0.0001978926593437791),
    log=(0.6666666269302368, 0.4000033736228943, 0.28537169098854065, 0.23584990203380585),
    sqrt_half_bits=0x3F3504F3,
    denormal_shift=23,
)  # fmt: skip
FLOAT64 = Format(
    floats=np.float64,
    integers=np.int64,
    mantissa_bits=52,
    ln2=(6.93147180369123816490e-01, 1.90821492927058770002e-10),
    log2_e=1.4426950408889634,
    lowest=-746,
    highest=710,
    # Taylor's series of both.
    exp=tuple(1.0 / math.factorial(n) for n in range(2, 14)),
    log=tuple(2.0 / (2 * n + 3) for n in range(10)),
    sqrt_half_bits=0x3FE6A09E667F3BCD,
    denormal_shift=54,
)


def exp(x: Any, of: Format) -> FloatArray:
    """e**x: x = n ln 2 + r, a polynomial of r, and 2**n in two exact factors."""
    real = of.floats
    x = np.asarray(x, real)
    high, low = map(real, of.ln2)
    with np.errstate(all="ignore"):
        limited = np.where(x > of.lowest, x, real(of.lowest))
        limited = np.where(limited < of.highest, limited, real(of.highest))
        n = (limited * real(of.log2_e) + of.rounder) - of.rounder
        r = (limited - n * high) - n * low
        y = (r * r * polynomial(of.exp, r) + r) + real(1)
        power = n.astype(of.integers)
        half = power >> 1
        y = y * of.power_of_two(half) * of.power_of_two(power - half)
    return np.asarray(np.where(np.isnan(x), x, y))


def log(x: Any, of: Format) -> FloatArray:
    """The natural logarithm: x = 2**k (1 + f). -inf for zeros, NaN for negative numbers."""
    real, shift = of.floats, of.denormal_shift
    x = np.asarray(x, real)
    high, low = map(real, of.ln2)
    one_bits = of.bias << of.mantissa_bits
    with np.errstate(all="ignore"):
        is_small = x < np.finfo(real).smallest_normal  # the exponent of a denormal says nothing
        bits = np.where(is_small, x * real(2.0**shift), x).view(of.integers)
        bits = bits + of.integers(one_bits - of.sqrt_half_bits)
        k = ((bits >> of.mantissa_bits) - of.bias - np.where(is_small, shift, 0)).astype(real)
        mantissa = bits & of.integers((1 << of.mantissa_bits) - 1)
        f = (mantissa + of.integers(of.sqrt_half_bits)).view(real) - real(1)
        s = f / (f + real(2))
        z = s * s
        half = real(0.5) * f * f
        rest = s * (z * polynomial(of.log, z) + half) + k * low
        y = k * high + (f - (half - rest))
    y = np.where((x > 0) & (x < np.inf), y, x)  # infinity and NaN stay
    y = np.where(x == 0, real(-np.inf), y)
    return np.asarray(np.where(x < 0, real(np.nan), y))


def polynomial(coefficients: tuple[float, ...], x: FloatArray) -> FloatArray:
    """Horner's scheme, every step rounded to x's format."""
    real = x.dtype.type
    total = np.full_like(x, real(coefficients[-1]))
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + real(coefficient)
    return total
