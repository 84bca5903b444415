"""Logistic and tanh of int16 values by TFLite's table of 256 logistic values and interpolation.

Arguments have 12 fraction bits, results 15. Source: reference_integer_ops::Logistic and Tanh for
int16, as TFLite Micro's LSTM calls them. tanh(x) is taken as 2 * logistic(2 * x) - 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgec.fixed_point import IntArray
from edgec.graph.types import Array
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, int32, maximum, minimum, select

#: Fraction bits of an argument.
ARGUMENT_BITS = 12
#: The table has a value for every 1/24, from 0 to 10.6.
STEPS_PER_UNIT = 24


def sigmoid_table() -> Array:
    """uint16[256]: logistic(i / 24) with 16 fraction bits, raised by half of a chord's error.

    Between two entries interpolation takes the chord, which lies below the curve by up to
    step**2 / 8 * -logistic''. This formula gives TFLite's table: the tests ask for every value.
    """
    exact = 1 / (1 + np.exp(-np.arange(256) / STEPS_PER_UNIT))
    curvature = exact * (1 - exact) * (2 * exact - 1)
    raised = exact + curvature / STEPS_PER_UNIT**2 / 8 / 2
    table = np.rint(65536 * raised)
    table[-1] = 65535  # where results level off
    return table.astype(np.uint16)


_TABLE = sigmoid_table().astype(np.int64)


def logistic_int16(x: IntArray) -> IntArray:
    """Logistic of values with ARGUMENT_BITS fraction bits, with 15 fraction bits."""
    argument = x * 3
    low, high, part = _neighbours(np.abs(argument), 9)
    result = np.where(np.abs(argument) >> 9 >= 255, 0x7FFF << 10, (low << 9) + part * (high - low))
    half = 1 << 9
    return np.where(argument >= 0, result + half, (1 << 25) - result + half - 1) >> 10


def tanh_int16(x: IntArray, integer_bits: int) -> IntArray:
    """Tanh of int16 values with `integer_bits` integer bits, with 15 fraction bits."""
    factor, shift = tanh_factor(integer_bits)
    argument = (x * factor + ((1 << shift) >> 1)) >> shift
    low, high, part = _neighbours(np.abs(argument), 8)
    result = np.where(np.abs(argument) >> 8 >= 255, 0xFFFF << 8, (low << 8) + part * (high - low))
    half = 1 << 7
    return np.where(argument >= 0, result - (1 << 23) + half, (1 << 23) - result + half - 1) >> 8


def tanh_factor(integer_bits: int) -> tuple[int, int]:
    """(factor, right shift) that bring an argument to three times ARGUMENT_BITS fraction bits."""
    left = integer_bits - (15 - ARGUMENT_BITS)
    return (3 << left, 0) if left >= 0 else (3, -left)


def _neighbours(magnitude: IntArray, bits: int) -> tuple[IntArray, IntArray, IntArray]:
    """Table entries on both sides of a magnitude with `bits` bits between two, and those bits."""
    index = np.minimum(magnitude >> bits, 254)
    return _TABLE[index], _TABLE[index + 1], magnitude & ((1 << bits) - 1)


class SigmoidLoops:
    """The same functions in loops; one table for all of them."""

    def __init__(self, target: Lowering) -> None:
        self.table: Tensor = target.table("sigmoid", sigmoid_table())

    def logistic(self, x: Value) -> Value:
        """`logistic_int16` of an int32 value."""
        argument = x * 3
        result = self._interpolated(argument, 9, 0x7FFF << 10)
        half = 1 << 9
        flipped = ((1 << 25) + half - 1) - result
        return select(argument >= 0, result + half, flipped) >> 10

    def tanh(self, x: Value, integer_bits: int) -> Value:
        """`tanh_int16` of an int32 value."""
        factor, shift = tanh_factor(integer_bits)
        argument = x * factor
        if shift:
            argument = (argument + ((1 << shift) >> 1)) >> shift
        result = self._interpolated(argument, 8, 0xFFFF << 8)
        half = 1 << 7
        flipped = ((1 << 23) + half - 1) - result
        return select(argument >= 0, result + (half - (1 << 23)), flipped) >> 8

    def _interpolated(self, argument: Value, bits: int, limit: int) -> Value:
        magnitude: Any = maximum(argument, -argument)
        whole = magnitude >> bits
        index: Any = minimum(whole, 254)
        low, high = int32(self.table[index]), int32(self.table[index + 1])
        part = magnitude & ((1 << bits) - 1)
        return select(whole >= 255, limit, (low << bits) + part * (high - low))
