"""Products of int8 on RISC-V's vectors (`runtime_c/kernels/riscv/products_s8.h`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from edgec.loop.define import Definition
from edgec.loop.gathered import plane_element
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Struct, register
from edgec.loop.stream import Field, Stream
from edgec.loop.window import Window
from edgec.numerics.term import TermLike, as_term
from edgec.targets.common.kernels import gather_plane
from edgec.targets.common.kernels.rescaling import TFLM
from edgec.targets.common.kernels.sums import Results, rescaled_sums
from edgec.targets.dsp.kernels.windows import depthwise_windows

CONV, DEPTHWISE = "ec_conv_windows_s8_rvv", "ec_depthwise_windows_s8_rvv"
CONV_TILE, PACK, DEPTHWISE_TWO = (
    f"ec_{name}_s8_rvv" for name in ("conv_tile", "pack_two", "depthwise_two")
)
#: Channels of a vector, and pixels of a tile; channels of a plane.
LANES, TILE, TWO = 16, 4, 2
_ENDS = ("outputs", "out_zero_point", "minimum", "maximum")
_SIZES = Struct("ec_windows_rvv_sizes", (*Window.SIZES, *_ENDS))


def conv_windows(
    row: TermLike, outputs: int, out_zero_point: int, minimum: int, maximum: int, first: int = 0,
    **sizes: int,
) -> PrimFunc:  # fmt: skip
    """out[p, o] = requantized bias[o] + sum of the inputs of window p of row `row` by w[o].

    first: only these of o; 0 for all.
    """
    window = Window.from_sizes(sizes)
    (kernel_h, kernel_w), inputs = window.kernel, window.shape[2]
    b = Definition("conv_windows")
    out = b.output("out", (window.out_width, outputs), "int8")
    x = b.input("x", (1, *window.shape), "int8")
    w = b.constant("w", (first or outputs, kernel_h, kernel_w, inputs), "int8")
    start = as_term(row) * window.out_width
    return rescaled_sums(
        b, TFLM, out, {"kh": kernel_h, "kw": kernel_w, "ic": inputs},
        lambda p, c, kh, kw, ic: window.read(x, 0, p + start, (kh * kernel_w + kw) * inputs + ic),
        lambda p, c, *k: w[c, *k], Results(out_zero_point, (minimum, maximum), first=first),
    )  # fmt: skip


def channel_windows(
    row: TermLike, outputs: int, out_zero_point: int, minimum: int, maximum: int, **sizes: int
) -> PrimFunc:
    """The same of windows that each channel has for itself."""
    first = as_term(row) * sizes["out_width"]
    return depthwise_windows(TFLM, first, out_zero_point, minimum, maximum, **sizes)


def depthwise_two(
    rows: int, pixels: int, channels: int, zero_point: int, minimum: int, maximum: int, **at: int
) -> PrimFunc:
    """out[h, p, c] = requantized bias[c] + sum of x[place] * w[c, kh, kw], for the first two
    channels c.

    place = h * row_step + p * step + kh * pitch + kw * tap + c. at: the terms of place.
    """
    kernel = at["kernel_h"], at["kernel_w"]
    b = Definition("depthwise_two")
    out = b.output("out", (rows, pixels, channels), "int8")

    def place(h: Any, p: Any, c: Any, kh: Any, kw: Any) -> Any:
        return kh * at["pitch"] + kw * at["tap"] + h * at["row_step"] + p * at["step"] + c

    last = place(rows - 1, pixels - 1, TWO - 1, kernel[0] - 1, kernel[1] - 1)
    x = b.input("x", (last + 1,), "int8")
    w = b.constant("w", (TWO, *kernel), "int8")
    return rescaled_sums(
        b, TFLM, out, {"kh": kernel[0], "kw": kernel[1]},
        lambda *point: x[place(*point)], lambda h, p, c, kh, kw: w[c, kh, kw],
        Results(zero_point, (minimum, maximum), first=TWO),
    )  # fmt: skip


def pack_two(
    height: int, width: int, step: int, top: int, left: int, plane_height: int, plane_width: int,
    fill: int,
) -> PrimFunc:  # fmt: skip
    """plane[h, w, c] = x[h - top, w - left, c] for the first TWO of c; `fill` outside."""
    b = Definition("pack_two")
    plane = b.output("plane", (plane_height, plane_width, TWO), "int8")
    x = b.input("x", (1, height, width, step), "int8")
    b.compute(
        plane, lambda h, w, c: plane_element(x, (0, h - top, w - left, c), height, width, fill)
    )
    return b.build()


def _stream(of_taps: Callable[..., int], first: int = 0) -> Stream:
    """The stream, per 16 channels; channels that the last 16 lack have zeros.

    of_taps: how many weights a channel has, from the sizes. first: the channels, where not all.
    """

    def fields(outputs: int = 0, **sizes: int) -> list[Field]:
        depth = of_taps(**sizes)
        outputs = first or outputs
        lanes = np.arange(-(-outputs // LANES) * LANES).reshape(-1, 1, LANES)
        lanes = np.where(lanes < outputs, lanes, -1)
        at = lanes * depth + np.arange(depth)[:, None]
        return [
            Field("w", np.where(lanes < 0, -1, at), "int8"),
            Field("bias", lanes), Field("multiplier", lanes), Field("shift", lanes, "int8", -1),
        ]  # fmt: skip

    return Stream(TFLM.sources, fields)


def _two_fields(**sizes: int) -> list[Field]:
    """The constants of two channels as the header says."""
    lanes = np.arange(TWO)[None]
    at = lanes * _taps(**sizes) + np.arange(_taps(**sizes))[:, None]
    return [
        Field("bias", lanes), Field("multiplier", lanes), Field("w", at[None], "int8"),
        Field("shift", lanes, "int8", -1),
    ]  # fmt: skip


def _taps(kernel_h: int, kernel_w: int, **_: int) -> int:
    return kernel_h * kernel_w


def _depth(channels: int, **sizes: int) -> int:
    return _taps(**sizes) * channels


def tile_starts(
    width: int, kernel_w: int, stride_w: int, left: int, out_width: int, **_: int
) -> list[int]:
    """The first pixels of a row's tiles: tiles of four where they are inside, else of one."""
    starts, pixel = [], 0
    while pixel < out_width:
        starts.append(pixel)
        first = pixel * stride_w - left
        last = first + (TILE - 1) * stride_w + kernel_w
        is_whole = pixel + TILE <= out_width and first >= 0 and last <= width
        pixel += TILE if is_whole else 1
    return starts


