"""Scales and zero points from ranges and weights.

A range [low, high] that holds 0 becomes scale = (high - low) / 255 and the zero point that makes 0
exact; weights are symmetric, one scale for each output channel (arXiv:1806.08342, 2.1 and 2.5).
"""

from __future__ import annotations

import numpy as np

from edgec.graph.types import Array, Quant

LEVELS = 256
#: The smallest scale: below it, products of scales leave float32's normal numbers.
LEAST_SCALE = 2.0**-40


def activation_quant(low: float, high: float) -> Quant:
    """Asymmetric int8 parameters of a range that holds 0."""
    if not low <= 0.0 <= high:
        raise ValueError(f"the range [{low}, {high}] does not hold 0")
    scale = max(float(np.float32((high - low) / (LEVELS - 1))), LEAST_SCALE)
    zero_point = int(np.clip(round(-128 - low / scale), -128, 127))
    return Quant((scale,), (zero_point,))


def quantize_weights(weights: Array, axis: int) -> tuple[Array, Quant]:
    """int8 weights in [-127, 127] with one scale for each index along `axis`.

    A channel of zeros has the scale of the largest channel: any would do.
    """
    others = tuple(a for a in range(weights.ndim) if a != axis)
    largest = np.abs(weights).max(axis=others).astype(np.float64)
    fallback = largest.max() or 1.0
    scales = (np.where(largest > 0, largest, fallback) / 127.0).astype(np.float32)
    scales = np.maximum(scales, np.float32(LEAST_SCALE))
    shape = [-1 if a == axis else 1 for a in range(weights.ndim)]
    stored = np.clip(np.rint(weights / scales.reshape(shape)), -127, 127).astype(np.int8)
    return stored, Quant(tuple(map(float, scales)), (0,) * len(scales), axis)


def quantize_bias(bias: Array, x_scale: float, weights: Quant) -> tuple[Array, Quant]:
    """int32 bias in the accumulators' own scale, x_scale * weight scale of each channel."""
    scales = np.float32(x_scale) * np.asarray(weights.scale, np.float32)
    stored = np.rint(bias.astype(np.float64) / scales.astype(np.float64))
    bounds = np.iinfo(np.int32)
    data = np.clip(stored, bounds.min, bounds.max).astype(np.int32)
    return data, Quant(tuple(map(float, scales)), (0,) * len(scales), 0)
