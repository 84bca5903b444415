"""ONNX Runtime's QLinearAdd on x86, in every bit.

With ratios ra = a / y and rb = b / y of the scales (float32), stored a, b and zero points z:

    k = z_y - fma(ra, z_a, rb * z_b)         t = fma(a, ra, fma(b, rb, k))         y = rint(t)

in float32 with fused multiply-adds. The order of the operands matters in the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from edgec.graph.types import Quant
from edgec.loop.values import Value, cast, float32, float64, intrinsic, round_half_even
from edgec.numerics.fixed_point import IntArray


def _fma(a: Any, b: Any, c: Any) -> Any:
    """float32(a * b + c): the product of two float32 is exact in float64, the sum nearly so."""
    return (np.asarray(a, np.float64) * np.asarray(b, np.float64) + c).astype(np.float32)


def _ratios(a: Quant, b: Quant, output: Quant) -> tuple[Any, Any, Any]:
    """(ra, rb, k) in float32."""
    ra = np.float32(a.scale[0]) / np.float32(output.scale[0])
    rb = np.float32(b.scale[0]) / np.float32(output.scale[0])
    offset = _fma(ra, np.float32(a.zero_point[0]), rb * np.float32(b.zero_point[0]))
    return ra, rb, np.float32(output.zero_point[0]) - offset


def _is_exact(ra: float, rb: float, k: float) -> bool:
    """Whether float64 holds the sums before they are rounded to float32, of all int8 operands."""
    operands = np.arange(-128, 128).astype(np.float64)
    inner = _fma(operands, rb, k).astype(np.float64)
    return _adds_exactly(operands * rb, np.float64(k)) and _adds_exactly(
        operands[:, None] * ra, inner[None, :]
    )


def _adds_exactly(a: Any, b: Any) -> bool:
    """Whether no sum is rounded: Knuth's two-sum has no error term."""
    total = a + b
    other = total - a
    lost = (a - (total - other)) + (b - other)
    return bool(np.all(lost == 0))


def onnx_add(left: Any, right: Any, a: Quant, b: Quant, output: Quant) -> IntArray:
    """Stored sums before the clamp, from stored int8 operands of equal shape."""
    ra, rb, k = _ratios(a, b, output)
    inner = _fma(right.astype(np.float32), rb, k)
    total: IntArray = np.rint(_fma(left.astype(np.float32), ra, inner)).astype(np.int64)
    return total


def onnx_sum(a: Quant, b: Quant, output: Quant) -> Callable[[Value, Value], Value]:
    """The sum as an expression of two stored int32 values, in float32 and float64.

    If no sum of any operands is rounded in float64, the expression equals a fused multiply-add in
    every bit, and cores have an instruction for it.
    """
    ra, rb, k = (float(v) for v in _ratios(a, b, output))
    most = 129.0 * (ra + rb) + abs(k)  # rounding adds less than one of them
    if _is_exact(ra, rb, k):
        return lambda left, right: round_half_even(
            intrinsic("fma_f32", float32(left), ra, intrinsic("fma_f32", float32(right), rb, k)),
            most,
        )

    def fused(left: Value, right: Value) -> Value:
        inner = cast(float64(right) * rb + k, "float32")
        total = cast(float64(left) * ra + float64(inner), "float32")
        return round_half_even(total, most)

    return fused
