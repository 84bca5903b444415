"""pack_steps: store a constant of floats that are multiples of a step as integers of a byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.errors import ScheduleError
from edgec.loop.access import accesses
from edgec.loop.ir import Binary, Buffer, Cast, Expr, Load, PrimFunc
from edgec.loop.primitives.layout import Repack
from edgec.loop.primitives.lookup import find_buffer, fresh
from edgec.loop.rewrite import Rewriter

Array = npt.NDArray[Any]

#: The largest size of a stored number.
MOST = 128
#: Numbers of a row that are tried first; few rows of other floats get past them.
_FIRST = 8
#: Units in the last place by which a step may differ from the quotient that it is sought by.
_NEAR = range(-2, 3)


def steps_along(array: Array, axis: int) -> Array | None:
    """Return for each index along `axis` the float32 step whose multiples its numbers are; or None.

    A number is int8 times the step, rounded to float32 once, as a dequantize does. Also None if the
    steps take more bytes than int8 saves.
    """
    if array.dtype != np.float32 or not array.size or 4 * array.shape[axis] > array.size:
        return None
    rows = np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)
    if not np.all(np.isfinite(rows)):
        return None
    steps = np.zeros(len(rows), np.float32)
    largest = np.abs(rows).max(axis=1).astype(np.float64)
    steps[largest == 0] = 1.0
    left = np.flatnonzero(largest > 0)
    for most in range(1, MOST + 1):
        seen = rows[left, :_FIRST] * (most / largest[left])[:, None]
        likely = left[(np.abs(seen - np.rint(seen)) < 1e-3).all(axis=1)]
        if not likely.size:
            continue
        quotients = (largest[likely] / most).astype(np.float32)
        for near in _NEAR:
            tried = quotients + near * np.spacing(quotients)
            fits = _are_multiples(rows[likely], tried)
            steps[likely[fits]] = tried[fits]
        left = left[steps[left] == 0]
        if not left.size:
            return steps if _are_multiples(rows, steps).all() else None
    return None


def _are_multiples(rows: Array, steps: Array) -> Array:
    """Which rows are bit for bit int8 times their step."""
    with np.errstate(divide="ignore", invalid="ignore"):
        counts = np.rint(rows / steps[:, None].astype(np.float64))
    counts = np.where(np.abs(counts) <= MOST, counts, 0.0) + 0.0  # integers have no -0
    made = np.clip(counts, -MOST, MOST - 1).astype(np.float32) * steps[:, None]
    return np.asarray((made.view(np.uint32) == rows.view(np.uint32)).all(axis=1))


def find_steps(array: Array) -> tuple[int, Array] | None:
    """The first axis along which `steps_along` finds steps, and these."""
    for axis in range(array.ndim):
        steps = steps_along(array, axis)
        if steps is not None:
            return axis, steps
    return None


def pack_steps(
    func: PrimFunc, buffer: str, axis: int, steps: Sequence[float]
) -> tuple[PrimFunc, tuple[Repack, str]]:
    """Store a float32 constant as int8 times float32 steps; change every read.

        w: constant float32[16, 9]        w: constant int8[16, 9], w_step: constant float32[16]
        .. = w[o, i]                 ->   .. = float32(w[o, i]) * w_step[o]

    `steps` has one number for each index along `axis`. The caller checks that the constant's
    numbers are multiples of them (`steps_along`). Returns the function that packs the constant's
    array at compile time, and the name of the steps' parameter.
    """
    old = find_buffer(func, buffer)
    if old.scope != "constant" or old.dtype != "float32":
        kind = f"{old.scope} {old.dtype}"
        raise ScheduleError(f"pack_steps: {buffer} is {kind}, no constant float32")
    if not 0 <= axis < len(old.shape) or old.shape[axis] != len(steps):
        raise ScheduleError(f"pack_steps: {len(steps)} steps for axis {axis} of {old.shape}")
    if any(a.indices is None for a in accesses(func.body, of=(old,))):
        raise ScheduleError(f"pack_steps: {buffer} is read by a gather or a call")
    new = replace(old, dtype="int8")
    factors = Buffer(fresh(func, f"{buffer}_step"), (len(steps),), "float32", "constant")
    body = _Scale(old, new, factors, axis).stmt(func.body)
    params = tuple(new if p == old else p for p in func.params)
    shape = [1] * len(old.shape)
    shape[axis] = -1

    def repack(array: Array) -> Array:
        divisors = np.asarray(steps, np.float64).reshape(shape)
        return np.asarray(np.rint(array / divisors).astype(np.int8))

    return replace(func, params=(*params, factors), body=body), (repack, factors.name)


class _Scale(Rewriter):
    def __init__(self, old: Buffer, new: Buffer, factors: Buffer, axis: int) -> None:
        self.old, self.new, self.factors, self.axis = old, new, factors, axis

    def load(self, load: Load) -> Expr:
        if load.buffer != self.old:
            return load
        count = Cast("float32", Load(self.new, load.indices))
        return Binary("mul", count, Load(self.factors, (load.indices[self.axis],)))
