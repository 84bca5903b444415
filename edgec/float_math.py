"""Scalar float32 functions on NumPy arrays, with the same bits as `runtime_c/math/`.

The one place where they are defined in Python. Both sides use only operations that IEEE 754
rounds correctly (+ - * / and comparisons) and integer operations on the bits, in the same order.
A NaN stays a NaN, but its sign and payload are the machine's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[Any]


def float_minimum(a: Any, b: Any) -> FloatArray:
    """C's `a < b ? a : b`: b if they are equal (zeros of any sign) or either is a NaN."""
    return np.asarray(np.where(a < b, a, b))


def float_maximum(a: Any, b: Any) -> FloatArray:
    """C's `a > b ? a : b`: b if they are equal (zeros of any sign) or either is a NaN."""
    return np.asarray(np.where(a > b, a, b))
