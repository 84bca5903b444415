"""pack_shifts: store a constant whose groups of numbers share trailing zeros without these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.errors import ScheduleError
from edgec.loop.access import accesses
from edgec.loop.ir import Binary, Buffer, Cast, Expr, Load, PrimFunc
from edgec.loop.primitives.int4 import LEAST, MOST, fits_int4
from edgec.loop.primitives.layout import Repack
from edgec.loop.primitives.lookup import find_buffer, fresh
from edgec.loop.rewrite import Rewriter
from edgec.numerics.term import floor_div

Array = npt.NDArray[Any]

#: Numbers that share a shift, at least: fewer gain little, and may do so by chance.
LEAST_GROUP = 16
#: The largest shift of a number of four bits that eight bits hold.
MOST_SHIFT = 4


def find_shifts(array: Array) -> tuple[int, Array] | None:
    """Groups along the last axis of an int8 array whose numbers are four bits with a shift.

    Returns the largest size of a group that divides the axis, and the least int8 shifts [...,
    groups]. None if there is none, or if int4 holds the numbers unshifted.
    """
    if array.dtype != np.int8 or array.ndim < 2 or not array.size or fits_int4(array):
        return None
    depth = array.shape[-1]
    for group in range(depth, LEAST_GROUP - 1, -1):
        if depth % group:
            continue
        shifts = shared_shifts(array.reshape(*array.shape[:-1], depth // group, group))
        if shifts.min() >= 0:
            return group, shifts
    return None


def shared_shifts(parts: Array) -> Array:
    """The least int8 shifts [...] of groups of int8 numbers [..., group] that leave four bits.

    -1 for a group that has none.
    """
    shared, low, high = np.bitwise_or.reduce(parts, axis=-1), parts.min(-1), parts.max(-1)
    shifts = np.full(shared.shape, -1, np.int8)
    for n in reversed(range(MOST_SHIFT + 1)):
        fits = (shared & (2**n - 1) == 0) & (low >> n >= LEAST) & (high >> n <= MOST)
        shifts[fits] = n
    return shifts


def without_shifts(array: Array, shifts: Array) -> Array:
    """The numbers of four bits: an int8 array less the shifts of its groups."""
    wide = np.repeat(shifts, array.shape[-1] // shifts.shape[-1], axis=-1)
    return np.asarray(array >> wide)


def pack_shifts(
    func: PrimFunc, buffer: str, shape: Sequence[int], shifts: Sequence[int]
) -> tuple[PrimFunc, tuple[Repack, str]]:
    """Store a constant's numbers without the left shift that each group shares; change every read.

        w: constant int8[16, 64]        w: constant int8[16, 64], w_shift: constant int8[16, 2]
        .. = w[o, i]               ->   .. = int8(w[o, i] << w_shift[o, i // 32])

    so that `pack_int4` applies. `shifts` has the shift of each group, flat, for an array of this
    shape whose last axis counts the groups of a row. The caller checks that they fit
    (`find_shifts`). Returns the function that changes the constant's array at compile time, and the
    name of the shifts' parameter.
    """
    old = find_buffer(func, buffer)
    if old.scope != "constant" or old.dtype != "int8":
        raise ScheduleError(f"pack_shifts: {buffer} is {old.scope} {old.dtype}, no constant int8")
    groups = shape[-1] if shape else 0
    if tuple(shape[:-1]) != old.shape[:-1] or not groups or old.shape[-1] % groups:
        raise ScheduleError(f"pack_shifts: groups {list(shape)} for {list(old.shape)}")
    if any(a.indices is None for a in accesses(func.body, of=(old,))):
        raise ScheduleError(f"pack_shifts: {buffer} is read by a gather or a call")
    table = np.asarray(shifts, np.int8).reshape(shape)
    counts = Buffer(fresh(func, f"{buffer}_shift"), tuple(shape), "int8", "constant")
    body = _Shift(old, counts, old.shape[-1] // groups).stmt(func.body)

    def repack(array: Array) -> Array:
        return without_shifts(array, table)

    return replace(func, params=(*func.params, counts), body=body), (repack, counts.name)


class _Shift(Rewriter):
    def __init__(self, buffer: Buffer, counts: Buffer, group: int) -> None:
        self.buffer_, self.counts, self.group = buffer, counts, group

    def load(self, load: Load) -> Expr:
        if load.buffer != self.buffer_:
            return load
        at = (*load.indices[:-1], floor_div(load.indices[-1], self.group))
        number, count = Cast("int32", load), Cast("int32", Load(self.counts, at))
        return Cast("int8", Binary("shl", number, count))
