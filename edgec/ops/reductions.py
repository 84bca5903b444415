"""Reductions as a table: one row each. `edgec.ops.reduce` makes loops and importers of them.

Integers without quantization wrap, and a quotient of them is truncated. Floats are taken in
row-major order, one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.loop.dtype import bits, integer_range, is_float
from edgec.loop.values import Value, intrinsic, maximum, minimum, select
from edgec.numerics.fixed_point import quantize_multiplier, short_multiplier
from edgec.numerics.narrow_float import FORMATS
from edgec.ops.row import FLOAT, FLOATS, INTEGERS

#: The integers whose sums the formats define.
WIDE = ("int32", "int64", "uint32", "uint64")
#: (multiplier, shift) of an integer sum, by input scale, output scale and the count of elements.
Multiplier = Callable[[float, float, int], tuple[int, int]]


@dataclass(frozen=True)
class Reduction:
    """One reduction: how elements are combined.

    combine: the accumulator and an element. first: the accumulator's initial value, None for the
    first element. take: a function of each element before `combine`. finish: the result of the
    accumulator and the count of elements. shifted: `take` and `finish` are given the largest
    element as well, 0 in place of an infinite one. dtypes: without quantization. multiplier: int8
    and int16 with quantization are summed in int32, and this rescales the sum. steps: it rescales
    the accumulator after each element instead, and the result, as `tflm16` does. chooses: the
    result is an element, so it has the quantization of the elements. of_nothing: the result for no
    elements, by dtype; None if the loops define it. onnx, tflite: the formats' names.
    """

    name: str
    meaning: str
    combine: Callable[[Any, Any], Any]
    first: int | None = 0
    take: Callable[..., Value] = lambda x: x
    finish: Callable[..., Value] = lambda total, count: total
    dtypes: tuple[str, ...] = FLOAT
    onnx: str = ""
    tflite: str = ""
    shifted: bool = False
    multiplier: Multiplier | None = None
    steps: bool = False
    chooses: bool = False
    of_nothing: Callable[[str], float] | None = None

    def neutral(self, dtype: str) -> float:
        """An element that changes no result."""
        return self.of_nothing(dtype) if self.of_nothing is not None else self.first or 0


def mean_multiplier(ratio: float, count: int) -> tuple[int, int]:
    """(multiplier, shift) of sum * ratio / count, ratio = input scale / output scale.

    Source: QuantizedMeanOrSum in TFLite's reduce.h. The multiplier's quotient is truncated, so
    it may have fewer than 31 bits.
    """
    multiplier, shift = quantize_multiplier(ratio)
    lift = min(count.bit_length() - 1, 32, 31 + shift)
    return (multiplier << lift) // count, shift - lift


def product_multiplier(given: float, made: float, count: int) -> tuple[int, int]:
    """(multiplier, shift) of each product of `count` elements, and of the whole.

    Source: GetQuantProdScaling in TFLite's reduce.cc.
    """
    return short_multiplier(given / made ** (1 / count))


def finite(x: Value) -> Value:
    """0 in place of an infinite x or a NaN."""
    most = float(np.finfo(x.dtype).max)
    return select((x <= most) & (x >= -most), x, 0.0)


def _sum(total: Value, x: Value) -> Value:
    return total + x


def _rounded_sum(total: Value, x: Value) -> Value:
    arguments = FORMATS["bfloat16"].arguments
    return intrinsic("widen_f32", intrinsic("narrow_f32", total + x, *arguments, 0), *arguments)


def _mean(total: Value, count: int) -> Value:
    return total / (float(count) if is_float(total.dtype) else count)


def _magnitude(x: Value) -> Value:
    size: Value = x if x.dtype.startswith("u") else maximum(x, -x)
    return size


def _log(total: Value, count: int) -> Value:
    return intrinsic(f"log_f{bits(total.dtype)}", total)


def _least(dtype: str) -> float:
    return -math.inf if is_float(dtype) else integer_range(dtype)[0]


def _most(dtype: str) -> float:
    return math.inf if is_float(dtype) else integer_range(dtype)[1]


ROWS = (
    Reduction("mean", "the mean", _sum, finish=_mean, dtypes=(*FLOATS, *WIDE),
              onnx="ReduceMean", tflite="MEAN",
              multiplier=lambda given, made, count: mean_multiplier(given / made, count)),
    Reduction("sum", "the sum", _sum, dtypes=(*FLOATS, *WIDE), onnx="ReduceSum", tflite="SUM",
              multiplier=lambda given, made, count: quantize_multiplier(given / made)),
    Reduction("sum_bfloat16", "the sum, each step of it rounded to bfloat16", _rounded_sum),
    Reduction("max", "the largest", maximum, None, dtypes=(*FLOATS, *INTEGERS),
              onnx="ReduceMax", tflite="REDUCE_MAX", chooses=True, of_nothing=_least),
    Reduction("min", "the smallest", minimum, None, dtypes=(*FLOATS, *INTEGERS),
              onnx="ReduceMin", tflite="REDUCE_MIN", chooses=True, of_nothing=_most),
    Reduction("prod", "the product", lambda total, x: total * x, 1, dtypes=(*FLOATS, *INTEGERS),
              onnx="ReduceProd", tflite="REDUCE_PROD", multiplier=product_multiplier,
              steps=True),
    Reduction("l1", "the sum of magnitudes", _sum, take=_magnitude, dtypes=(*FLOATS, *WIDE),
              onnx="ReduceL1"),
    Reduction("l2", "the root of the sum of squares", _sum, take=lambda x: x * x,
              finish=lambda total, count: intrinsic("sqrt_f32", total), onnx="ReduceL2"),
    Reduction("sum_square", "the sum of squares", _sum, take=lambda x: x * x,
              dtypes=(*FLOATS, *WIDE), onnx="ReduceSumSquare"),
    Reduction("log_sum", "the logarithm of the sum", _sum, finish=_log, dtypes=FLOATS,
              onnx="ReduceLogSum"),
    Reduction("log_sum_exp", "the logarithm of the sum of e**x", _sum, shifted=True,
              take=lambda x, most: intrinsic(f"exp_f{bits(x.dtype)}", x - most),
              dtypes=FLOATS,
              finish=lambda total, count, most: _log(total, count) + most,
              onnx="ReduceLogSumExp", of_nothing=_least),
    Reduction("any", "whether one is true", lambda total, x: total | x, dtypes=("bool",),
              onnx="ReduceMax", tflite="REDUCE_ANY"),
    Reduction("all", "whether all are true", lambda total, x: total & x, 1, dtypes=("bool",),
              onnx="ReduceMin", tflite="REDUCE_ALL"),
)  # fmt: skip

BY_NAME = {row.name: row for row in ROWS}
#: TFLite's reductions of numbers, on bools.
_OF_BOOLS = {"REDUCE_MAX": "any", "REDUCE_MIN": "all", "REDUCE_PROD": "all"}


def rows_of(kind: str) -> tuple[Reduction, ...]:
    """The rows that a format knows by this name; they differ in their dtypes."""
    found = tuple(row for row in ROWS if kind in (row.onnx, row.tflite))
    return (*found, BY_NAME[_OF_BOOLS[kind]]) if kind in _OF_BOOLS else found
