"""The meaning of scalar functions of audio front ends (`runtime_c/include/edgec/ec_signal.h`)."""

from __future__ import annotations

import math


def bit_length(x: int) -> int:
    """Number of bits up to the highest that is set; 0 for 0."""
    return x.bit_length()


def rounded_sqrt(x: int) -> int:
    """The square root rounded to the nearest integer, at most 2**16 - 1 for 32-bit arguments.

    Source: TFLite Micro's Sqrt32 and Sqrt64.
    """
    root = math.isqrt(x)
    largest = 0xFFFF if x < 1 << 32 else 0xFFFFFFFF
    return root + (x - root * root > root and root != largest)
