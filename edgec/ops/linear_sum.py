"""A function of two int8 operands as one multiply-add each: (a * A + b * B + C) >> S, limited.

Quantized addition is linear up to its roundings, and two int8 operands have 65,536 values
together. So the integers are searched for and proven on all of them: exact, on every core, and
without the high products and roundings that the definition speaks of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from edgec.fixed_point import IntArray
from edgec.graph.types import Array

#: Every int8 value, in order.
OPERANDS: Array = np.arange(-128, 128, dtype=np.int8)

#: Most fraction bits that are tried: with more, int32 cannot hold the sum.
MOST_BITS = 24
#: Fewest fraction bits that are tried: with less, the factors are too coarse to be right.
FEWEST_BITS = 10
#: How far from the rounded real factors the integers are searched.
NEIGHBOURS = (0, 1, -1, 2, -2)

_INT32_MAX = (1 << 31) - 1
# Where the result is at a limit, the sum may be as far outside as it likes.
_ANYTHING = 1 << 40


@dataclass(frozen=True)
class LinearSum:
    """clamp((a * first + b * second + constant) >> shift, minimum, maximum), all in int32."""

    first: int
    second: int
    constant: int
    shift: int


def find_linear_sum(
    table: IntArray, factors: tuple[float, float], minimum: int, maximum: int
) -> LinearSum | None:
    """The integers that give table[a + 128, b + 128] for all int8 a and b; None if none are found.

    `table` [256, 256] holds results within minimum..maximum; `factors` are the real weights of
    the operands, near which the integers are searched.
    """
    wanted = table.astype(np.int64)
    operands = OPERANDS.astype(np.int64)
    free_below, free_above = wanted <= minimum, wanted >= maximum
    for bits in range(MOST_BITS, FEWEST_BITS - 1, -1):
        for first, second in _neighbours(factors, bits):
            # In the widest case the constant cancels the sum's offset: checked exactly below.
            if 128 * (abs(first) + abs(second)) > _INT32_MAX:
                continue
            total = operands[:, None] * first + operands[None, :] * second
            floor = np.where(free_below, -_ANYTHING, (wanted << bits) - total).max()
            ceiling = np.where(free_above, _ANYTHING, ((wanted + 1) << bits) - 1 - total).min()
            if floor > ceiling:
                continue
            constant = int(min(max(floor, -_ANYTHING), ceiling))
            largest = max(abs(int(total.min()) + constant), abs(int(total.max()) + constant))
            # Either product may be added first.
            largest = max(largest, 128 * max(abs(first), abs(second)) + abs(constant))
            if largest <= _INT32_MAX:
                return LinearSum(first, second, constant, bits)
    return None


def _neighbours(factors: tuple[float, float], bits: int) -> Iterator[tuple[int, int]]:
    first, second = (round(factor * (1 << bits)) for factor in factors)
    for step in NEIGHBOURS:
        for other in NEIGHBOURS:
            yield first + step, second + other
