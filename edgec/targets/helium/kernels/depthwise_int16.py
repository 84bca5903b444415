"""Depthwise convolution on MVE whose inputs or results are int16.

They are in `runtime_c/kernels/helium/depthwise_s16.h`; kernels that read int8 are in
`runtime_c/kernels/helium/depthwise_s16_of_s8_onnx.h`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.loop.microkernel import Microkernel, Struct, register
from edgec.loop.stream import Field, Stream
from edgec.targets.common.kernels.rescaling import ONNX_TO_16, TFLM16_HIGH, TFLM16_TO_8, Rescaling
from edgec.targets.helium.kernels.depthwise import IN_STREAM, block_starts, depthwise, tap_offsets
from edgec.targets.helium.kernels.matrix import table_field

Array = npt.NDArray[Any]

#: Channels in a block: a vector of int16.
BLOCK = 8
#: The channels of eight by their lanes: even ones, then odd ones.
LANES = np.array([0, 2, 4, 6, 1, 3, 5, 7])


def _fields(
    rescaling: Rescaling, kernel_h: int, kernel_w: int, channels: int, **_: int
) -> list[Field]:
    """A block's biases, where each tap is and its weights, and what rescales, four by four."""
    first = np.array(block_starts(channels, BLOCK))[:, None]
    lanes, together, same = first + LANES, first + np.arange(BLOCK), np.zeros_like(first)
    return [
        Field("bias", lanes),
        *(
            field
            for tap in range(kernel_h * kernel_w)
            for field in (Field("place", same + tap), Field("w", tap * channels + together, "int8"))
        ),
        *(
            table_field(rescaling, name, four)
            for four in np.split(lanes, 2, axis=1)
            for name in rescaling.tables
        ),
    ]


def _prepare(
    rescaling: Rescaling, arrays: Mapping[str, Array], kernel_h: int, kernel_w: int, pitch: int,
    tap: int, **_: int,
) -> Mapping[str, Array]:  # fmt: skip
    """Add the offsets of taps, in bytes."""
    places = np.array(tap_offsets(kernel_h, kernel_w, pitch, tap), np.int32)
    return {**arrays, "place": np.dtype(rescaling.dtype).itemsize * places}


def _instructions(
    kernel_h: int, kernel_w: int, rows: int, pixels: int, channels: int, **_: int
) -> float:
    each = 21 + 9 * kernel_h * kernel_w
    return 60 + rows * pixels * (20 + each * len(block_starts(channels, BLOCK)))


#: What the names of files end in whose kernels read another dtype.
_SOURCES = {ONNX_TO_16: "_of_s8_onnx"}

_TYPES = {
    **dict.fromkeys(("step", "rows", "pixels", "channels"), "uint16"),
    **dict.fromkeys(("zero_point", "minimum", "maximum"), "int16"),
    **dict.fromkeys(("kernel_h", "kernel_w"), "uint8"),
}
_STRUCT = Struct("ec_depthwise_s16_mve_sizes", ("row_step", *_TYPES), (*_TYPES.items(),), IN_STREAM)
for _rescaling in (TFLM16_HIGH, TFLM16_TO_8, ONNX_TO_16):
    _sizes = (
        "kernel_h", "kernel_w", "pitch", "tap", "row_step", "rows", "step", "pixels", "channels",
        *(("zero_point",) if _rescaling is TFLM16_TO_8 else ()), "minimum", "maximum",
    )  # fmt: skip
    register(
        Microkernel(
            _rescaling.kernel("depthwise", "mve"),
            partial(depthwise, _rescaling),
            sizes=_sizes,
            struct=_STRUCT.of(_sizes),
            header=f"helium/depthwise_s16{_SOURCES.get(_rescaling, '')}.h",
            needs=frozenset({"mve"}) | _rescaling.needs,
            alignment=(("bias", 4),),
            in_order=("result_d1", 1),
            stream=Stream(
                _rescaling.sources, partial(_fields, _rescaling), partial(_prepare, _rescaling)
            ),
            instructions=_instructions,
            code_bytes=250,
        )
    )
