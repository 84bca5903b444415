"""Scalar float32 functions on NumPy arrays, with the same bits as `runtime_c/math/ec_float.h`.

The one place where they are defined in Python. Both sides use only operations that IEEE 754
rounds correctly (+ - * / and comparisons) and integer operations on the bits, in the same order.
A NaN stays a NaN, but its sign and payload are the machine's. Denormals are kept.

Largest errors, in units in the last place (ULP) of the exact result rounded to float32, measured
over every float (tests/runtime_c/test_float_math.py):

    exp 1.0   log 0.9   sigmoid 2.4   tanh 1.5   erf 1.5   sqrt 0.5   rsqrt 1.5   fmod 0
    floor 0   ceil 0   round 0   sin 3.0   cos 3.0   atan 3.0   sinh 4.0   cosh 3.5
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.numerics import exp_log
from edgec.numerics.exp_log import polynomial

FloatArray = npt.NDArray[Any]

_F = np.float32

#: (tanh(x) - x) / x**3 in x**2, for |x| < 0.625, lowest power first; all were fitted for this
#: project.
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
#: (sin(r) - r) / r**3, (cos(r) - 1 + r**2 / 2) / r**4 and, for r up to tan(pi / 8),
#: (atan(r) - r) / r**3, all in r**2.
_SIN = (-0.1666666716337204, 0.008333329111337662, -0.00019839305605273694, 2.7180271899851505e-06)
_COS = (0.04166664555668831, -0.0013887344393879175, 2.443569064780604e-05)
_ATAN = (-0.33332955837249756, 0.19977901875972748, -0.13879556953907013, 0.08059288561344147)
#: (sinh(r) - r) / r**3 in r**2, for |r| < 1.
_SINH = (0.1666666716337204, 0.008333350531756878, 0.0001983606634894386, 2.8174395083624404e-06)
_TAN_EIGHTH, _TAN_THREE_EIGHTHS = _F(0.41421356), _F(2.41421356)
_HALF_PI, _QUARTER_PI = _F(1.57079633), _F(0.785398163)
#: 2 / pi, 32 bits in each word, after a word of zeros.
_TWO_OVER_PI = (0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041,
                0xFE5163AB)  # fmt: skip
#: 2 pi / 2**64: of a turn's 64 bits.
_TURN = _F(3.4061215800e-19)


#: Elements that are computed together: temporaries take 130 bytes for each.
_AT_ONCE = 1 << 16


def _in_parts(function: Callable[[Any], FloatArray]) -> Callable[[Any], FloatArray]:
    """The same function, of large arrays part by part."""

    @wraps(function)
    def of_any_size(x: Any) -> FloatArray:
        if np.size(x) <= _AT_ONCE:
            return function(x)
        flat = np.ravel(x)
        made = [function(flat[at : at + _AT_ONCE]) for at in range(0, flat.size, _AT_ONCE)]
        return np.concatenate(made).reshape(np.shape(x))

    return of_any_size


def float_minimum(a: Any, b: Any) -> FloatArray:
    """C's `a < b ? a : b`: b if they are equal (zeros of any sign) or either is a NaN."""
    return np.asarray(np.where(a < b, a, b))


def float_maximum(a: Any, b: Any) -> FloatArray:
    """C's `a > b ? a : b`: b if they are equal (zeros of any sign) or either is a NaN."""
    return np.asarray(np.where(a > b, a, b))


@_in_parts
def exp(x: Any) -> FloatArray:
    return exp_log.exp(x, exp_log.FLOAT32)


@_in_parts
def log(x: Any) -> FloatArray:
    """The natural logarithm."""
    return exp_log.log(x, exp_log.FLOAT32)


@_in_parts
def sigmoid(x: Any) -> FloatArray:
    """1 / (1 + e**-x), by the exponential of -|x|, which cannot overflow."""
    x = np.asarray(x, _F)
    with np.errstate(all="ignore"):
        t = exp(np.where(x < 0, x, -x))
        return np.asarray(np.where(x < 0, t, _F(1)) / (t + _F(1)))


@_in_parts
def tanh(x: Any) -> FloatArray:
    """A polynomial near zero, 1 - 2 / (e**(2|x|) + 1) elsewhere."""
    x = np.asarray(x, _F)
    with np.errstate(all="ignore"):
        z = x * x
        small = x + x * z * polynomial(_TANH, z)
        size = np.where(x < 0, -x, x)
        large = _F(1) - _F(2) / (exp(size + size) + _F(1))
        return np.where(size < _TANH_SMALL, small, np.where(x < 0, -large, large))


@_in_parts
def erf(x: Any) -> FloatArray:
    """The error function: a polynomial near zero, 1 - e**polynomial elsewhere."""
    x = np.asarray(x, _F)
    with np.errstate(all="ignore"):
        small = x + x * polynomial(_ERF, x * x)
        size = np.where(x < 0, -x, x)
        large = _F(1) - exp(polynomial(_ERF_REST, float_minimum(size, _F(4))))
        result = np.where(size < _F(1), small, np.where(x < 0, -large, large))
    return np.asarray(np.where(np.isnan(x), x, result))


def sqrt(x: Any) -> FloatArray:
    with np.errstate(invalid="ignore"):
        return np.asarray(np.sqrt(np.asarray(x, _F)))


