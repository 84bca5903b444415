"""log_softmax of int8 in the fixed point of TFLite: x - largest - log(sum(exp(x - largest))).

The 256 differences that there can be have tables, of their real numbers and of their exponentials;
the logarithm is computed once for each row. Sources: LogSoftmax of TFLite's
reference/integer_ops/log_softmax.h, log_x_for_x_greater_than_or_equal_to_1 of reference_ops.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.types import Quant, TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, cast, clamp, int32, intrinsic, maximum, minimum, select
from edgec.numerics.fixed_point import (
    IntArray,
    exp_on_negative_values,
    quantize_multiplier,
    requantize_tflm,
    rounding_divide_by_power_of_two,
)
from edgec.ops.integer_root import high_product

#: Integer bits of differences, of sums and of results in 32 bits.
DIFFERENCE_BITS, SUM_BITS, RESULT_BITS = 5, 12, 4
#: Integer bits of the logarithm's parts: one more than the logarithm has.
PART_BITS = DIFFERENCE_BITS + 1
#: The one quantization that results have.
RESULT = Quant((16 / 256,), (127,))
#: Sums of more elements may not fit.
MOST_ELEMENTS = (1 << SUM_BITS) - 1
_LARGEST = 2**31 - 1


def result_type(x: TensorType) -> TensorType:
    """The type of the result. Raises TypeMismatch for unsupported types."""
    if x.quant is None or not x.quant.per_tensor or x.shape[-1] > MOST_ELEMENTS:
        raise TypeMismatch(f"log_softmax of {x}: at most {MOST_ELEMENTS} elements of one scale")
    return TensorType(x.shape, "int8", RESULT)


def _tables(scale: float) -> tuple[int, IntArray, IntArray, tuple[int, int]]:
    """(the least difference that counts, differences, exponentials, factor back to steps of x)."""
    real = min(scale * (1 << (31 - DIFFERENCE_BITS)), 2.0**31 - 1)
    multiplier, shift = quantize_multiplier(real, 31)
    radius = math.floor(((1 << DIFFERENCE_BITS) - 1) * 2.0 ** (31 - DIFFERENCE_BITS) / 2.0**shift)
    steps = -np.arange(256, dtype=np.int64)
    counted = steps >= -radius
    given = np.where(counted, steps, 0)
    differences = requantize_tflm(given, np.asarray(multiplier), np.asarray(shift))
    exps = exp_on_negative_values(differences, DIFFERENCE_BITS)
    terms = np.where(counted, rounding_divide_by_power_of_two(exps, SUM_BITS), 0)
    return -radius, differences, terms, quantize_multiplier(2.0 ** (31 - shift) / multiplier)


def lower_int8(target: Lowering, x: Tensor, scale: float) -> Tensor:
    """One logarithm for each row, two reads of tables for each element."""
    *outer, length = x.shape
    rows, define = tuple(outer), target.definition
    least, differences, terms, back = _tables(scale)
    real = target.table("difference", differences.astype(np.int32))
    exps = target.table("exp", terms.astype(np.int32))
    largest = define.reduce(
        "largest", [("k", 0, length)], init=lambda *row: -128,
        update=lambda acc, *at: maximum(acc, int32(x[at])), shape=rows, dtype="int32",
    )  # fmt: skip
    total = define.reduce(
        "total", [("k", 0, length)], init=lambda *row: 0,
        update=lambda acc, *at: acc + exps[largest[at[:-1]] - int32(x[at])],
        shape=rows, dtype="int32",
    )  # fmt: skip
    logarithm = define.compute(
        "logarithm", lambda *row: logarithm_of_sum(total[row]), shape=rows, dtype="int32"
    )

    def limit(*row: Any) -> Value:
        found = intrinsic("requantize_tflm", logarithm[row] ^ -(1 << 31), *back)
        limited: Value = maximum(found, least - 1)
        return limited

    limits = define.compute("limit", limit, shape=rows, dtype="int32")

    def element(*at: Any) -> Value:
        row = at[:-1]
        below = largest[row] - int32(x[at])
        bits = 31 - DIFFERENCE_BITS - RESULT_BITS
        scaled = intrinsic("rounding_divide_by_power_of_two", real[below] - logarithm[row], bits)
        stored = clamp(scaled + RESULT.zero_point[0], -128, 127)
        return cast(select(0 - below > limits[row], stored, -128), "int8")

    return target.compute("element", x.shape, "int8", element)


def logarithm_of_sum(total: Value) -> Value:
    """log(total) with 5 integer bits; total has 12 integer bits and is at least one.

    Add the logarithms of a power of two and of the rest, by a rational function; of two ways to
    divide, the one with the smaller rest is taken.
    """
    half_root, quarter_root, log_2 = 1518500250, 1805811301, 1488522236
    headroom = intrinsic("count_leading_zeros", total)
    first = high_product(total << (headroom - 1), half_root)
    first = select(first >= 1 << 30, _LARGEST, minimum(first, (1 << 30) - 1) * 2)
    lower = intrinsic("count_leading_zeros", high_product(total, half_root)) - 1
    fits = total <= (int32(total) * 0 + _LARGEST) >> lower
    second = select(fits, total << lower, _LARGEST)
    unit, quarter = 1 << (31 - PART_BITS), 1 << (31 - PART_BITS - 2)
    power = maximum((SUM_BITS - headroom) * unit + quarter, (SUM_BITS - lower) * unit - quarter)
    rest = minimum(first, second)
    return (high_product(power, log_2) + _quotient(rest, quarter_root)) * 2


def _quotient(rest: Value, middle: int) -> Value:
    """The logarithm of a number between 1/2 and 1 from the middle, with 6 integer bits."""
    mean = (rest >> 1) + (middle >> 1) + 1  # rounded up: one of the two is odd
    q = (rest - middle) * 2
    square = high_product(q, q)
    above = high_product(q, rest) + high_product(high_product(q, square), 117049297)
    inner = high_product(square, 127690142) + q + 1057819769
    below = high_product(mean, inner) + high_product(q, 638450708)
    scaled = intrinsic("rounding_divide_by_power_of_two", above, PART_BITS)
    return high_product(scaled, intrinsic("one_over_one_plus_x", below))
