"""A function of two int8 operands as one multiply-add each: (a * A + b * B + C) >> S, limited.

Quantized addition is linear up to its roundings, and two int8 operands have 65,536 values
together. So the integers are searched for and proven on all of them: exact, on every core, and
without the high products and roundings that the definition speaks of.

Where a core multiplies half-words by words and keeps the upper part, S is 16, which costs nothing,
and the factors have eight bits more: the proof includes the loss of each product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from edgec.numerics.fixed_point import IntArray

#: Every int8 value, in order.
OPERANDS: npt.NDArray[np.int8] = np.arange(-128, 128, dtype=np.int8)

#: Most fraction bits that are tried: with more, int32 cannot hold the sum.
MOST_BITS = 24
#: Fewest fraction bits that are tried: with less, the factors are too coarse to be right.
FEWEST_BITS = 10
#: How far from the rounded real factors the integers are searched.
NEIGHBOURS = (0, 1, -1, 2, -2)
#: Fraction bits of the factors of floored sums, and how far they are searched: most are found at
#: once, few need ten trials.
FLOORED_BITS = 24
#: The offset that makes int8 results unsigned.
UNSIGNED = 128
FLOORED_NEIGHBOURS = (*NEIGHBOURS, 3, -3, 4, -4)
#: One operand of this many is tried first: most trials fail on few pairs already.
FEW = 15

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


@dataclass(frozen=True)
class FlooredSum:
    """clamp((((a * first >> 8) + (b * second >> 8) + constant) >> 16) - 128, minimum, maximum).

    All three numbers, the two products after their shift and all sums fit in int32. Without the
    128, results of int8 have no sign, as instructions that limit two half-words want them.
    """

    first: int
    second: int
    constant: int


def find_linear_sum(
    table: IntArray, factors: tuple[float, float], minimum: int, maximum: int
) -> LinearSum | None:
    """The integers whose sum equals table[a + 128, b + 128] for all int8 a and b; None if none are
    found.

    `table` [256, 256] holds results within minimum..maximum; `factors` are the real weights of
    the operands, near which the integers are searched.
    """
    operands = OPERANDS.astype(np.int64)
    for bits in range(MOST_BITS, FEWEST_BITS - 1, -1):
        for first, second in _neighbours(factors, bits, NEIGHBOURS):
            # In the widest case the constant cancels the sum's offset: checked exactly later.
            if 128 * (abs(first) + abs(second)) > _INT32_MAX:
                continue
            products = operands * first, operands * second
            constant = _constant(table, products, bits, (minimum, maximum), _INT32_MAX)
            if constant is not None:
                return LinearSum(first, second, constant, bits)
    return None


def find_floored_sum(
    table: IntArray, factors: tuple[float, float], minimum: int, maximum: int
) -> FlooredSum | None:
    """The integers whose sum equals table[a + 128, b + 128] for all int8 a and b; None if none are
    found.

    Arguments as for `find_linear_sum`.
    """
    operands = OPERANDS.astype(np.int64)
    for first, second in _neighbours(factors, FLOORED_BITS, FLOORED_NEIGHBOURS):
        if max(abs(first), abs(second)) > _INT32_MAX:
            continue
        left, right = (operands * factor >> FLOORED_BITS - 16 for factor in (first, second))
        limits = minimum + UNSIGNED, maximum + UNSIGNED
        constant = _constant(table + UNSIGNED, (left, right), 16, limits, _INT32_MAX)
        if constant is not None:
            return FlooredSum(first, second, constant)
    return None


@cache
def find_same_floored(linear: LinearSum, minimum: int, maximum: int) -> FlooredSum | None:
    """The floored sum that equals a linear one for all operands, limited."""
    operands = OPERANDS.astype(np.int64)
    total = operands[:, None] * linear.first + operands[None, :] * linear.second
    table = np.clip((total + linear.constant) >> linear.shift, minimum, maximum)
    one = float(1 << linear.shift)
    return find_floored_sum(table, (linear.first / one, linear.second / one), minimum, maximum)


def _constant(
    table: IntArray,
    products: tuple[IntArray, IntArray],
    bits: int,
    limits: tuple[int, int],
    most: int,
) -> int | None:
    """The summand that makes the sums of all pairs, shifted right by `bits`, equal the table.

    products: [256] each. None if there is none, or if a sum's magnitude would exceed `most`.
    """
    first, second = products
    minimum, maximum = limits
    for step in (FEW, 1):
        wanted = table[::step, ::step].astype(np.int64)
        total = first[::step, None] + second[None, ::step]
        floor = np.where(wanted <= minimum, -_ANYTHING, (wanted << bits) - total).max()
        ceiling = np.where(wanted >= maximum, _ANYTHING, ((wanted + 1) << bits) - 1 - total).min()
        if floor > ceiling:
            return None
    constant = int(min(max(floor, -_ANYTHING), ceiling))
    largest = max(abs(int(total.min()) + constant), abs(int(total.max()) + constant))
    # Either product may be added first.
    part = max(int(np.abs(first).max()), int(np.abs(second).max()))
    return constant if max(largest, part + abs(constant)) <= most else None


def _neighbours(
    factors: tuple[float, float], bits: int, steps: Sequence[int]
) -> Iterator[tuple[int, int]]:
    first, second = (round(factor * (1 << bits)) for factor in factors)
    for step in steps:
        for other in steps:
            yield first + step, second + other