@_in_parts
def rsqrt(x: Any) -> FloatArray:
    with np.errstate(all="ignore"):
        return np.asarray(_F(1) / sqrt(x))


def floor(x: Any) -> FloatArray:
    with np.errstate(all="ignore"):
        return np.asarray(np.floor(np.asarray(x, _F)))


def ceil(x: Any) -> FloatArray:
    with np.errstate(all="ignore"):
        return np.asarray(np.ceil(np.asarray(x, _F)))


def round(x: Any) -> FloatArray:
    with np.errstate(all="ignore"):
        return np.asarray(np.rint(np.asarray(x, _F)))


def _quadrant(x: FloatArray) -> tuple[npt.NDArray[Any], FloatArray]:
    """(n, r) with |x| = n pi / 2 + r, n modulo 4 and |r| at most about pi / 4.

    As 64 bits of a turn: 24 bits of x by 96 of 2 / pi, from where they make no whole turns.
    """
    bits = x.view(np.uint32) & np.uint32(0x7FFFFFFF)
    place = np.clip((bits >> 23).astype(np.int64) - 120, 6, 134)
    words = np.asarray(_TWO_OVER_PI, np.uint64)
    down = np.uint64(32) - (place & 31).astype(np.uint64)
    part = [
        ((words[(place >> 5) + n] << np.uint64(32) | words[np.minimum((place >> 5) + n + 1, 7)])
         >> down) & np.uint64(0xFFFFFFFF)
        for n in range(3)
    ]  # fmt: skip
    mantissa = ((bits & 0x007FFFFF) | 0x00800000).astype(np.uint64)
    with np.errstate(over="ignore"):
        turn = ((mantissa * part[0]) << np.uint64(32)) + mantissa * part[1]
        turn = turn + ((mantissa * part[2]) >> np.uint64(32))
        n = (turn + np.uint64(1 << 61)) >> np.uint64(62)
        rest = (turn - (n << np.uint64(62))).view(np.int64)
    is_small = bits < 0x3F490FDB
    size = np.where(x < 0, -x, x)
    r = np.where(is_small, size, rest.astype(_F) * _TURN)
    return np.where(is_small, 0, n.astype(np.int64) & 3), r


def _wave(x: Any, ahead: int) -> FloatArray:
    """sin(|x| + ahead pi / 2); NaN for infinities."""
    x = np.asarray(x, _F)
    with np.errstate(all="ignore"):
        n, r = _quadrant(x)
        n = n + ahead
        z = r * r
        sine = r + r * z * polynomial(_SIN, z)
        cosine = (_F(1) - _F(0.5) * z) + z * z * polynomial(_COS, z)
        y = np.where(n & 1, cosine, sine)
        return np.where(np.isfinite(x), np.where(n & 2, -y, y), _F(np.nan))


@_in_parts
def sin(x: Any) -> FloatArray:
    """The sine, of any finite number as exact as of small ones."""
    x = np.asarray(x, _F)
    return np.where(np.signbit(x), -_wave(x, 0), _wave(x, 0))


@_in_parts
def cos(x: Any) -> FloatArray:
    """The cosine, of any finite number as exact as of small ones."""
    return _wave(x, 1)


@_in_parts
def atan(x: Any) -> FloatArray:
    """The arc tangent; for x that is not small, by the one of -1 / x or of (x - 1) / (x + 1)."""
    x = np.asarray(x, _F)
    with np.errstate(all="ignore"):
        size = np.where(x < 0, -x, x)
        is_large, is_middle = size > _TAN_THREE_EIGHTHS, size > _TAN_EIGHTH
        of_middle = np.where(is_middle, (size - _F(1)) / (size + _F(1)), size)
        r = np.where(is_large, _F(-1) / size, of_middle)
        start = np.where(is_large, _HALF_PI, np.where(is_middle, _QUARTER_PI, _F(0)))
        z = r * r
        y = start + (r + r * z * polynomial(_ATAN, z))
        return np.asarray(np.where(x < 0, -y, np.where(x == 0, x, y)))


@_in_parts
def sinh(x: Any) -> FloatArray:
    """A polynomial near zero, half the difference of two exponentials elsewhere."""
    x = np.asarray(x, _F)
    with np.errstate(all="ignore"):
        z = x * x
        small = x + x * z * polynomial(_SINH, z)
        size = np.where(x < 0, -x, x)
        root = exp(size * _F(0.5))
        large = _F(0.5) * root * root - _F(0.5) / root / root
        return np.where(size < _F(1), small, np.where(x < 0, -large, large))


@_in_parts
def cosh(x: Any) -> FloatArray:
    """Half the sum of two exponentials, by roots that do not overflow."""
    x = np.asarray(x, _F)
    with np.errstate(all="ignore"):
        root = exp(np.where(x < 0, -x, x) * _F(0.5))
        return np.asarray(_F(0.5) * root * root + _F(0.5) / root / root)


def fmod(a: Any, b: Any) -> FloatArray:
    """The remainder of a / b towards zero, with the sign of a; exact."""
    with np.errstate(all="ignore"):
        return np.asarray(np.fmod(np.asarray(a, _F), np.asarray(b, _F)))
