"""flatten: neighbouring dimensions of a buffer as one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.errors import ScheduleError
from edgec.loop.access import accesses
from edgec.loop.ir import Buffer, Expr, Load, PrimFunc, Stmt, Store
from edgec.loop.primitives.lookup import find_buffer
from edgec.loop.rewrite import Rewriter
from edgec.numerics.term import Term

Array = npt.NDArray[Any]
Repack = Callable[[Array], Array]


def flatten(func: PrimFunc, buffer: str, first: int, last: int) -> tuple[PrimFunc, Repack]:
    """Make one dimension of the dimensions `first` to `last` of a buffer.

        w: constant int8[8, 3, 4]              w: constant int8[8, 12]
        .. = w[o, k, i]                  ->    .. = w[o, k * 4 + i]

    No element moves. Requires: the buffer is not read by a gather or a call. Returns the function
    that reshapes a constant's array at compile time.
    """
    old = find_buffer(func, buffer)
    if not 0 <= first <= last < len(old.shape):
        raise ScheduleError(f"flatten: {buffer} has no dimensions {first} to {last}")
    if any(a.indices is None for a in accesses(func.body, of=(old,))):
        raise ScheduleError(f"flatten: {buffer} is read by a gather or a call")
    shape = (*old.shape[:first], prod(old.shape[first : last + 1]), *old.shape[last + 1 :])
    new = replace(old, shape=shape)
    params = tuple(new if p == old else p for p in func.params)
    body = _Flatten(old, new, first, last).stmt(func.body)
    return replace(func, params=params, body=body), lambda array: np.reshape(array, shape)


class _Flatten(Rewriter):
    def __init__(self, old: Buffer, new: Buffer, first: int, last: int) -> None:
        self.old, self.new, self.first, self.last = old, new, first, last

    def _indices(self, indices: tuple[Term, ...]) -> tuple[Term, ...]:
        flat = indices[self.first]
        for axis in range(self.first + 1, self.last + 1):
            flat = flat * self.old.shape[axis] + indices[axis]
        return (*indices[: self.first], flat, *indices[self.last + 1 :])

    def load(self, load: Load) -> Expr:
        return Load(self.new, self._indices(load.indices)) if load.buffer == self.old else load

    def store(self, store: Store) -> Stmt:
        made = super().store(store)
        assert isinstance(made, Store)
        if made.buffer != self.old:
            return made
        return replace(made, buffer=self.new, indices=self._indices(made.indices))
