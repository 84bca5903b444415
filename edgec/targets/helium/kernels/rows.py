"""Rows of an image on MVE: padded, and as windows.

They are in the files `rows_s8.h` and `rows_s16.h` of `runtime_c/kernels/helium/`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from edgec.loop.define import Definition
from edgec.loop.ir import For, PrimFunc
from edgec.loop.microkernel import Microkernel, Struct, register
from edgec.loop.primitives.roll import keep_rows
from edgec.loop.simplify import lower_blocks
from edgec.loop.window import Window, padded_image
from edgec.numerics.term import TermLike

#: Inputs of a window that the runtime gathers, and how far they may lie from the first.
MOST_GATHERED, FARTHEST = 64, 65535


def pad_rows(
    dtype: str, rows: int, out_width: int, by: int, row: TermLike, zero_point: int = 0, **image: int
) -> PrimFunc:
    """to[h, w, c] = x[row + h - top, w - left, c], zero_point where that is outside.

    All but the last `by` rows are rows of `to` already, so much further down, unless row is 0.
    """
    b = Definition("pad_rows")
    window = padded_image(zero_point, **image)
    to = b.output("to", (rows, out_width, window.shape[2]), dtype)
    x = b.input("x", (1, *window.shape), dtype)
    b.compute(to, lambda h, w, c: window.pad(x, 0, h + row, w, c))
    func = b.build()
    if by == rows:
        return func
    body = lower_blocks(func.body)
    assert isinstance(body, For)
    return replace(func, body=keep_rows(body, row, by, func))


def columns(
    dtype: str,
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
    to = b.output("to", (pixels, kernel_h * run), dtype)
    x = b.input("x", (rows, width, channels), dtype)
    b.compute(
        to,
        lambda p, k: x[
            k // run * dilation_h, p * stride_w + k % run // channels, k % run % channels
        ],
    )
    return b.build()


def _pad_instructions(
    itemsize: int, channels: int, rows: int, out_width: int, by: int, **_: int
) -> float:
    row = 3 * -(-out_width * channels * itemsize // 16)
    return 70 + by * (40 + row) + (rows - by) * row


def has_rgb_columns(window: Window) -> bool:
    """Whether `ec_columns_rgb_s8_mve` gathers the windows."""
    is_dense = window.dilation == (1, 1) and window.stride[1] in (1, 2)
    return is_dense and (*window.kernel, window.shape[2]) == (3, 3, 3)


def _columns_instructions(
    kernel_h: int, kernel_w: int, channels: int, pixels: int, **_: int
) -> float:
    depth = kernel_h * kernel_w * channels
    return 60 + 5 * depth + pixels * (7 + 4 * -(-depth // 8))


_PADDED = ("height", "width", "channels", "top", "left", "rows", "out_width", "by")
_TYPES = {**dict.fromkeys(_PADDED, "uint16"), "zero_point": "int16"}
_PADDED_STRUCT = Struct("ec_pad_rows_mve_sizes", (*_TYPES,), (*_TYPES.items(),))
_COLUMNS = {
    **dict.fromkeys(("kernel_h", "kernel_w"), "uint8"),
    **dict.fromkeys(("channels", "stride_w", "dilation_h", "width", "pixels"), "uint16"),
}
for _dtype, _short, _sizes in (("int8", "s8", (*_PADDED, "zero_point")), ("int16", "s16", _PADDED)):
    register(
        Microkernel(
            f"ec_pad_rows_{_short}_mve",
            partial(pad_rows, _dtype),
            sizes=_sizes,
            struct=replace(
                _PADDED_STRUCT.of(_sizes), times=(("channels", 2),) if _dtype == "int16" else ()
            ),
            indices=("row",),
            header=f"helium/rows_{_short}.h",
            needs=frozenset({"mve"}),
            in_order=("to_h", 1),
            instructions=partial(_pad_instructions, np.dtype(_dtype).itemsize),
            code_bytes=250,
        )
    )
    register(
        Microkernel(
            f"ec_columns_{_short}_mve",
            partial(columns, _dtype),
            sizes=(*_COLUMNS,),
            struct=Struct("ec_columns_mve_sizes", (*_COLUMNS,), (*_COLUMNS.items(),)),
            header=f"helium/rows_{_short}.h",
            needs=frozenset({"mve"}),
            instructions=_columns_instructions,
            code_bytes=150,
        )
    )

register(
    Microkernel(
        "ec_columns_rgb_s8_mve",
        partial(columns, "int8", kernel_h=3, kernel_w=3, channels=3, dilation_h=1),
        sizes=("stride_w", "width", "pixels"),
        header="helium/rows_s8.h",
        needs=frozenset({"mve"}),
        instructions=lambda pixels, **_: 25 + 9 * pixels,
        code_bytes=120,
    )
)
