"""Rows of an image with padding (`runtime_c/kernels/x86/rows_s8.h`)."""

from __future__ import annotations

from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, register
from edgec.numerics.term import TermLike
from edgec.targets.helium.kernels.rows import pad_rows

PAD_ROWS = "ec_pad_rows_s8_x86"


def pad(rows: int, row: TermLike, **sizes: int) -> PrimFunc:
    """`pad_rows` of int8 that keeps none of the rows that are there."""
    return pad_rows("int8", rows=rows, by=rows, row=row, **sizes)


def _instructions(channels: int, rows: int, out_width: int, **_: int) -> float:
    return 30 + rows * (60 + out_width * channels / 16)


register(
    Microkernel(
        PAD_ROWS,
        pad,
        sizes=(
            "height", "width", "channels", "top", "left", "rows", "out_width", "zero_point",
        ),
        indices=("row",),
        header="x86/rows_s8.h",
        needs=frozenset({"avx2"}),
        instructions=_instructions,
        code_bytes=300,
    )
)  # fmt: skip
