"""Depthwise convolution on MVE whose inputs or results are int16.

They are in `runtime_c/kernels/helium/depthwise_s16.h`, those that read int8 in
`runtime_c/kernels/helium/depthwise_s16_of_s8_onnx.h`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.loop.microkernel import Microkernel, Stream, register
from edgec.targets.common.kernels.rescaling import ONNX_TO_16, TFLM16_HIGH, TFLM16_TO_8, Rescaling
from edgec.targets.helium.kernels.depthwise import block_starts, depthwise, tap_offsets

Array = npt.NDArray[Any]

#: Channels in a block: a vector of int16.
BLOCK = 8
#: The channels of eight by their lanes: even ones, then odd ones.
LANES = np.array([0, 2, 4, 6, 1, 3, 5, 7])
#: Words of a tap: where it is and its weights.
TAP_WORDS = 1 + BLOCK // 4


def _pack(
    rescaling: Rescaling,
    arrays: Mapping[str, Array],
    kernel_h: int,
    kernel_w: int,
    pitch: int,
    tap: int,
    **_: int,
) -> Array:
    """The constants in the order of use, as int32 words."""
    w = arrays["w"].reshape(kernel_h * kernel_w, -1)
    item_bytes = np.dtype(rescaling.dtype).itemsize
    offsets = item_bytes * np.array(tap_offsets(kernel_h, kernel_w, pitch, tap), np.int32)
    parts: list[Array] = []
    for first in block_starts(w.shape[1], BLOCK):
        lanes = first + LANES
        weights = np.ascontiguousarray(w[:, first : first + BLOCK]).view("<i4")
        scales = [
            rescaling.words(name, arrays[name][lanes]).reshape(2, 4) for name in rescaling.tables
        ]
        parts.append(arrays["bias"][lanes])
        parts.append(np.concatenate([offsets[:, None], weights], axis=1).reshape(-1))
        parts.append(np.stack(scales, axis=1).reshape(-1))
    return np.concatenate(parts).astype(np.int32)


def _unpack(
    rescaling: Rescaling, words: Array, kernel_h: int, kernel_w: int, channels: int, **_: int
) -> Mapping[str, Array]:
    """The constants in a stream by their names in the meaning."""
    taps = kernel_h * kernel_w
    found: dict[str, Array] = {
        "bias": np.zeros(channels, np.int32),
        "w": np.zeros((taps, channels), np.int8),
        **{name: np.zeros(channels, dtype) for name, dtype in rescaling.tables.items()},
    }
    blocks = words.reshape(-1, _block_words(rescaling, taps))
    for first, part in zip(block_starts(channels, BLOCK), blocks, strict=True):
        lanes = first + LANES
        bias, products, scales = np.split(part, [BLOCK, BLOCK + TAP_WORDS * taps])
        weights = np.ascontiguousarray(products.reshape(taps, TAP_WORDS)[:, 1:], "<i4")
        found["bias"][lanes] = bias
        found["w"][:, first : first + BLOCK] = weights.view(np.int8)
        for place, name in enumerate(rescaling.tables):
            entries = scales.reshape(2, -1, 4)[:, place].reshape(-1)
            found[name][lanes] = rescaling.entries(name, entries)
    return found


def _block_words(rescaling: Rescaling, taps: int) -> int:
    return BLOCK + TAP_WORDS * taps + BLOCK * len(rescaling.tables)


def _words(rescaling: Rescaling, kernel_h: int, kernel_w: int, channels: int, **_: int) -> int:
    return len(block_starts(channels, BLOCK)) * _block_words(rescaling, kernel_h * kernel_w)


def _instructions(
    kernel_h: int, kernel_w: int, rows: int, pixels: int, channels: int, **_: int
) -> float:
    each = 21 + 9 * kernel_h * kernel_w
    return 60 + rows * pixels * (20 + each * len(block_starts(channels, BLOCK)))


#: What the names of files end in whose kernels read another dtype.
_SOURCES = {ONNX_TO_16: "_of_s8_onnx"}

for _rescaling in (TFLM16_HIGH, TFLM16_TO_8, ONNX_TO_16):
    register(
        Microkernel(
            _rescaling.kernel("depthwise", "mve"),
            partial(depthwise, _rescaling),
            sizes=(
                "kernel_h", "kernel_w", "pitch", "tap", "row_step", "rows", "step", "pixels",
                "channels", *(("zero_point",) if _rescaling is TFLM16_TO_8 else ()), "minimum",
                "maximum",
            ),
            header=f"helium/depthwise_s16{_SOURCES.get(_rescaling, '')}.h",
            needs=frozenset({"mve"}) | _rescaling.needs,
            alignment=(("bias", 4),),
            in_order=("out_p", 1),
            stream=Stream(
                _rescaling.sources,
                words=partial(_words, _rescaling),
                pack=partial(_pack, _rescaling),
                unpack=partial(_unpack, _rescaling),
            ),
            instructions=_instructions,
            code_bytes=250,
        )
    )  # fmt: skip
