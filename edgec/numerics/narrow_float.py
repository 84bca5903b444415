"""Floats of 16 bits and fewer, as bits in unsigned integers, and their conversion to float32.

A format has a sign (except for pure powers of two), an exponent and a mantissa, with denormals, as
in IEEE 754; infinity and NaN differ. `widened` and `narrowed` have the same bits as `ec_widen_f32`
and `ec_narrow_f32` of `runtime_c/math/ec_float.h`. Source of the formats: ONNX, "Float stored in 8
bits"; OCP, "Microscaling Formats (MX)", 1.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes  # noqa: F401  # NumPy knows the formats by name then
import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[Any]

#: Bit patterns above the largest finite number: infinity and NaNs as in IEEE 754; one NaN in place
#: of the largest; only minus zero is a NaN; none.
IEEE, FINITE, UNSIGNED_ZERO, NO_NAN = 0, 1, 2, 3


@dataclass(frozen=True)
class NarrowFloat:
    """width, mantissa: bits, the sign among the width. bias: of the exponent. kind: see above."""

    width: int
    mantissa: int
    bias: int
    kind: int

    @property
    def end(self) -> int:
        """The least magnitude, as bits, that is not a finite number."""
        top = 1 << (self.width - 1)
        return {IEEE: top - (1 << self.mantissa), FINITE: top - 1}.get(self.kind, top)

    @property
    def arguments(self) -> tuple[int, int, int, int]:
        """width, mantissa, bias and kind, as both functions take them."""
        return self.width, self.mantissa, self.bias, self.kind


FORMATS = {
    "float16": NarrowFloat(16, 10, 15, IEEE),
    "bfloat16": NarrowFloat(16, 7, 127, IEEE),
    "float8_e4m3fn": NarrowFloat(8, 3, 7, FINITE),
    "float8_e4m3fnuz": NarrowFloat(8, 3, 8, UNSIGNED_ZERO),
    "float8_e5m2": NarrowFloat(8, 2, 15, IEEE),
    "float8_e5m2fnuz": NarrowFloat(8, 2, 16, UNSIGNED_ZERO),
    "float4_e2m1fn": NarrowFloat(4, 1, 1, NO_NAN),
}

#: C types that store elements of types that C lacks, one element in each.
STORED_IN = {
    **{name: f"uint{max(form.width, 8)}" for name, form in FORMATS.items()},
    **dict.fromkeys(("float8_e8m0fnu", "int4", "uint4", "int2", "uint2"), "uint8"),
}


def stored_in(dtype: str) -> str:
    """The C type of a dtype's elements."""
    return STORED_IN.get(dtype, dtype)


def _end(width: Any, mantissa: Any, kind: Any) -> Any:
    top = 1 << (width - 1)
    return np.where(kind == IEEE, top - (1 << mantissa), np.where(kind == FINITE, top - 1, top))


def widened(bits: Any, width: Any, mantissa: Any, bias: Any, kind: Any) -> FloatArray:
    """The float32 of the bits of a narrow float, which it always is exactly."""
    bits, width, mantissa = (np.asarray(a, np.int64) for a in (bits, width, mantissa))
    sign, size = bits >> (width - 1) & 1, bits & ((1 << (width - 1)) - 1)
    end = _end(width, mantissa, kind)
    with np.errstate(all="ignore"):
        low = (size << (23 - mantissa)).astype(np.uint32).view(np.float32)
        y = low * ((127 + 127 - np.asarray(bias, np.int64)) << 23).astype(np.uint32).view(
            np.float32
        )
    y = np.where((size == end) & (np.asarray(kind) == IEEE), np.float32(np.inf), y)
    is_nan = (size > end) | ((size == end) & (np.asarray(kind) != IEEE))
    is_nan |= (np.asarray(kind) == UNSIGNED_ZERO) & (sign == 1) & (size == 0)
    y = np.where(is_nan, np.float32(np.nan), y)
    return np.asarray(np.where(sign == 1, -y, y), np.float32)


def narrowed(
    x: Any, width: Any, mantissa: Any, bias: Any, kind: Any, saturate: Any
) -> npt.NDArray[Any]:
    """The bits of the nearest narrow float, ties to even, as uint32.

    saturate: too large numbers and infinity become the largest number; else infinity or a NaN.
    """
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.int64)
    width, mantissa, bias, kind = (np.asarray(a, np.int64) for a in (width, mantissa, bias, kind))
    size, exponent = bits & 0x7FFFFFFF, np.maximum(bits >> 23 & 0xFF, 1)
    digits = np.where(size >= 1 << 23, size & 0x7FFFFF | 1 << 23, size)
    place = exponent - 127 + bias
    shift = np.minimum(23 - mantissa + np.maximum(1 - place, 0), 25)
    half = (digits & ((1 << shift) - 1)) - (1 << (shift - 1))
    kept = digits >> shift
    kept += (half > 0) | ((half == 0) & (kept & 1 == 1))
    found = ((np.maximum(place, 1) - 1) << mantissa) + kept
    end, top = _end(width, mantissa, kind), 1 << (width - 1)
    beyond = np.where(np.asarray(saturate) != 0, end - 1, np.where(kind == NO_NAN, end - 1, end))
    found = np.where(found >= end, beyond, found)
    sign = bits >> 31 << (width - 1)
    is_unsigned = kind == UNSIGNED_ZERO
    found = np.where(found >= top, top, np.where(is_unsigned & (found == 0), 0, found + sign))
    nan = np.where(kind == IEEE, end | 1 << np.maximum(mantissa - 1, 0),
                   np.where(kind == NO_NAN, top, end))  # fmt: skip
    return np.asarray(np.where(size > 0x7F800000, nan, found)).astype(np.uint32)
