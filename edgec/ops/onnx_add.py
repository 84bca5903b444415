"""ONNX Runtime's QLinearAdd on x86, in every bit, and as integers for machines without an FPU.

With ratios ra = a / y and rb = b / y of the scales (float32), stored a, b and zero points z:

    k = z_y - fma(ra, z_a, rb * z_b)         t = fma(a, ra, fma(b, rb, k))         y = rint(t)

in float32 with fused multiply-adds. The order of the operands matters in the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from edgec.fixed_point import IntArray
from edgec.graph.types import Quant
from edgec.loop.values import Value, cast, float64, intrinsic

#: Shifts to try, widest first: more bits represent the ratios better.
SHIFTS = range(22, 13, -1)
#: Corrections to the rounding constant to try.
NUDGES = (0, -1, 1, -2, 2, -4, 4, -8, 8, -16, 16)


def _fma(a: Any, b: Any, c: Any) -> Any:
    """float32(a * b + c): the product of two float32 is exact in float64, the sum nearly so."""
    return (np.asarray(a, np.float64) * np.asarray(b, np.float64) + c).astype(np.float32)


def _ratios(a: Quant, b: Quant, output: Quant) -> tuple[Any, Any, Any]:
    """(ra, rb, k) in float32."""
    ra = np.float32(a.scale[0]) / np.float32(output.scale[0])
    rb = np.float32(b.scale[0]) / np.float32(output.scale[0])
    offset = _fma(ra, np.float32(a.zero_point[0]), rb * np.float32(b.zero_point[0]))
    return ra, rb, np.float32(output.zero_point[0]) - offset


def onnx_add(left: Any, right: Any, a: Quant, b: Quant, output: Quant) -> IntArray:
    """Stored sums before the clamp, from stored int8 operands of equal shape."""
    ra, rb, k = _ratios(a, b, output)
    inner = _fma(right.astype(np.float32), rb, k)
    total: IntArray = np.rint(_fma(left.astype(np.float32), ra, inner)).astype(np.int64)
    return total


@lru_cache(maxsize=64)
def integer_form(a: Quant, b: Quant, output: Quant) -> tuple[int, int, int, int] | None:
    """(ma, mb, c, shift) with (a * ma + b * mb + c) >> shift equal to the sum for all 65,536
    pairs after the clamp to int8, in int32; None if no such numbers were found."""
    left, right = np.meshgrid(np.arange(-128, 128), np.arange(-128, 128))
    expected = np.clip(onnx_add(left, right, a, b, output), -128, 127)
    ra, rb, k = (float(v) for v in _ratios(a, b, output))
    for shift in SHIFTS:
        ma, mb = round(ra * 2**shift), round(rb * 2**shift)
        if (abs(ma) + abs(mb)) * 128 + (abs(k) + 2) * 2**shift >= 2**31:
            continue
        for nudge in NUDGES:
            c = round(k * 2**shift) + (1 << (shift - 1)) + nudge
            found = np.clip((left * ma + right * mb + c) >> shift, -128, 127)
            if np.array_equal(found, expected):
                return ma, mb, c, shift
    return None


def onnx_sum(a: Quant, b: Quant, output: Quant) -> Callable[[Value, Value], Value]:
    """The same as an expression of two stored int32 values, in integers where they are exact."""
    form = integer_form(a, b, output)
    if form is not None:
        ma, mb, c, shift = form
        return lambda left, right: (left * ma + right * mb + c) >> shift
    ra, rb, k = (float(v) for v in _ratios(a, b, output))

    def fused(left: Value, right: Value) -> Value:
        inner = cast(float64(right) * rb + k, "float32")
        total = cast(float64(left) * ra + float64(inner), "float32")
        return intrinsic("round_half_even_f32", total)

    return fused
