"""Moving the rows of a rolling window, so that those still needed stay one behind the other."""

from __future__ import annotations

from functools import partial

from edgec.errors import ScheduleError
from edgec.loop.ir import Buffer, For, Load, PrimFunc, Store
from edgec.loop.microkernel import Microkernel, register
from edgec.loop.term import TermLike, Var, as_term

_SUFFIXES = {"int8": "s8", "int16": "s16", "int32": "s32", "float32": "f32"}
_BYTES = {"int8": 1, "int16": 2, "int32": 4, "float32": 4}


def kernel_for(dtype: str) -> str:
    """The microkernel for rows of this dtype; ScheduleError if there is none."""
    if dtype not in _SUFFIXES:
        raise ScheduleError(f"there is no microkernel that moves rows of {dtype}")
    return f"ec_move_rows_{_SUFFIXES[dtype]}"


def move_rows(dtype: str, rows: int, row: int, by: TermLike) -> PrimFunc:
    """x[i] = x[i + by] for the rows i that have one `by` behind them; `row` elements each."""
    x = Buffer("x", (rows, row), dtype, "arena")
    i, e = Var("i", 0, rows), Var("e", 0, row)
    store = Store(x, (as_term(i), as_term(e)), Load(x, (as_term(i) + by, as_term(e))))
    inner = For(e, as_term(0), as_term(row), "serial", store)
    return PrimFunc("move_rows", (x,), (), For(i, as_term(0), as_term(rows) - by, "serial", inner))


for _dtype in _SUFFIXES:
    register(
        Microkernel(
            kernel_for(_dtype),
            partial(move_rows, _dtype),
            sizes=("rows", "row"),
            indices=("by",),
            header="c/move_rows.h",
            # Words at a time, four in a loop: see memmove of the port.
            instructions=lambda rows, row, size=_BYTES[_dtype]: 30 + 0.7 * (rows - 1) * row * size,
        )
    )
