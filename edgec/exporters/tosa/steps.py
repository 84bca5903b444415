"""Integers of eight bits that are a rising function of one float: the floats at which they rise.

TOSA has no division of floats, and whoever runs it may round a product of reciprocals otherwise.
Comparisons are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from edgec.exporters.tosa.text import CannotSay, Tensor, TosaText
from edgec.exporters.tosa.values import binary, cast, full, gathered
from edgec.graph.types import Array

_LEVELS = 256
#: Distance in floats between the steps at which the function is evaluated again.
_SEEN = 1 << 14


@dataclass(frozen=True)
class Steps:
    """lowest: the result of the smallest floats. starts: [255], the first float of each result
    above it, NaN where no float has it."""

    lowest: int
    starts: Array


def _floats(keys: Array) -> Array:
    """The floats of these ranks: bits of positive ones in order, of negative ones reversed."""
    bits = np.where(keys >= 0, keys, np.int64(-(2**31)) - 1 - keys)
    return bits.astype(np.int64).astype(np.int32).view(np.float32)


def find_steps(results: Callable[[Array], Array]) -> Steps:
    """Find the steps by bisection of all floats. Raises CannotSay unless f is monotonic."""
    low = np.int64(-0x7F800001)  # the rank of -infinity
    high = np.int64(0x7F800000)
    lowest = int(results(_floats(np.array([low])))[0])
    wanted = lowest + np.arange(1, _LEVELS, dtype=np.int64)
    below, above = np.full(wanted.shape, low), np.full(wanted.shape, high)
    has = np.asarray(results(_floats(above))) >= wanted
    while (above - below > 1).any():
        middle = (below + above) >> 1
        is_there = np.asarray(results(_floats(middle))) >= wanted
        above, below = np.where(is_there, middle, above), np.where(is_there, below, middle)
    starts = np.where(has, _floats(above), np.float32(np.nan)).astype(np.float32)
    steps = Steps(lowest, starts)
    seen = _floats(np.linspace(int(low), int(high), _SEEN).astype(np.int64))
    with np.errstate(invalid="ignore"):
        levels = lowest + (seen[:, None] >= starts).sum(axis=1)
    if not np.array_equal(levels, results(seen)):
        raise CannotSay("integers of a float that do not rise with it")
    return steps


def level_of(out: TosaText, x: Tensor, steps: Steps) -> Tensor:
    """The int8 result for floats, by eight comparisons: a bisection of the steps."""
    rank = len(x.shape)
    starts = np.concatenate([np.array([-np.inf], np.float32), steps.starts])
    table = out.constant(starts)
    index = full(out, 0, rank, "int32")
    for width in (128, 64, 32, 16, 8, 4, 2, 1):
        next_ = binary(out, "add", index, full(out, width, rank, "int32"))
        start = gathered(out, table, next_)
        is_there = binary(out, "greater_equal", x, start, "bool")
        shape = np.broadcast_shapes(is_there.shape, next_.shape)
        index = out.op("select", [is_there, next_, index], shape, "int32")
    level = binary(out, "add", index, full(out, steps.lowest, rank, "int32"))
    return cast(out, level, "int8")
