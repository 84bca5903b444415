"""Depthwise convolution of int16 on MVE (`runtime_c/microkernels/mve/depthwise_s16.h`).

Of its results, too, or to int8.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.loop.microkernel import Microkernel, Stream, register
from edgec.loop.microkernels.mve_depthwise import block_starts, depthwise, tap_offsets
from edgec.loop.microkernels.mve_matrix import slice_of
from edgec.loop.microkernels.rescaling import TFLM16_HIGH, TFLM16_TO_8

Array = npt.NDArray[Any]

SLICE = slice_of(TFLM16_HIGH)
#: The channels of eight by their lanes: even ones, then odd ones.
LANES = np.array([0, 2, 4, 6, 1, 3, 5, 7])
#: Words of a tap, where it is and its weights, and what scales take of them.
TAP_WORDS, SCALE_WORDS = 1 + SLICE // 4, 2 * SLICE
ITEM_BYTES = 2


def _pack(
    arrays: Mapping[str, Array], kernel_h: int, kernel_w: int, pitch: int, tap: int, **_: int
) -> Array:
    """The constants in the order of use, as int32 words."""
    w = arrays["w"].reshape(kernel_h * kernel_w, -1)
    offsets = ITEM_BYTES * np.array(tap_offsets(kernel_h, kernel_w, pitch, tap), np.int32)
    parts: list[Array] = []
    for first in block_starts(w.shape[1], SLICE):
        lanes = first + LANES
        weights = np.ascontiguousarray(w[:, first : first + SLICE]).view("<i4")
        scales = [
            TFLM16_HIGH.words(name, arrays[name][lanes]).reshape(2, 4)
            for name in TFLM16_HIGH.tables
        ]
        parts.append(arrays["bias"][lanes])
        parts.append(np.concatenate([offsets[:, None], weights], axis=1).reshape(-1))
        parts.append(np.stack(scales, axis=1).reshape(-1))
    return np.concatenate(parts).astype(np.int32)


def _unpack(
    words: Array, kernel_h: int, kernel_w: int, channels: int, **_: int
) -> Mapping[str, Array]:
    """The constants in a stream by their names in the meaning."""
    taps = kernel_h * kernel_w
    found: dict[str, Array] = {
        "bias": np.zeros(channels, np.int32),
        "w": np.zeros((taps, channels), np.int8),
        **{name: np.zeros(channels, dtype) for name, dtype in TFLM16_HIGH.tables.items()},
    }
    for first, part in zip(
        block_starts(channels, SLICE), words.reshape(-1, _block_words(taps)), strict=True
    ):
        lanes = first + LANES
        bias, products, scales = np.split(part, [SLICE, SLICE + TAP_WORDS * taps])
        weights = np.ascontiguousarray(products.reshape(taps, TAP_WORDS)[:, 1:], "<i4")
        found["bias"][lanes] = bias
        found["w"][:, first : first + SLICE] = weights.view(np.int8)
        for place, name in enumerate(TFLM16_HIGH.tables):
            entries = scales.reshape(2, 2, 4)[:, place].reshape(-1)
            found[name][lanes] = TFLM16_HIGH.entries(name, entries)
    return found


def _block_words(taps: int) -> int:
    return SLICE + TAP_WORDS * taps + SCALE_WORDS


def _words(kernel_h: int, kernel_w: int, channels: int, **_: int) -> int:
    return len(block_starts(channels, SLICE)) * _block_words(kernel_h * kernel_w)


def _instructions(
    kernel_h: int, kernel_w: int, rows: int, pixels: int, channels: int, **_: int
) -> float:
    each = 21 + 9 * kernel_h * kernel_w
    return 60 + rows * pixels * (20 + each * len(block_starts(channels, SLICE)))


for _rescaling in (TFLM16_HIGH, TFLM16_TO_8):
    register(
        Microkernel(
            _rescaling.kernel("depthwise", "mve"),
            partial(depthwise, _rescaling),
            sizes=(
                "kernel_h", "kernel_w", "pitch", "tap", "row_step", "rows", "step", "pixels",
                "channels", *(("zero_point",) if _rescaling is TFLM16_TO_8 else ()), "minimum",
                "maximum",
            ),
            header="mve/depthwise_s16.h",
            needs=frozenset({"mve"}),
            alignment=(("bias", 4),),
            in_order=("out_p", 1),
            stream=Stream(_rescaling.sources, words=_words, pack=_pack, unpack=_unpack),
            instructions=_instructions,
            code_bytes=250,
        )
    )  # fmt: skip
