"""Rows of an image on MVE (`runtime_c/microkernels/mve/rows_s8.h`): padded, and as windows."""

from __future__ import annotations

from edgec.loop.define import Definition
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, register
from edgec.loop.term import TermLike
from edgec.loop.window import Window

#: Inputs of a window that the runtime gathers, and how far they may lie from the first.
MOST_GATHERED, FARTHEST = 64, 65535


def pad_rows(
    height: int,
    width: int,
    channels: int,
    top: int,
    left: int,
    rows: int,
    out_width: int,
    zero_point: int,
    row: TermLike,
) -> PrimFunc:
    """to[h, w, c] = x[row + h - top, w - left, c], zero_point where that is outside."""
    b = Definition("pad_rows")
    to = b.output("to", (rows, out_width, channels), "int8")
    x = b.input("x", (1, height, width, channels), "int8")
    window = Window(
        (height, width, channels), (1, 1), (1, 1), (1, 1), (top, left), 1, True, zero_point
    )
    b.compute(to, lambda h, w, c: window.pad(x, 0, h + row, w, c))
    return b.build()


def columns(
    kernel_h: int,
    kernel_w: int,
    channels: int,
    stride_w: int,
    dilation_h: int,
    width: int,
    pixels: int,
) -> PrimFunc:
    """to[p, k] = input k of the window of output p, in rows of `width` pixels."""
    b = Definition("columns")
    run = kernel_w * channels
    rows = (kernel_h - 1) * dilation_h + 1
    to = b.output("to", (pixels, kernel_h * run), "int8")
    x = b.input("x", (rows, width, channels), "int8")
    b.compute(
        to,
        lambda p, k: x[k // run * dilation_h, p * stride_w + k % run // channels, k % channels],
    )
    return b.build()


def _pad_instructions(channels: int, rows: int, out_width: int, **_: int) -> float:
    return 60 + rows * (40 + 3 * -(-out_width * channels // 16))


def _columns_instructions(
    kernel_h: int, kernel_w: int, channels: int, pixels: int, **_: int
) -> float:
    depth = kernel_h * kernel_w * channels
    return 60 + 5 * depth + pixels * (7 + 4 * -(-depth // 8))


register(
    Microkernel(
        "ec_pad_rows_s8_mve",
        pad_rows,
        sizes=("height", "width", "channels", "top", "left", "rows", "out_width", "zero_point"),
        indices=("row",),
        header="mve/rows_s8.h",
        needs=frozenset({"mve"}),
        instructions=_pad_instructions,
        code_bytes=210,
    )
)
register(
    Microkernel(
        "ec_columns_s8_mve",
        columns,
        sizes=(
            "kernel_h", "kernel_w", "channels", "stride_w", "dilation_h", "width", "pixels",
        ),
        header="mve/rows_s8.h",
        needs=frozenset({"mve"}),
        instructions=_columns_instructions,
        code_bytes=150,
    )
)  # fmt: skip
