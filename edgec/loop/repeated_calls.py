"""Leaves out calls of a tape that compute again what an earlier call has computed."""

from __future__ import annotations

from collections.abc import Sequence
from operator import methodcaller
from typing import Any

import numpy as np

from edgec.loop.read_arrays import View
from edgec.loop.tape import Array, Call

#: Functions whose result depends on nothing but their arguments, and which keep none of these.
PURE = (np.ufunc, methodcaller, View)


def without_repeats(calls: Sequence[Call], slots: Sequence[Array | None]) -> list[Call]:
    """The calls, of those with equal functions and arguments the first. slots: the constants.

    A store may make an argument its buffer, which later stores change: no call after it shares
    that argument.
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
    """For each slot of a single number the first slot of the same number."""
    first: dict[tuple[Any, ...], int] = {}
    return {
        slot: first.setdefault((array.dtype, array.shape, array.tobytes()), slot)
        for slot, array in enumerate(slots)
        if array is not None and array.size == 1
    }
