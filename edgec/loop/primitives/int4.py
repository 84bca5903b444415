"""pack_int4: store a constant of small numbers as two to a byte, packed at compile time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.errors import ScheduleError
from edgec.loop.access import accesses
from edgec.loop.ir import Binary, Buffer, Cast, Const, Expr, IndexValue, Load, PrimFunc, Select
from edgec.loop.primitives.layout import Repack
from edgec.loop.primitives.lookup import find_buffer
from edgec.loop.rewrite import Rewriter
from edgec.numerics.term import Term, as_term, floor_div, floor_mod

Array = npt.NDArray[Any]

#: The range of int4.
LEAST, MOST = -8, 7


def fits_int4(array: Array) -> bool:
    """Whether every number of an int8 array fits in four bits."""
    return bool(array.dtype == np.int8 and array.size and array.min() >= LEAST
                and array.max() <= MOST)  # fmt: skip


def packed_int4(array: Array) -> Array:
    """Two numbers of [-8, 7] to a byte, the first in its low half; flat, ended by a zero if odd."""
    flat = np.pad(array.reshape(-1), (0, array.size % 2)).astype(np.uint8).reshape(-1, 2)
    return np.asarray(flat[:, 0] & 15 | flat[:, 1] << 4)


def pack_int4(func: PrimFunc, buffer: str) -> tuple[PrimFunc, Repack]:
    """Store an int8 constant whose numbers lie in [-8, 7] as int4; change every read.

        w: constant int8[16, 9]        w: constant uint8[72]
        .. = w[o, i]              ->   .. = ((w[(9*o + i) // 2] & 15) ^ 8) - 8      where even
                                       .. = ((w[(9*o + i) // 2] >> 4) ^ 8) - 8      where odd

    Unrolled loops read only the right form. The caller checks that the numbers fit (`fits_int4`).
    Returns the function that packs the constant's array at compile time.
    """
    old = find_buffer(func, buffer)
    if old.scope != "constant" or old.dtype != "int8":
        raise ScheduleError(f"pack_int4: {buffer} is {old.scope} {old.dtype}, no constant int8")
    if any(a.indices is None for a in accesses(func.body, of=(old,))):
        raise ScheduleError(f"pack_int4: {buffer} is read by a gather or a call")
    new = replace(old, shape=(-(-old.elements // 2),), dtype="uint8")
    body = _Unpack(old, new).stmt(func.body)
    params = tuple(new if p == old else p for p in func.params)
    return replace(func, params=params, body=body), packed_int4


class _Unpack(Rewriter):
    def __init__(self, old: Buffer, new: Buffer) -> None:
        self.old, self.new = old, new

    def load(self, load: Load) -> Expr:
        if load.buffer != self.old:
            return load
        at = as_term(0)
        for index, extent in zip(load.indices, self.old.shape, strict=True):
            at = at * extent + index
        byte = Cast("int32", Load(self.new, (floor_div(at, 2),)))
        return Cast("int8", _half(byte, floor_mod(at, 2)))


def _half(byte: Expr, odd: Term) -> Expr:
    low, high = Binary("and", byte, Const(15, "int32")), Binary("shr", byte, Const(4, "int32"))
    half: Expr = high if odd.constant else low
    if odd.constant is None:
        half = Select(Binary("eq", IndexValue(odd), Const(0, "int32")), low, high)
    return Binary("sub", Binary("xor", half, Const(8, "int32")), Const(8, "int32"))


def unpacked_byte(expr: Expr) -> tuple[Expr, bool] | None:
    """The byte that an unpacked number of `pack_int4` is half of, and whether it is known
    which half; None for anything else."""
    signed = isinstance(expr, Binary) and expr.op == "sub" and expr.left
    if not (isinstance(signed, Binary) and signed.op == "xor" and _is_eight(signed.right)):
        return None
    half, is_known = signed.left, True
    if isinstance(half, Select):
        half, is_known = half.yes, False
    return (half.left, is_known) if isinstance(half, Binary) else None


def _is_eight(expr: Expr) -> bool:
    return isinstance(expr, Const) and expr.value == 8