def _conv_instructions(outputs: int, **sizes: int) -> float:
    starts = [*tile_starts(**sizes), sizes["out_width"]]
    depth, row = _depth(**sizes), 20 * sizes["kernel_h"]
    tiles = sum(
        80 + row + 16 * depth if wide > 1 else 60 + row + 7 * depth for wide in np.diff(starts)
    )
    return 40 + -(-outputs // LANES) * tiles


def _depthwise_instructions(outputs: int, out_width: int, **sizes: int) -> float:
    window = Window.from_sizes({**sizes, "out_width": out_width})
    is_three = window.kernel == (3, 3)
    outside = window.part_outside if is_three else 1.0
    taps = _taps(**sizes)
    each = 30 + outside * (20 + 14 * taps) + (1 - outside) * 4 * taps
    return 60 + -(-outputs // LANES) * (50 + out_width * each)


def _tile_instructions(out_width: int, **sizes: int) -> float:
    each = 12.5 if out_width == TILE else 7
    return 90 + 15 * out_width + each * _depth(**sizes)


def _two_instructions(kernel_h: int, kernel_w: int, rows: int, pixels: int, **_: int) -> float:
    return 100 + rows * (8 + -(-pixels // 8) * (25 + 6 * kernel_h * kernel_w))


def _pack_instructions(plane_height: int, plane_width: int, **_: int) -> float:
    return 20 + plane_height * (20 + 5 * -(-plane_width // 64))


_CONTRACT = Microkernel(
    CONV,
    conv_windows,
    sizes=(*Window.SIZES, *_ENDS),
    indices=("row",),
    header="riscv/products_s8.h",
    needs=frozenset({"rv32v"}),
    alignment=(("bias", 4),),
    in_order=("result_d0", TILE),
    starts=tile_starts,
    stream=_stream(_depth),
    instructions=_conv_instructions,
    code_bytes=1000,
    struct=_SIZES,
)
_PLANES = Struct("ec_plane_sizes", gather_plane.SIZES)
_TWO = Struct(
    "ec_depthwise_sizes",
    ("kernel_h", "kernel_w", "pitch", "tap", "row_step", "rows", "step", "pixels", "channels",
     "zero_point", "minimum", "maximum"),
)  # fmt: skip
_WHOLE = replace(_CONTRACT, indices=(), in_order=None, starts=None)
for _kernel in (
    _CONTRACT,
    replace(
        _CONTRACT, name=DEPTHWISE, meaning=channel_windows, in_order=None, starts=None,
        stream=_stream(_taps), instructions=_depthwise_instructions,
    ),
    replace(
        _WHOLE, name=CONV_TILE, meaning=partial(conv_windows, 0, first=LANES), reads_first=True,
        stream=_stream(_depth, first=LANES), instructions=_tile_instructions,
    ),
    replace(
        _WHOLE, name=DEPTHWISE_TWO, meaning=depthwise_two, sizes=_TWO.members, struct=_TWO,
        alignment=(("bias", 4), ("x", 2), ("out", 2)), stream=Stream(TFLM.sources, _two_fields),
        instructions=_two_instructions,
    ),
    replace(
        _WHOLE, name=PACK, meaning=pack_two, sizes=_PLANES.members, struct=_PLANES, stream=None,
        alignment=(("x", 2), ("plane", 2)), instructions=_pack_instructions, code_bytes=200,
    ),
):  # fmt: skip
    register(_kernel)
