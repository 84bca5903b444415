"""Depthwise convolutions of short windows (`runtime_c/kernels/dsp/depthwise_windows_s8.h`).

Those with other ways to rescale are in files of their own, also to int16.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.loop.define import Definition
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, register
from edgec.loop.stream import Field, Stream, rows_at
from edgec.loop.values import Value
from edgec.loop.window import Window
from edgec.numerics.term import TermLike
from edgec.targets.common.kernels.rescaling import ONNX_TO_16, RESCALINGS, TFLM, Rescaling
from edgec.targets.common.kernels.sums import Results, rescaled_sums
from edgec.targets.common.kernels.window import WINDOW_SIZES

Array = npt.NDArray[Any]

#: Inputs of a window, at most: their places lie on the stack.
MOST_TAPS = 10
#: Sums are doubled; and the zero point, shifted left by this many bits and 8, must fit in a word.
MOST_SUM, MOST_SHIFT = 1 << 30, 22
#: Channels that are computed at once.
CHANNELS = 4


def depthwise_windows(
    rescaling: Rescaling,
    pixel: TermLike,
    out_zero_point: int = 0,
    least: int | None = None,
    most: int | None = None,
    each: int = 1,
    **sizes: int,
) -> PrimFunc:
    """out[p, c] = requantized sum of the inputs of channel c in the window of pixel `pixel` + p.

    least, most: the smallest and largest result; by default the limits of their dtype. each:
    outputs of each input channel; c then counts output channels.
    """
    window = Window.from_sizes(sizes)
    (kernel_h, kernel_w), inputs = window.kernel, window.shape[2]
    channels = inputs * each
    b = Definition("depthwise_windows")
    out = b.output("out", (window.out_width, channels), rescaling.result)
    x = b.input("x", (1, *window.shape), rescaling.dtype)
    info = np.iinfo(rescaling.result)
    limits = (int(info.min) if least is None else least, int(info.max) if most is None else most)
    w = b.constant("w", (channels, kernel_h, kernel_w), "int8")

    def element(p: Any, c: Any, kh: Any, kw: Any) -> Value:
        return window.read(x, 0, p + pixel, (kh * kernel_w + kw) * inputs + c // each)

    return rescaled_sums(
        b, rescaling, out, {"kh": kernel_h, "kw": kernel_w}, element,
        lambda p, c, *k: w[c, *k], Results(out_zero_point, limits),
    )  # fmt: skip


def fits_windows(tables: Mapping[str, Array], rescaling: Rescaling) -> bool:
    """Whether the kernel can rescale the sums of these tables exactly; scales are checked."""
    w = np.abs(tables["w"].astype(np.int64)).reshape(len(tables["bias"]), -1)
    most = np.abs(tables["bias"].astype(np.int64)) + 128 * w.sum(axis=1)
    if most.max() >= MOST_SUM:
        return False
    if rescaling is not TFLM:
        return True
    shift = tables["shift"]
    return bool(shift.max() < 0 and shift.min() >= -MOST_SHIFT)


def _pairs(kernel_h: int, kernel_w: int) -> int:
    return (kernel_h * kernel_w + 1) // 2


def _tables(window: Window) -> list[int]:
    """Tables of a window's inputs, far and near; see the header."""
    (kernel_h, kernel_w), (dilation_h, dilation_w) = window.kernel, window.dilation
    _, width, channels = window.shape
    taps = [(kh * dilation_h, kw * dilation_w) for kh in range(kernel_h) for kw in range(kernel_w)]
    far = [channels * (h * width + w) for h, w in taps]
    near = [4 * t for t in range(len(taps))]
    for table in (far, near):
        table += table[: len(table) % 2]
        table[1::2] = [2 * place for place in table[1::2]]
        table[-1] |= 1
    return far + near


def _fields(
    rescaling: Rescaling, channels: int, kernel_h: int, kernel_w: int, **_: int
) -> list[Field]:
    """The constants as the header says."""
    taps, pairs = kernel_h * kernel_w, _pairs(kernel_h, kernel_w)
    lanes = np.arange(channels).reshape(-1, CHANNELS)
    w = np.pad(rows_at(lanes, taps), ((0, 0), (0, 0), (0, taps % 2)), constant_values=-1)
    # [quad, channel // 2, channel % 2, pair, tap] to [quad, pair, channel % 2, tap, channel // 2]
    split = w.reshape(-1, 2, 2, pairs, 2).transpose(0, 3, 2, 4, 1)
    found = [
        Field("place", np.arange(4 * pairs)[None]),
        Field("bias", lanes),
        Field("w", split, "int8"),
    ]
    if rescaling is TFLM:
        return [*found, Field("shift", lanes, "int8", -1, -1), Field("multiplier", lanes)]
    return [*found, Field("scale", lanes, "float32")]


def _prepare(arrays: Mapping[str, Array], **sizes: int) -> Mapping[str, Array]:
    return {**arrays, "place": np.array(_tables(Window.from_sizes(sizes)))}


def _instructions(**sizes: int) -> float:
    window = Window.from_sizes({**sizes, "padded": 1})
    quads, pairs = window.shape[2] // 4, _pairs(*window.kernel)
    each = 47 + 21 * pairs
    edge = 70 + 20 * pairs * 2
    part = window.part_outside if sizes["padded"] else 0.0
    return 100 + 9 * pairs * 2 + window.out_width * (45 + quads * (each + part * edge))


for _rescaling in (*RESCALINGS, ONNX_TO_16):
    _is_short = _rescaling in RESCALINGS  # int8 to int8
    register(
        Microkernel(
            _rescaling.kernel("depthwise_windows"),
            partial(depthwise_windows, _rescaling),
            sizes=(*Window.SIZES, *(("out_zero_point",) if _is_short else ("least", "most"))),
            indices=("pixel",),
            header=f"dsp/depthwise_windows_{_rescaling.file}",
            needs=frozenset({"dsp"}) | _rescaling.needs,
            alignment=(("bias", 4), *(() if _is_short else (("out", 4),))),
            in_order=("result_d0", 1),
            stream=Stream(_rescaling.sources, partial(_fields, _rescaling), _prepare),
            instructions=_instructions,
            code_bytes=620,
            struct=WINDOW_SIZES,
        )
    )
