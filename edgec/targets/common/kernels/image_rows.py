"""Rows of an image, padded and as windows (`runtime_c/kernels/common/image_rows.h`)."""

from __future__ import annotations

from functools import partial

from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Struct, register
from edgec.numerics.term import TermLike
from edgec.targets.helium.kernels.rows import columns, pad_rows

PAD_ROWS, COLUMNS = "ec_pad_rows_s8", "ec_columns_s8"


def pad(rows: int, row: TermLike, **sizes: int) -> PrimFunc:
    """`pad_rows` of int8 that keeps none of the rows that are there."""
    return pad_rows("int8", rows=rows, by=rows, row=row, **sizes)


def _pad_instructions(channels: int, rows: int, out_width: int, **_: int) -> float:
    return 30 + rows * (60 + out_width * channels / 16)


def _columns_instructions(kernel_h: int, pixels: int, **_: int) -> float:
    return 30 + pixels * (10 + 12 * kernel_h)


_PADDED = ("height", "width", "channels", "top", "left", "rows", "out_width", "zero_point")
_COLUMNS = ("kernel_h", "kernel_w", "channels", "stride_w", "dilation_h", "width", "pixels")
register(
    Microkernel(
        PAD_ROWS,
        pad,
        sizes=_PADDED,
        indices=("row",),
        header="common/image_rows.h",
        instructions=_pad_instructions,
        code_bytes=300,
        struct=Struct("ec_pad_rows_sizes", _PADDED),
    )
)
register(
    Microkernel(
        COLUMNS,
        partial(columns, "int8"),
        sizes=_COLUMNS,
        header="common/image_rows.h",
        instructions=_columns_instructions,
        code_bytes=250,
        struct=Struct("ec_columns_sizes", _COLUMNS),
    )
)
