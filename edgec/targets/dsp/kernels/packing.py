"""Inputs of matrix products as pairs of int16 (`runtime_c/kernels/dsp/matrix_pack_s8.h`), or packed
for four pixels (`runtime_c/kernels/dsp/matrix_pack_s8_four.h`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from edgec.loop.define import Definition, Tensor
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Struct, register
from edgec.loop.values import Value, index, int16, minimum, select
from edgec.loop.window import Window
from edgec.numerics.term import TermLike
from edgec.targets.common.kernels.window import WINDOW_SIZES
from edgec.targets.dsp.kernels.matrix_four import FOUR, ROOM


def paired(x: Any, p: Any, q: Any, s: Any, r: Any, depth: int, quads: int) -> Value:
    """Input k = 4 * q + 2 * r + s of row p of x, as int8; zero after `depth`."""
    k = 4 * q + 2 * r + s
    if 4 * quads == depth:
        element: Value = x[p, k]
        return element
    return select(index(k) < depth, x[p, minimum(k, depth - 1)], 0)


def _output(b: Definition, pixels: int, quads: int) -> Tensor:
    """Buffer for the packed inputs of `pixels` pixels."""
    if pixels == FOUR:
        return b.output("to", (quads, 2, ROOM, 2), "int8")
    return b.output("to", (quads, 2, pixels, 2), "int16")


def _packed(b: Definition, pixels: int, to: Tensor, element: Callable[..., Value]) -> PrimFunc:
    """to[q, s, p, r] = element(q, s, p, r), which is an int8."""
    if pixels == FOUR:
        shape = (to.shape[0], 2, FOUR, 2)
        b.compute(to, element, shape=shape, at=lambda q, s, p, r: (q, s, p, r))
    else:
        b.compute(to, lambda q, s, p, r: int16(element(q, s, p, r)))
    return b.build()


def pack_rows(pixels: int, depth: int) -> PrimFunc:
    """to[q, s, p, r] = x[p, k] of this many rows."""
    quads = -(-depth // 4)
    b = Definition(f"pack_rows_{pixels}")
    to = _output(b, pixels, quads)
    x = b.input("x", (pixels, depth), "int8")
    return _packed(b, pixels, to, lambda q, s, p, r: paired(x, p, q, s, r, depth, quads))


def pack_row(depth: int) -> PrimFunc:
    """to[q, s, r] = x[k] of one row, an even number of quads."""
    quads = -(-depth // 8) * 2
    b = Definition("pack_row")
    to = b.output("to", (quads, 2, 2), "int16")
    x = b.input("x", (1, depth), "int8")
    b.compute(to, lambda q, s, r: int16(paired(x, 0, q, s, r, depth, quads)))
    return b.build()


def pack_windows(pixels: int, pixel: TermLike, **sizes: int) -> PrimFunc:
    """to[q, s, p, r] = input k of the window of output pixel `pixel` + p; `Window.sizes`."""
    window = Window.from_sizes(sizes)
    depth = window.depth
    quads = -(-depth // 4)
    b = Definition(f"pack_windows_{pixels}")
    to = _output(b, pixels, quads)
    x = b.input("x", (1, *window.shape), "int8")

    def element(q: Any, s: Any, p: Any, r: Any) -> Value:
        k = 4 * q + 2 * r + s
        if 4 * quads == depth:
            return window.read(x, 0, p + pixel, k)
        return select(index(k) < depth, window.read(x, 0, p + pixel, minimum(k, depth - 1)), 0)

    return _packed(b, pixels, to, element)


def pad(
    height: int,
    width: int,
    channels: int,
    top: int,
    left: int,
    out_height: int,
    out_width: int,
    zero_point: int,
) -> PrimFunc:
    """to[h, w, c] = x[h - top, w - left, c], zero_point where that is outside."""
    b = Definition("pad")
    to = b.output("to", (out_height, out_width, channels), "int8")
    x = b.input("x", (1, height, width, channels), "int8")
    window = Window(
        (height, width, channels), (1, 1), (1, 1), (1, 1), (top, left), 1, True, zero_point
    )
    b.compute(to, lambda h, w, c: window.pad(x, 0, h, w, c))
    return b.build()


#: Instructions for each input, in long runs.
_EACH = {2: 2.75, 3: 2.75, FOUR: 5.75}


def _windows_instructions(pixels: int, **sizes: int) -> float:
    window = Window.from_sizes(sizes)
    kernel_h, kernel_w = window.kernel
    if kernel_w * window.shape[2] == 4:
        return 70 + (23 if pixels == FOUR else 1 + 5 * pixels) * kernel_h
    calls = kernel_h * (kernel_w if window.dilation[1] > 1 else 1)
    slow = 100 * pixels * kernel_h * kernel_w / 3 * window.part_outside
    return 50 + 25 * calls + _EACH[pixels] * window.depth + slow


def _neighbours_instructions(pixels: int, **sizes: int) -> float:
    return 60 + sizes["kernel_h"] * (35 + 10.25 * sizes["channels"])


def _taps_instructions(pixels: int, **sizes: int) -> float:
    window = Window.from_sizes(sizes)
    slow = 8 * window.depth * window.part_outside
    return 60 + _EACH[pixels] * window.depth + pixels * (15 + window.depth + slow)


def _of_rows(at_once: int, call: float, each: float, rest: float) -> Callable[..., float]:
    """Instructions for one row: `each` for a full step of inputs, `rest` for a shorter last one."""
    return lambda depth: call + each * (depth // at_once) + (rest if depth % at_once else 0)


#: Kernels whose sizes are parameters: GCC makes the function for the sizes that all calls share.
_BY_PARAMETERS = {"ec_pack_windows_2_s8_dsp", "ec_pack_windows_3_s8_dsp"}
#: Kernels of the DSP extension: first for rows, then for windows.
_ROWS: tuple[tuple[str, Callable[..., PrimFunc], Callable[..., float]], ...] = (
    ("ec_pack_rows_2_s8_dsp", partial(pack_rows, 2), _of_rows(4, 30, 11, 25)),
    ("ec_pack_rows_3_s8_dsp", partial(pack_rows, 3), _of_rows(4, 30, 11, 30)),
    ("ec_pack_rows_4_s8_dsp", partial(pack_rows, FOUR), _of_rows(4, 40, 23, 60)),
    ("ec_pack_row_s8_dsp", pack_row, _of_rows(8, 20, 9, 50)),
)
_WINDOWS: tuple[tuple[str, Callable[..., PrimFunc], Callable[..., float]], ...] = tuple(
    (f"ec_pack_{of}_{pixels}_s8_dsp", partial(pack_windows, pixels), partial(cost, pixels))
    for pixels, of, cost in (
        (2, "windows", _windows_instructions),
        *((p, "windows", _windows_instructions) for p in (3, FOUR)),
        (FOUR, "neighbours", _neighbours_instructions),
        *((p, taps, _taps_instructions) for p in (3, FOUR) for taps in ("taps", "few_taps")),
    )
)
for _kernels, _sizes, _indices in ((_ROWS, ("depth",), ()), (_WINDOWS, Window.SIZES, ("pixel",))):
    for _name, _meaning, _instructions in _kernels:
        register(
            Microkernel(
                _name,
                _meaning,
                sizes=_sizes,
                indices=_indices,
                header=f"dsp/matrix_pack_s8{'_four' if '_4_' in _name else ''}.h",
                needs=frozenset({"dsp"}),
                alignment=(("to", 4),),
                instructions=_instructions,
                struct=WINDOW_SIZES if _indices and _name not in _BY_PARAMETERS else None,
            )
        )
_PAD_SIZES = (
    "height", "width", "channels", "top", "left", "out_height", "out_width", "zero_point",
)  # fmt: skip
register(
    Microkernel(
        "ec_pad_s8",
        pad,
        sizes=_PAD_SIZES,
        struct=Struct("ec_pad_sizes", _PAD_SIZES),
        header="dsp/matrix_pack_s8.h",
        instructions=lambda width, channels, out_height, **_: out_height * (12 + width * channels),
    )
)
