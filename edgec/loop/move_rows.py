"""Rows of rolling windows: move the rows still needed to the front, and append one."""

from __future__ import annotations

from functools import partial

from edgec.errors import ScheduleError
from edgec.loop.ir import Buffer, For, Gather, IndexValue, Load, PrimFunc, Store
from edgec.loop.microkernel import Microkernel, register
from edgec.numerics.term import TermLike, Var, as_term

_SUFFIXES = {"int8": "s8", "int16": "s16", "int32": "s32", "float32": "f32"}
#: Kernels that copy a row: by memcpy, as a few loads and stores, and to where it may lie in part:
#: by memmove, or by code of its own that is faster for long rows.
COPY, PUT, SHIFT, MOVE = "ec_copy_row", "ec_put_row", "ec_shift_row", "ec_move_row"
#: And that copies the row of a matrix whose number data choose.
TAKE = "ec_take_row"
_BYTES = {"int8": 1, "int16": 2, "int32": 4, "float32": 4}


def kernel_for(dtype: str, what: str = "ec_move_rows") -> str:
    """The microkernel for rows of this dtype; ScheduleError if there is none."""
    if dtype not in _SUFFIXES:
        raise ScheduleError(f"there is no microkernel that moves rows of {dtype}")
    return f"{what}_{_SUFFIXES[dtype]}"


def move_rows(dtype: str, rows: int, row: int, by: TermLike) -> PrimFunc:
    """x[i] = x[i + by] for the rows i that have one `by` after them; `row` elements each."""
    x = Buffer("x", (rows, row), dtype, "arena")
    i, e = Var("i", 0, rows), Var("e", 0, row)
    store = Store(x, (as_term(i), as_term(e)), Load(x, (as_term(i) + by, as_term(e))))
    inner = For(e, as_term(0), as_term(row), "serial", store)
    return PrimFunc("move_rows", (x,), (), For(i, as_term(0), as_term(rows) - by, "serial", inner))


def copy_row(dtype: str, row: int) -> PrimFunc:
    """to[i] = x[i] for `row` elements."""
    x, to = Buffer("x", (1, row), dtype, "arena"), Buffer("to", (1, row), dtype, "arena")
    i = Var("i", 0, row)
    at = (as_term(0), as_term(i))
    store = Store(to, at, Load(x, at))
    return PrimFunc("copy_row", (x, to), (), For(i, as_term(0), as_term(row), "serial", store))


def take_row(dtype: str, rows: int, row: int) -> PrimFunc:
    """to[i] = x[place, i] for `row` elements."""
    x, to = Buffer("x", (rows, row), dtype, "arena"), Buffer("to", (1, row), dtype, "arena")
    place, i = Buffer("place", (1,), "int32", "register"), Var("i", 0, row)
    element = Gather(x, (Load(place, (as_term(0),)), IndexValue(as_term(i))))
    store = Store(to, (as_term(0), as_term(i)), element)
    loop = For(i, as_term(0), as_term(row), "serial", store)
    return PrimFunc("take_row", (x, place, to), (), loop)


def _copy_instructions(row: int, size: int, call: int) -> float:
    """Estimate a copy of `row` elements of `size` bytes: loads and stores, or a call, `call` more.

    MOVE compares its addresses first, but moves whole words: it counts as SHIFT.
    """
    return call + 0.7 * row * size if call else 2 + row * size / 2


for _dtype in _SUFFIXES:
    for _name, _reads_first, _call in (
        (COPY, False, 20),
        (PUT, False, 0),
        (SHIFT, True, 26),
        (MOVE, True, 26),
    ):
        register(
            Microkernel(
                kernel_for(_dtype, _name),
                partial(copy_row, _dtype),
                sizes=("row",),
                header="common/move_rows.h",
                reads_first=_reads_first,
                instructions=partial(_copy_instructions, size=_BYTES[_dtype], call=_call),
            )
        )
    register(
        Microkernel(
            kernel_for(_dtype, TAKE),
            partial(take_row, _dtype),
            sizes=("rows", "row"),
            header="common/move_rows.h",
            instructions=lambda rows, row, size=_BYTES[_dtype]: (
                8 + row * size * (0.5 if size < 4 else 0.3)
            ),
        )
    )
    register(
        Microkernel(
            kernel_for(_dtype),
            partial(move_rows, _dtype),
            sizes=("rows", "row"),
            indices=("by",),
            header="common/move_rows.h",
            instructions=lambda rows, row, size=_BYTES[_dtype]: 60 + 0.32 * (rows - 1) * row * size,
        )
    )
