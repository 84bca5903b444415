"""complement: store a constant of negative numbers x as their complements, -1 - x."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.errors import ScheduleError
from edgec.loop.access import accesses
from edgec.loop.ir import Binary, Buffer, Cast, Const, Expr, Load, PrimFunc
from edgec.loop.primitives.layout import Repack
from edgec.loop.primitives.lookup import find_buffer
from edgec.loop.rewrite import Rewriter

Array = npt.NDArray[Any]


def complement(func: PrimFunc, buffer: str) -> tuple[PrimFunc, Repack]:
    """Store -1 - s for each number s of an int8 constant; every read takes it off -1 again.

        shift: constant int8[16]                    shift: constant int8[16]
        .. = f(acc, m[c], int32(shift[c]))    ->    .. = f(acc, m[c], -1 - int32(shift[c]))

    A function that shifts right by -1 - shift, as rescaling does, then shifts by the stored number.
    Returns the function that changes the constant's array at compile time.
    """
    constant = find_buffer(func, buffer)
    if constant.scope != "constant" or constant.dtype != "int8":
        kind = f"{constant.scope} {constant.dtype}"
        raise ScheduleError(f"complement: {buffer} is {kind}, no constant int8")
    if any(a.indices is None for a in accesses(func.body, of=(constant,))):
        raise ScheduleError(f"complement: {buffer} is read by a gather or a call")
    return replace(func, body=_Complement(constant).stmt(func.body)), complemented


def complemented(array: Array) -> Array:
    """-1 - s, which is int8 for every int8 s."""
    return np.asarray(np.invert(array))


class _Complement(Rewriter):
    def __init__(self, constant: Buffer) -> None:
        self.constant = constant

    def load(self, load: Load) -> Expr:
        if load.buffer != self.constant:
            return load
        return Cast("int8", Binary("sub", Const(-1, "int32"), Cast("int32", load)))
