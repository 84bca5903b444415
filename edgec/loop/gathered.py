"""How gathered inputs lie in scratch: planes of one channel, and pairs of bytes.

Operators gather what a target's kernels read; both take the order from here.
"""

from __future__ import annotations

from typing import Any

from edgec.loop.define import Tensor
from edgec.loop.values import Value, index, int16, int32, maximum, minimum, select

#: int16 from one column of a plane to the next: literal in the assembly.
COLUMN = 32
#: What is added to the inputs of even numbers, so that they have no sign.
OFFSET = 128


def plane_element(x: Tensor, at: tuple[Any, ...], height: int, width: int, fill: int) -> Value:
    """x[at], or `fill` where `at`'s row or column lies outside of x; `at` is (n, h, w, c)."""
    n, h, w, c = at
    inside = (index(h) >= 0) & (index(h) < height) & (index(w) >= 0) & (index(w) < width)
    row, column = (maximum(0, minimum(i, e - 1)) for i, e in ((h, height), (w, width)))
    return select(inside, x[n, row, column, c], fill)


def offset_pair(even: Value, odd: Value) -> Value:
    """Two int8 inputs as they lie in memory, one int16, but for the offset of the first."""
    return int16(int32(odd) * 256 + (int32(even) + OFFSET))


def input_of(pair: Value, s: Any) -> Value:
    """The first (s = 0) or the second (s = 1) of two inputs, as int32."""
    both = int32(pair)
    return select(index(s) < 1, (both & 255) - OFFSET, both >> 8)
