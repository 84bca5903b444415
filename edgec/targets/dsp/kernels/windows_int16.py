"""Depthwise convolutions of int16 (`runtime_c/kernels/dsp/depthwise_windows_s16.h`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.loop.microkernel import Microkernel, Stream, register
from edgec.loop.window import Window
from edgec.targets.common.kernels.rescaling import TFLM16_HIGH, TFLM16_TO_8
from edgec.targets.dsp.kernels.windows import CHANNELS, depthwise_windows

Array = npt.NDArray[Any]

#: Taps of a window's row, at most.
MOST_COLUMNS = 8
#: Words that a channel is rescaled by.
SCALE_WORDS = 3


def _words(channels: int, kernel_h: int, kernel_w: int, **_: int) -> int:
    own = CHANNELS + 2 * kernel_h * kernel_w + SCALE_WORDS * CHANNELS
    return channels // CHANNELS * own


def _pack(arrays: Mapping[str, Array], channels: int, **_: int) -> Array:
    """The constants as the header says."""
    quads = channels // CHANNELS
    shift = arrays["shift"].astype(np.int64)
    w = arrays["w"].reshape(quads, CHANNELS, -1).transpose(0, 2, 1)
    scales = np.stack([arrays["multiplier"], 1 << (shift - 1), shift], axis=1)
    parts = [
        arrays["bias"].reshape(quads, -1),
        np.ascontiguousarray(w.astype(np.int16)).view("<i4").reshape(quads, -1),
        scales.reshape(quads, -1),
    ]
    return np.concatenate(parts, axis=1).reshape(-1).astype(np.int32)


def _unpack(
    words: Array, channels: int, kernel_h: int, kernel_w: int, **_: int
) -> Mapping[str, Array]:
    """The constants in a stream by their names in the meaning."""
    quads, taps = channels // CHANNELS, kernel_h * kernel_w
    parts = words.astype("<i4").reshape(quads, -1)
    bias, weights, scales = np.split(parts, [CHANNELS, CHANNELS + 2 * taps], axis=1)
    w = np.ascontiguousarray(weights).view("<i2").reshape(quads, taps, CHANNELS)
    by_channel = scales.reshape(channels, SCALE_WORDS)
    return {
        "bias": bias.reshape(-1),
        "w": w.transpose(0, 2, 1).reshape(-1),
        "multiplier": by_channel[:, 0],
        "shift": by_channel[:, 2],
    }


def _instructions(**sizes: int) -> float:
    window = Window.from_sizes({**sizes, "padded": 1})
    kernel_h, kernel_w = window.kernel
    each = 40 + kernel_h * (5 + 7 * kernel_w)
    return 60 + window.out_width * (90 + window.shape[2] // CHANNELS * each)


#: The products in the names of kernels; those of WINDOWS with results of int16 know but two ranges.
WINDOWS, LIMITED = "depthwise_windows", "depthwise_windows_limited"
for _products, _rescaling, _ends, _aligned in (
    (WINDOWS, TFLM16_HIGH, ("least",), ("out", "x", "bias")),
    (LIMITED, TFLM16_HIGH, ("least", "most"), ("out", "x", "bias")),
    (WINDOWS, TFLM16_TO_8, ("out_zero_point", "least", "most"), ("x", "bias")),
):
    register(
        Microkernel(
            _rescaling.kernel(_products),
            partial(depthwise_windows, _rescaling),
            sizes=(*Window.SIZES, *_ends),
            indices=("pixel",),
            header="dsp/depthwise_windows_s16.h",
            needs=frozenset({"dsp"}),
            alignment=tuple((name, 4) for name in _aligned),
            in_order=("out_w", 1),
            stream=Stream(_rescaling.sources, words=_words, pack=_pack, unpack=_unpack),
            instructions=_instructions,
            code_bytes=850,
        )
    )
