"""The inputs of one window of a convolution (`runtime_c/microkernels/c/gather_window.h`)."""

from __future__ import annotations

from edgec.loop.define import Definition
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, register
from edgec.loop.term import TermLike
from edgec.loop.window import Window


def gather_window(
    height: int,
    width: int,
    channels: int,
    kernel_h: int,
    kernel_w: int,
    dilation: int,
    fill: int,
    row: TermLike,
    column: TermLike,
) -> PrimFunc:
    """to[i, j, c] = x[row + i * dilation, column + j, c]; `fill` outside of x."""
    b = Definition("gather_window")
    x = b.input("x", (1, height, width, channels), "int8")
    to = b.output("to", (kernel_h, kernel_w, channels), "int8")
    window = Window((height, width, channels), (1, 1), (1, 1), (1, 1), (0, 0), 1, True, fill)
    b.compute(to, lambda i, j, c: window.pad(x, 0, i * dilation + row, j + column, c))
    return b.build()


register(
    Microkernel(
        "ec_gather_window_s8",
        gather_window,
        sizes=("height", "width", "channels", "kernel_h", "kernel_w", "dilation", "fill"),
        indices=("row", "column"),
        header="c/gather_window.h",
        instructions=lambda channels, kernel_h, kernel_w, **_: (
            20 + kernel_h * (8 + 6 * kernel_w * channels)
        ),
    )
)
