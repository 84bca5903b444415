"""Inputs of matrix products as pairs of int16 (`runtime_c/microkernels/dsp/matrix_pack_s8.h`)."""

from __future__ import annotations

from typing import Any

from edgec.loop.define import Definition
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, register
from edgec.loop.values import Value, index, int16, minimum, select


def paired(x: Any, p: Any, q: Any, s: Any, r: Any, depth: int, quads: int) -> Value:
    """Input k = 4 * q + 2 * r + s of row p of x, as int8; zero behind `depth`."""
    k = 4 * q + 2 * r + s
    if 4 * quads == depth:
        element: Value = x[p, k]
        return element
    return select(index(k) < depth, x[p, minimum(k, depth - 1)], 0)


def pack_rows_3(depth: int) -> PrimFunc:
    """to[q, s, p, r] = x[p, k] of three rows."""
    quads = -(-depth // 4)
    b = Definition("pack_rows_3")
    to = b.output("to", (quads, 2, 3, 2), "int16")
    x = b.input("x", (3, depth), "int8")
    b.compute(to, lambda q, s, p, r: int16(paired(x, p, q, s, r, depth, quads)))
    return b.build()


def pack_row(depth: int) -> PrimFunc:
    """to[q, s, r] = x[k] of one row, an even number of quads."""
    quads = -(-depth // 8) * 2
    b = Definition("pack_row")
    to = b.output("to", (quads, 2, 2), "int16")
    x = b.input("x", (1, depth), "int8")
    b.compute(to, lambda q, s, r: int16(paired(x, 0, q, s, r, depth, quads)))
    return b.build()


register(
    Microkernel(
        "ec_pack_rows_3_s8_dsp",
        pack_rows_3,
        sizes=("depth",),
        header="dsp/matrix_pack_s8.h",
        needs=frozenset({"dsp"}),
        alignment=(("to", 4),),
        instructions=lambda depth: 30 + 11 * (depth // 4) + (30 if depth % 4 else 0),
    )
)
register(
    Microkernel(
        "ec_pack_row_s8_dsp",
        pack_row,
        sizes=("depth",),
        header="dsp/matrix_pack_s8.h",
        needs=frozenset({"dsp"}),
        alignment=(("to", 4),),
        instructions=lambda depth: 20 + 9 * (depth // 8) + (50 if depth % 8 else 0),
    )
)
