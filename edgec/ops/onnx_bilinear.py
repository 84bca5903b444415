"""Bilinear interpolation of int8 as ONNX Runtime does it on x86: in float32, between QDQ nodes.

It dequantizes, weighs four neighbours by products of two weights, adds them up from left to right
and quantizes; each operation is rounded. An integer interpolation differs by at most a few
2**-BITS, a bound computed from the actual weights. Floats are computed only where that bound leaves
the rounding of a half undecided: for every 16th element of an image made twice as large, for fewer
where weights are not multiples of 1/4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.graph.types import Quant
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, cast, float32, int32, maximum, minimum, round_half_even, select
from edgec.numerics.fixed_point import IntArray

FloatArray = npt.NDArray[np.float32]

#: Fraction bits of weights along one axis, and of their products: int32 holds the sum of four.
AXIS_BITS, BITS = 15, 22
ONE = 1 << AXIS_BITS
#: Roundings of float32 on the way to a result: of an operand, its weight, its product, three sums
#: and the quotient.
ROUNDINGS = 7
#: Scales within these bounds leave no denormal and no infinite number.
SCALES = (2.0**-60, 2.0**60)


@dataclass(frozen=True)
class Axis:
    """The neighbours of each new position, and their weights in float32 [size].

    row: where arrays are [extents, size], with a row for each extent of an open axis, this one's.
    end: the last position of the image, where the neighbours are not in tables: the upper one is
    the next that there is, and where both are the last one, their weights are halves.
    """

    low: IntArray
    high: IntArray
    low_weight: FloatArray
    high_weight: FloatArray
    end: int | None = None
    row: int | None = None

    @property
    def steps(self) -> IntArray:
        """The weights of `high` in 2**-AXIS_BITS."""
        return np.asarray(np.rint(self.high_weight * np.float32(ONE)), np.int64)

    @property
    def is_exact(self) -> bool:
        """Whether `steps` and ONE - `steps` are exactly the weights times ONE."""
        steps = self.steps
        return self.row is None and bool(
            np.array_equal(steps, self.high_weight * np.float64(ONE))
            and np.array_equal(ONE - steps, self.low_weight * np.float64(ONE))
        )


def find_axis(extent: int, size: int, align_corners: bool, half_pixel_centers: bool) -> Axis:
    """Source: SetupUpsampleBilinear and GetOriginalCoordinateFunc in ONNX Runtime's upsample."""
    single = np.float32
    at = np.arange(size).astype(single)
    scale = single(size) / single(extent)
    if align_corners:
        coordinate = at * single(extent - 1) / single(size - 1) if size > 1 else at
    elif half_pixel_centers:
        coordinate = (at + single(0.5)) / scale - single(0.5)
    else:
        coordinate = at / scale
    coordinate = np.clip(coordinate, single(0), single(extent - 1))
    low = coordinate.astype(np.int64)
    high = np.minimum(low + 1, extent - 1)
    high_weight, low_weight = (np.abs(coordinate - n.astype(single)) for n in (low, high))
    half = np.where(low == high, single(0.5), single(-1))
    return Axis(
        low, high, np.where(half > 0, half, low_weight), np.where(half > 0, half, high_weight)
    )


