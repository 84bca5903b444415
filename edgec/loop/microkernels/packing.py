"""Inputs of matrix products as pairs of int16 (`runtime_c/microkernels/dsp/matrix_pack_s8.h`)."""

from __future__ import annotations

from typing import Any

from edgec.loop.define import Definition
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, register
from edgec.loop.term import TermLike
from edgec.loop.values import Value, index, int16, minimum, select
from edgec.loop.window import Window


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


def pack_windows_3(
    height: int,
    width: int,
    channels: int,
    kernel_h: int,
    kernel_w: int,
    stride_h: int,
    stride_w: int,
    dilation_h: int,
    dilation_w: int,
    top: int,
    left: int,
    out_width: int,
    padded: int,
    zero_point: int,
    pixel: TermLike,
) -> PrimFunc:
    """to[q, s, p, r] = input k of the window of output pixel `pixel` + p."""
    quads = kernel_h * kernel_w * channels // 4
    b = Definition("pack_windows_3")
    to = b.output("to", (quads, 2, 3, 2), "int16")
    x = b.input("x", (1, height, width, channels), "int8")
    window = Window(
        shape=(height, width, channels),
        kernel=(kernel_h, kernel_w),
        stride=(stride_h, stride_w),
        dilation=(dilation_h, dilation_w),
        corner=(top, left),
        out_width=out_width,
        is_padded=bool(padded),
        zero_point=zero_point,
    )

    def element(q: Any, s: Any, p: Any, r: Any) -> Value:
        return int16(window.read(x, 0, p + pixel, 4 * q + 2 * r + s))

    b.compute(to, element)
    return b.build()


def _windows_instructions(kernel_h: int, kernel_w: int, channels: int, **sizes: int) -> float:
    bytes_each = kernel_h * kernel_w * channels
    calls = kernel_h * (kernel_w if sizes["dilation_w"] > 1 else 1)
    if kernel_w * channels == 4:
        return 70 + 16 * kernel_h
    edges = 15 * kernel_h * kernel_w if sizes["padded"] else 0
    return 50 + 25 * calls + 2.75 * bytes_each + edges


register(
    Microkernel(
        "ec_pack_windows_3_s8_dsp",
        pack_windows_3,
        sizes=(
            "height", "width", "channels", "kernel_h", "kernel_w", "stride_h", "stride_w",
            "dilation_h", "dilation_w", "top", "left", "out_width", "padded", "zero_point",
        ),
        indices=("pixel",),
        header="dsp/matrix_pack_s8.h",
        needs=frozenset({"dsp"}),
        alignment=(("to", 4),),
        instructions=_windows_instructions,
    )
)  # fmt: skip
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
