"""The layout of gathered inputs in scratch: planes of one channel.

Operators gather inputs for a target's kernels; both take the order from here.
"""

from __future__ import annotations

from typing import Any

from edgec.loop.define import Tensor
from edgec.loop.values import Value, index, maximum, minimum, select

#: int16 from one column of a plane to the next: literal in the assembly.
COLUMN = 32


def plane_element(x: Tensor, at: tuple[Any, ...], height: int, width: int, fill: int) -> Value:
    """x[at], or `fill` where `at`'s row or column lies outside of x; `at` is (n, h, w, c)."""
    n, h, w, c = at
    inside = (index(h) >= 0) & (index(h) < height) & (index(w) >= 0) & (index(w) < width)
    row, column = (maximum(0, minimum(i, e - 1)) for i, e in ((h, height), (w, width)))
    return select(inside, x[n, row, column, c], fill)
