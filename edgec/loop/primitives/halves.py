"""pack_halves: store a constant of floats that float16 holds as float16, packed at compile time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.errors import ScheduleError
from edgec.loop.access import accesses
from edgec.loop.ir import Buffer, Cast, Expr, Intrinsic, Load, PrimFunc
from edgec.loop.primitives.layout import Repack
from edgec.loop.primitives.lookup import find_buffer
from edgec.loop.rewrite import Rewriter

Array = npt.NDArray[Any]


def fits_halves(array: Array) -> bool:
    """Whether every number of a float32 array is finite and a float16."""
    if array.dtype != np.float32 or not array.size:
        return False
    with np.errstate(over="ignore"):
        halves = array.astype(np.float16)
    return bool(np.all(np.isfinite(halves)) and np.array_equal(halves.astype(np.float32), array))


def packed_halves(array: Array) -> Array:
    """The bits of each number as a float16, uint16."""
    return array.astype(np.float16).view(np.uint16)


def pack_halves(func: PrimFunc, buffer: str) -> tuple[PrimFunc, Repack]:
    """Store a float32 constant whose numbers fit in float16 as uint16; change every read.

        w: constant float32[16, 9]        w: constant uint16[16, 9]
        .. = w[o, i]                 ->   .. = f32_from_f16(uint32(w[o, i]))

    The caller checks that the numbers fit (`fits_halves`). Returns the function that packs the
    constant's array at compile time.
    """
    old = find_buffer(func, buffer)
    if old.scope != "constant" or old.dtype != "float32":
        kind = f"{old.scope} {old.dtype}"
        raise ScheduleError(f"pack_halves: {buffer} is {kind}, no constant float32")
    if any(a.indices is None for a in accesses(func.body, of=(old,))):
        raise ScheduleError(f"pack_halves: {buffer} is read by a gather or a call")
    new = replace(old, dtype="uint16")
    body = _Widen(old, new).stmt(func.body)
    params = tuple(new if p == old else p for p in func.params)
    return replace(func, params=params, body=body), packed_halves


class _Widen(Rewriter):
    def __init__(self, old: Buffer, new: Buffer) -> None:
        self.old, self.new = old, new

    def load(self, load: Load) -> Expr:
        if load.buffer != self.old:
            return load
        bits = Cast("uint32", Load(self.new, load.indices))
        return Intrinsic("f32_from_f16", (bits,), "float32")
