"""Scales of ONNX Runtime as integers: one shift turns a sum into int8, without floats.

A product with M is shifted, after half a step and the zero point are added. ONNX Runtime rounds a
sum times a float32 twice: to float32, and half to even. Neither changes the order of results. So M
gives the same int8 for every sum if it does for the first sum of each result and for the sum before
it. Each such two allow an interval of M.
"""

from __future__ import annotations

import numpy as np

from edgec.loop.values import Array


def fixed_scales(scale: Array, zero_point: int, places: int) -> Array:
    """M for each float32, about 2**places times it; 0 where none gives the same int8 for every sum.

    Scales are tried whose 24 bits M holds, and whose M fits in int32.
    """
    smallest = np.float32(2.0 ** (23 - places))
    is_inside = (scale >= smallest) & (scale < 2.0 ** (31 - places))
    tried = np.where(is_inside, scale, smallest)
    steps = np.arange(-127, 128)[:, None] - zero_point
    first = _first_sums(tried, steps)
    bound = (2 * steps - 1) << (places - 1)  # first * M reaches it, (first - 1) * M does not
    least, most = _interval(first, bound)
    nearest = np.ldexp(tried.astype(np.float64), places).astype(np.int64)
    factor = np.clip(nearest, least, most)
    is_exact = is_inside & (least <= most) & (scales_of(factor, places) == tried)
    return np.where(is_exact, factor, 0)


def scales_of(factor: Array, places: int) -> Array:
    """The scales that have these M."""
    return np.ldexp(factor.astype(np.float64), -places).astype(np.float32)


def _first_sums(scale: Array, steps: Array) -> Array:
    """[steps, channels]: the first sum whose result, without the zero point, is each step."""
    first = np.floor((steps - 0.5) / scale.astype(np.float64)).astype(np.int64) - 1
    for _ in range(3):
        first += np.rint(first.astype(np.float32) * scale) < steps
    return first


def _interval(first: Array, bound: Array) -> tuple[Array, Array]:
    """The least and the largest M of each channel with first * M >= bound > (first - 1) * M."""
    last, below = first - 1, bound - 1
    least = np.maximum(
        np.where(first > 0, -(-bound // np.maximum(first, 1)), 0),
        np.where(last < 0, -(-below // np.minimum(last, -1)), 0),
    )
    most = np.minimum(
        np.where(first < 0, bound // np.minimum(first, -1), 1 << 31),
        np.where(last > 0, below // np.maximum(last, 1), 1 << 31),
    )
    return least.max(axis=0), np.minimum(most.min(axis=0), (1 << 31) - 1)
