"""Logistic and tanh of int16 values by TFLite's table of 256 logistic values and interpolation.

Arguments have 12 fraction bits, results 15. Source: reference_integer_ops::Logistic and Tanh for
int16, as TFLite Micro's LSTM calls them. tanh(x) is taken as 2 * logistic(2 * x) - 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgec.graph.types import Array
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, int32, maximum, minimum, select
from edgec.numerics.fixed_point import IntArray

#: Fraction bits of an argument.
ARGUMENT_BITS = 12
#: The table has a value for every 1/24, from 0 to 10.6.
STEPS_PER_UNIT = 24


def sigmoid_table() -> Array:
    """uint16[256]: logistic(i / 24) with 16 fraction bits, raised by half of a chord's error.

    Between two entries interpolation takes the chord, which lies below the curve by up to step**2 /
    8 * -logistic''. This formula equals TFLite's table; a test compares every value.
    """
    exact = 1 / (1 + np.exp(-np.arange(256) / STEPS_PER_UNIT))
    curvature = exact * (1 - exact) * (2 * exact - 1)
    raised = exact + curvature / STEPS_PER_UNIT**2 / 8 / 2
    table = np.rint(65536 * raised)
    table[-1] = 65535  # where results level off
    return table.astype(np.uint16)


_TABLE = sigmoid_table().astype(np.int64)


#: (factor, right shift) that bring values to three times ARGUMENT_BITS fraction bits.
Factor = tuple[int, int]


def scale_factor(scale: float) -> Factor:
    """The factor of an int16 operator's input. ValueError for a scale that it cannot have.

    Source: CalculateArithmeticOpDataLogistic and CalculateArithmeticOpDataTanh of TFLite Micro.
    """
    multiplier, shift = scale * (1 << ARGUMENT_BITS) * 3, 0
    while multiplier <= 32767.0 / 2 and shift <= 30:
        multiplier *= 2
        shift += 1
    if not 1 <= multiplier < 32768:
        raise ValueError(f"an input scale of {scale} is out of range")
    return int(multiplier), shift


def _argument(x: IntArray, factor: Factor) -> IntArray:
    multiplier, shift = factor
    return (x * multiplier + ((1 << shift) >> 1)) >> shift


def logistic_int16(x: IntArray, factor: Factor = (3, 0)) -> IntArray:
    """Logistic of int16 values times the factor, with 15 fraction bits."""
    argument = _argument(x, factor)
    low, high, part = _neighbours(np.abs(argument), 9)
    result = np.where(np.abs(argument) >> 9 >= 255, 0x7FFF << 10, (low << 9) + part * (high - low))
    half = 1 << 9
    return np.where(argument >= 0, result + half, (1 << 25) - result + half - 1) >> 10


def tanh_int16(x: IntArray, factor: Factor = (3, 0)) -> IntArray:
    """Tanh of int16 values times the factor, with 15 fraction bits."""
    argument = _argument(x, factor)
    low, high, part = _neighbours(np.abs(argument), 8)
    result = np.where(np.abs(argument) >> 8 >= 255, 0xFFFF << 8, (low << 8) + part * (high - low))
    half = 1 << 7
    return np.where(argument >= 0, result - (1 << 23) + half, (1 << 23) - result + half - 1) >> 8


def tanh_factor(integer_bits: int) -> Factor:
    """The factor of values with `integer_bits` integer bits."""
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

    def logistic(self, x: Value, factor: Factor = (3, 0)) -> Value:
        """`logistic_int16` of an int32 value."""
        argument = self._scaled(x, factor)
        result = self._interpolated(argument, 9, 0x7FFF << 10)
        half = 1 << 9
        flipped = ((1 << 25) + half - 1) - result
        return select(argument >= 0, result + half, flipped) >> 10

    def tanh(self, x: Value, factor: Factor = (3, 0)) -> Value:
        """`tanh_int16` of an int32 value."""
        argument = self._scaled(x, factor)
        result = self._interpolated(argument, 8, 0xFFFF << 8)
        half = 1 << 7
        flipped = ((1 << 23) + half - 1) - result
        return select(argument >= 0, result + (half - (1 << 23)), flipped) >> 8

    def _scaled(self, x: Value, factor: Factor) -> Value:
        multiplier, shift = factor
        product = x * multiplier
        return (product + ((1 << shift) >> 1)) >> shift if shift else product

    def _interpolated(self, argument: Value, bits: int, limit: int) -> Value:
        magnitude: Any = maximum(argument, -argument)
        whole = magnitude >> bits
        index: Any = minimum(whole, 254)
        low, high = int32(self.table[index]), int32(self.table[index + 1])
        part = magnitude & ((1 << bits) - 1)
        return select(whole >= 255, limit, (low << bits) + part * (high - low))