def find_open_axis(extent: int, size: int, half_pixel_centers: bool) -> Axis:
    """The axis of a whole factor; its arrays are a prefix of a larger image's arrays."""
    longer = find_axis(extent + 1, size + size // extent, False, half_pixel_centers)
    return Axis(
        longer.low[:size], longer.high[:size], longer.low_weight[:size], longer.high_weight[:size],
        end=extent - 1,
    )  # fmt: skip


def find_axis_by_extent(
    extent: int, size: int, align_corners: bool, half_pixel_centers: bool
) -> Axis:
    """The axes from all extents to one size; that from 0 is never read."""
    how = align_corners, half_pixel_centers
    axes = [find_axis(max(each, 1), size, *how) for each in range(extent + 1)]
    arrays = zip(*((a.low, a.high, a.low_weight, a.high_weight) for a in axes), strict=True)
    low, high, low_weight, high_weight = map(np.stack, arrays)
    return Axis(low, high, low_weight, high_weight, row=extent)


def _integer_weights(rows: Axis, columns: Axis) -> list[IntArray]:
    """The weights of the four neighbours in 2**-BITS, each [rows, columns], as loops make them."""
    down, across = rows.steps[:, None], columns.steps[None, :]
    factors = (ONE - down, ONE - across), (ONE - down, across), (down, ONE - across), (down, across)
    return [vertical * horizontal >> 2 * AXIS_BITS - BITS for vertical, horizontal in factors]


def doubt(rows: Axis, columns: Axis, quant: Quant) -> int | None:
    """The largest difference of the integer sum from the float result, in 2**-BITS.

    None if floats overflow or lose more bits, or if the bound differs between sizes.
    """
    is_by_extent = rows.row is not None or columns.row is not None
    if is_by_extent or not SCALES[0] < quant.scale[0] < SCALES[1]:
        return None
    vertical, horizontal = (
        [axis.low_weight.astype(np.float64), axis.high_weight.astype(np.float64)]
        for axis in (rows, columns)
    )
    real = [v[:, None] * h[None, :] for v in vertical for h in horizontal]
    found = _integer_weights(rows, columns)
    zero_point = quant.zero_point[0]
    most = max(127 - zero_point, zero_point + 128)
    one = 1 << BITS
    wrong = sum(np.abs(w / one - r) for w, r in zip(found, real, strict=True)) * most
    wrong = wrong + abs(zero_point) * np.abs(1 - sum(found) / one)
    rounded = sum(real) * most * ((1 + 2.0**-24) ** ROUNDINGS - 1)
    return math.ceil(float((wrong + rounded).max()) * one) + 1


def lower_interpolation(
    target: Lowering, x: Tensor, rows: Axis, columns: Axis, quant: Quant, shape: tuple[int, ...]
) -> Tensor:
    """Stored int8 elements, interpolated: a sum of integers where that is certain, else floats."""
    steps = doubt(rows, columns, quant)
    is_exact = rows.is_exact and columns.is_exact
    tables = [
        _Tables(target, name, axis, is_exact) for name, axis in (("row", rows), ("column", columns))
    ]

    def element(n: Any, h: Any, w: Any, c: Any) -> Value:
        (top, bottom), (left, right) = (
            table.neighbours(at) for table, at in zip(tables, (h, w), strict=True)
        )
        corners = (top, left), (top, right), (bottom, left), (bottom, right)
        stored = [int32(x[n, row, column, c]) for row, column in corners]
        down, across = (table.steps(at) for table, at in zip(tables, (h, w), strict=True))
        factors = [v * u for v in (ONE - down, down) for u in (ONE - across, across)]
        if is_exact:  # the float error is a power of two of this size
            exact = _in_floats(stored, [float32(f) for f in factors], ONE * ONE, quant, steps)
        else:
            vertical, horizontal = (t.reals(at) for t, at in zip(tables, (h, w), strict=True))
            exact = _in_floats(stored, [u * v for v in vertical for u in horizontal], 1,
                               quant, steps)  # fmt: skip
        if steps is None:
            return cast(exact, "int8")
        total: Any = 1 << BITS - 1
        for value, factor in zip(stored, factors, strict=True):
            total = value * (factor >> 2 * AXIS_BITS - BITS) + total
        # Next to a whole number: half a step was added.
        is_open = (total + steps & (1 << BITS) - 1) < 2 * steps + 1
        return cast(select(is_open, exact, total >> BITS), "int8")

    return target.compute("element", shape, "int8", element)


def lower_floats(
    target: Lowering, x: Tensor, rows: Axis, columns: Axis, shape: tuple[int, ...]
) -> Tensor:
    """Floats, interpolated: four products, added in the order of the corners."""
    tables = [_FloatTables(target, *named) for named in (("row", rows), ("column", columns))]

    def element(n: Any, h: Any, w: Any, c: Any) -> Value:
        (top, bottom), (left, right) = (
            table.neighbours(at) for table, at in zip(tables, (h, w), strict=True)
        )
        vertical, horizontal = (t.weights(at) for t, at in zip(tables, (h, w), strict=True))
        corners = (top, left), (top, right), (bottom, left), (bottom, right)
        factors = [across * down for down in vertical for across in horizontal]
        first, *rest = (f * x[n, row, column, c]
                        for f, (row, column) in zip(factors, corners, strict=True))  # fmt: skip
        for product in rest:
            first = first + product
        return first

    return target.compute("element", shape, "float32", element)


class _Neighbours:
    """The tables of an axis that say where a position's neighbours are."""

    def __init__(self, target: Lowering, name: str, axis: Axis) -> None:
        self._end, self._row = axis.end, axis.row
        self._low = target.table(f"{name}_low", axis.low.astype(np.int32))
        if axis.end is None:
            self._high = target.table(f"{name}_high", axis.high.astype(np.int32))

    def of(self, table: Tensor, at: Any) -> Value:
        """The table's entry for a position."""
        found: Value = table[at] if self._row is None else table[self._row, at]
        return found

    def neighbours(self, at: Any) -> tuple[Any, Any]:
        """The lower and the upper one."""
        low = self.of(self._low, at)
        return low, self.of(self._high, at) if self._end is None else minimum(low + 1, self._end)

    def weight(self, table: Tensor, at: Any, half: float) -> Value:
        """A weight as an integer; `half` stands for one half."""
        found = self.of(table, at)
        return found if self._end is None else select(self._low[at].equals(self._end), half, found)


class _FloatTables(_Neighbours):
    """The tables of an axis for floats; lower weights only where 1 less the upper differs."""

    def __init__(self, target: Lowering, name: str, axis: Axis) -> None:
        super().__init__(target, name, axis)
        self._upper = target.table(f"{name}_weight", axis.high_weight)
        is_rest = axis.row is None and np.array_equal(
            axis.low_weight, np.float32(1) - axis.high_weight
        )
        self._lower = None if is_rest else target.table(f"{name}_low_weight", axis.low_weight)

    def weights(self, at: Any) -> tuple[Value, Value]:
        """The weights of the lower and the upper neighbour of a position."""
        upper = self.weight(self._upper, at, 0.5)
        return (1.0 - upper if self._lower is None else self.weight(self._lower, at, 0.5)), upper


class _Tables(_Neighbours):
    """The tables of an axis; weights in float32 only where integers are not the same."""

    def __init__(self, target: Lowering, name: str, axis: Axis, is_exact: bool) -> None:
        super().__init__(target, name, axis)
        self._steps = target.table(f"{name}_weight", axis.steps.astype(np.int32))
        self._reals = () if is_exact else (
            target.table(f"{name}_low_real", axis.low_weight),
            target.table(f"{name}_high_real", axis.high_weight),
        )  # fmt: skip

    def steps(self, at: Any) -> Value:
        """The weight of the upper neighbour in 2**-AXIS_BITS."""
        return self.weight(self._steps, at, ONE // 2)

    def reals(self, at: Any) -> tuple[Value, ...]:
        """Both weights of a position in float32."""
        return tuple(self.weight(table, at, 0.5) for table in self._reals)


def _in_floats(
    stored: list[Value], weights: list[Value], one: int, quant: Quant, steps: int | None
) -> Value:
    """`interpolate` of four neighbours by weights that count `one` as one, a power of two.

    With `steps`, the integer result is that near, so the sum is within int8 without limits.
    """
    scale, zero_point = quant.scale[0], quant.zero_point[0]
    reals = [float32(value - zero_point) * scale for value in stored]
    first, *rest = (weight * real for weight, real in zip(weights, reals, strict=True))
    for product in rest:
        first = first + product
    low, high = -128.0 - zero_point, 127.0 - zero_point
    ratio = first / (scale * one)
    if steps is None:
        ratio = minimum(maximum(ratio, low), high)
    return round_half_even(ratio, max(-low, high) + 1) + zero_point
