"""spread: a constant of one element, as one for each channel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.errors import ScheduleError
from edgec.loop.access import accesses, count_uses
from edgec.loop.ir import Buffer, Expr, Load, PrimFunc, Store
from edgec.loop.primitives.layout import Repack
from edgec.loop.primitives.lookup import find_block, find_buffer, with_changes
from edgec.loop.rewrite import Rewriter
from edgec.numerics.term import Term

Array = npt.NDArray[Any]


def spread(func: PrimFunc, buffer: str, block: str) -> tuple[PrimFunc, Repack]:
    """Repeat a constant of one element for each value of the last index that a block stores at.

        m: constant int32[1]                      m: constant int32[8]
        block out(p, c) {                         block out(p, c) {
          out[p, c] = f(acc[p, c], m[0])     ->     out[p, c] = f(acc[p, c], m[c])
        }                                         }

    so that a kernel that has a factor for each channel matches. Requires: nothing else reads the
    constant. Returns the function that repeats the constant's element at compile time.
    """
    old, (found, _) = find_buffer(func, buffer), find_block(func, block)
    if old.scope != "constant" or old.shape != (1,):
        raise ScheduleError(f"spread: {buffer} is not a constant of one element")
    store = found.body
    if not isinstance(store, Store) or not store.indices:
        raise ScheduleError(f"spread: {block} does not store one element")
    inside = accesses(found, of=(old,))
    if len(inside) != count_uses(func.body, old) or any(a.indices is None for a in inside):
        raise ScheduleError(f"spread: {buffer} is not read by {block} alone, by its index")
    count = store.buffer.shape[-1]
    new = replace(old, shape=(count,))
    body = _Spread(old, new, store.indices[-1]).stmt(found)
    params = tuple(new if p == old else p for p in func.params)
    changed = replace(with_changes(func, [(found, body)]), params=params)
    return changed, lambda array: np.repeat(array, count)


class _Spread(Rewriter):
    def __init__(self, old: Buffer, new: Buffer, channel: Term) -> None:
        self.old, self.new, self.channel = old, new, channel

    def load(self, load: Load) -> Expr:
        return Load(self.new, (self.channel,)) if load.buffer == self.old else load
