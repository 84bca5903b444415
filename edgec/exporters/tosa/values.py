"""Operations on values of the text that both nests and operators need."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from edgec.exporters.tosa.text import Tensor, TosaText, numbers
from edgec.graph.types import Array

#: Multipliers of `rescale` have this many bits, or 16.
_LEAST_SHIFT, _MOST_SHIFT = 2, 62


def reshaped(out: TosaText, x: Tensor, shape: Sequence[int]) -> Tensor:
    """The same elements in another shape."""
    if x.shape == tuple(shape):
        return x
    return out.op("reshape", [x, out.shape(shape)], shape, x.dtype)


def cast(out: TosaText, x: Tensor, dtype: str) -> Tensor:
    """Convert to another element type: integers wrap, floats to integers round half to even."""
    return x if x.dtype == dtype else out.op("cast", [x], x.shape, dtype)


def full(out: TosaText, number: float, rank: int, dtype: str) -> Tensor:
    """A number that is broadcast in this many dimensions."""
    return out.constant(np.full((1,) * rank, number, dtype))


def binary(out: TosaText, kind: str, a: Tensor, b: Tensor, dtype: str = "", **said: str) -> Tensor:
    """An element-wise operation of two values of one rank, broadcast."""
    shape = np.broadcast_shapes(a.shape, b.shape)
    operands = [a, b]
    if kind == "mul":
        return product(out, a, b, 0)
    return out.op(kind, operands, shape, dtype or a.dtype, **said)


def product(out: TosaText, a: Tensor, b: Tensor, shift: int) -> Tensor:
    """a * b; of int32 also (a * b + 2**(shift - 1)) >> shift in 64 bits."""
    shape = np.broadcast_shapes(a.shape, b.shape)
    by = out.constant(np.array([shift], np.int8))
    return out.op("mul", [a, b, by], shape, a.dtype)


def limited(out: TosaText, x: Tensor, low: float, high: float) -> Tensor:
    """x between two numbers."""
    rank = len(x.shape)
    if x.dtype in ("int8", "int16"):
        kind = "i8" if x.dtype == "int8" else "i16"
        return out.op("clamp", [x], x.shape, x.dtype,
                      min_val=f"{int(low)} : {kind}", max_val=f"{int(high)} : {kind}")  # fmt: skip
    if low != -np.inf:
        x = binary(out, "maximum", x, full(out, low, rank, x.dtype))
    return x if high == np.inf else binary(out, "minimum", x, full(out, high, rank, x.dtype))


def gathered(out: TosaText, table: Tensor, indices: Tensor) -> Tensor:
    """The elements of a flat table [n] at indices, int32 of any shape."""
    count, size = prod(indices.shape), prod(table.shape)
    values = reshaped(out, table, (1, size, 1))
    found = out.op(
        "gather", [values, reshaped(out, indices, (1, count))], (1, count, 1), table.dtype
    )
    return reshaped(out, found, indices.shape)


def tabulated(out: TosaText, x: Tensor, results: Array) -> Tensor:
    """The result of each int8 value, in the order -128..127, by a table."""
    return out.op("table", [x, out.constant(results.astype(np.int8))], x.shape, "int8")


def can_rescale(multiplier: Array, shift: Array) -> bool:
    """Whether `rescaled` takes these fixed-point factors."""
    right = 31 - shift
    fits = (right >= _LEAST_SHIFT) & (right <= _MOST_SHIFT)
    return bool(np.all((multiplier == 0) | fits) and np.all(multiplier >= 0))


def rescaled(
    out: TosaText,
    x: Tensor,
    factors: tuple[Array, Array],
    *,
    zero_points: tuple[int, int] = (0, 0),
    dtype: str = "int32",
    twice: bool,
) -> Tensor:
    """(x - zero point) * multiplier * 2**(shift - 31), rounded, plus a zero point, saturated.

    factors: multipliers of int32 and shifts, [1] or one for each index of the last axis. twice:
    with TFLite's double rounding, which DOUBLE_ROUND equals in every bit if no left shift overflows
    int32.
    """
    multiplier, shift = (np.asarray(each).reshape(-1) for each in factors)
    right = np.where(multiplier == 0, 31, 31 - shift)
    operands = [
        x,
        out.constant(multiplier.astype(np.int32)),
        out.constant(right.astype(np.int8)),
        out.constant(np.array([zero_points[0]], x.dtype)),
        out.constant(np.array([zero_points[1]], dtype)),
    ]
    rounding = "DOUBLE_ROUND" if twice else "SINGLE_ROUND"
    return out.op(
        "rescale", operands, x.shape, dtype, scale32="true",
        rounding_mode=f"#tosa.rounding_mode<{rounding}>",
        per_channel="true" if multiplier.size > 1 else "false",
        input_unsigned="false", output_unsigned="false",
    )  # fmt: skip


def transposed(out: TosaText, x: Tensor, order: Sequence[int]) -> Tensor:
    """Axes in another order: axis i is axis order[i] of x."""
    shape = [x.shape[axis] for axis in order]
    return out.op("transpose", [x], shape, x.dtype, perms=numbers(*order, bits=32))


def sliced(out: TosaText, x: Tensor, begin: Sequence[int], shape: Sequence[int]) -> Tensor:
    """A block of elements."""
    if x.shape == tuple(shape):
        return x
    return out.op("slice", [x, out.shape(begin), out.shape(shape)], shape, x.dtype)


def padded(out: TosaText, x: Tensor, pairs: Sequence[tuple[int, int]], value: float) -> Tensor:
    """x with `value` around it, (before, after) for each axis."""
    shape = [extent + sum(pair) for extent, pair in zip(x.shape, pairs, strict=True)]
    flat = [number for pair in pairs for number in pair]
    return out.op("pad", [x, out.shape(flat), out.constant(np.array([value], x.dtype))], shape,
                  x.dtype)  # fmt: skip


def broadcast(out: TosaText, x: Tensor, shape: Sequence[int]) -> Tensor:
    """x repeated along dimensions of extent 1, up to this shape."""
    if x.shape == tuple(shape):
        return x
    times = [full // own for full, own in zip(shape, x.shape, strict=True)]
    return out.op("tile", [x, out.shape(times)], shape, x.dtype)
