"""The inputs of one window of a convolution (`runtime_c/kernels/common/gather_window.h`)."""

from __future__ import annotations

from functools import partial

from edgec.loop.define import Definition
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Struct, register
from edgec.loop.window import Window, padded_image
from edgec.numerics.term import TermLike, as_term


def gather_window(
    dtype: str,
    kernel_h: int,
    kernel_w: int,
    dilation: int,
    fill: int,
    row: TermLike,
    column: TermLike,
    **image: int,
) -> PrimFunc:
    """to[i, j, c] = x[row + i * dilation, column + j, c]; `fill` outside of x."""
    b = Definition("gather_window")
    window = padded_image(fill, **image)
    x = b.input("x", (1, *window.shape), dtype)
    to = b.output("to", (kernel_h, kernel_w, window.shape[2]), dtype)
    b.compute(to, lambda i, j, c: window.pad(x, 0, i * dilation + row, j + column, c))
    return b.build()


def _instructions_s8(channels: int, kernel_h: int, kernel_w: int, **_: int) -> float:
    return 20 + kernel_h * (8 + 6 * kernel_w * channels)


def _instructions_s16(channels: int, kernel_h: int, kernel_w: int, **_: int) -> float:
    return 40 + kernel_h * (40 + 1.4 * kernel_w * channels)


PART_SIZES = ("height", "width", "channels", "kernel_h", "kernel_w", "dilation", "fill")
for _dtype, _instructions in (("int8", _instructions_s8), ("int16", _instructions_s16)):
    register(
        Microkernel(
            f"ec_gather_window_{_dtype.replace('int', 's')}",
            partial(gather_window, _dtype),
            sizes=PART_SIZES,
            struct=Struct("ec_part_sizes", PART_SIZES),
            indices=("row", "column"),
            header="common/gather_window.h",
            instructions=_instructions,
        )
    )


#: The numbers of a window.
WINDOW_SIZES = Struct("ec_window_sizes", Window.SIZES)


def gather_pixel(pixel: TermLike, **sizes: int) -> PrimFunc:
    """to[k] = input k of the window of output pixel `pixel`; `Window.sizes`."""
    window = Window.from_sizes(sizes)
    b = Definition("gather_pixel")
    to = b.output("to", (window.depth,), "int8")
    x = b.input("x", (1, *window.shape), "int8")
    b.compute(to, lambda k: window.read(x, 0, as_term(pixel), k))
    return b.build()


register(
    Microkernel(
        "ec_gather_pixel_s8",
        gather_pixel,
        sizes=Window.SIZES,
        indices=("pixel",),
        struct=WINDOW_SIZES,
        header="common/gather_window.h",
        instructions=lambda kernel_h, kernel_w, channels, **_: (
            90 + kernel_h * (40 + kernel_w * channels)
        ),
    )
)
