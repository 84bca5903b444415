"""Removes calls of a tape that repeat an earlier call."""

from __future__ import annotations

from collections.abc import Sequence
from operator import methodcaller
from typing import Any

import numpy as np

from edgec.loop.read_arrays import View
from edgec.loop.tape import Array, Call

#: Functions whose result depends only on their arguments, and which keep no references to them.
PURE = (np.ufunc, methodcaller, View)


def without_repeats(calls: Sequence[Call], slots: Sequence[Array | None]) -> list[Call]:
    """The calls without repetitions of a function with the same arguments. slots: the constants.

    A store may turn an argument into its buffer, which later stores change; calls after it do not
    share that argument.
    """
    first_of = _equal_numbers(slots)
    known: dict[tuple[Any, ...], int] = {}
    key_of: dict[int, tuple[Any, ...]] = {}
    kept: list[Call] = []
    for function, given, made in calls:
        arguments = tuple(first_of.get(slot, slot) for slot in given)
        if isinstance(function, PURE):
            key = key_of[made] = (function, arguments)
            first_of[made] = known.setdefault(key, made)
            if first_of[made] != made:
                continue
        else:
            for slot in arguments:
                known.pop(key_of.get(slot, ()), None)
        kept.append((function, arguments, made))
    return kept


def _equal_numbers(slots: Sequence[Array | None]) -> dict[int, int]:
    """Return for each slot of a single number the first slot of the same number."""
    first: dict[tuple[Any, ...], int] = {}
    return {
        slot: first.setdefault((array.dtype, array.shape, array.tobytes()), slot)
        for slot, array in enumerate(slots)
        if array is not None and array.size == 1
    }
