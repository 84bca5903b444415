"""Matrix products of int8 on MVE by weights of four bits: streams.

They are in the files `matrix_s8_nibbles.h` and `matrix_s8_onnx_nibbles.h` of
`runtime_c/microkernels/mve/`, and mean what those of `edgec.loop.microkernels.mve_matrix` mean.
Their streams are the same, but that a vector of 16 bytes is a slice of two channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.loop.microkernels.mve_matrix import (
    CONV_UNIT,
    DENSE_UNIT,
    Products,
    Storage,
    conv_instructions,
    dense_instructions,
    slices_of,
)
from edgec.loop.microkernels.rescaling import RESCALINGS, Rescaling

Array = npt.NDArray[Any]

#: What the names of these kernels have behind that of the products.
NIBBLES = "_nibbles"
#: A convolution sums up fewer inputs: its sums are 16 times themselves.
MOST_DEPTH = (1 << 17) - 1


@dataclass(frozen=True)
class Nibbles(Storage):
    """Channel i of a unit in the low half of a byte, channel i + unit / 2 in the high one.

    flipped: 8 where low halves are stored as 8 more than the weight, else 0.
    """

    weights: int = 2
    flipped: int = 0

    def pack(self, slices: Array) -> Array:
        """The bytes of int8 slices [slices, channels of the unit, inputs], all in [-8, 7]."""
        low, high = np.split(slices.astype(np.uint8), 2, axis=1)
        return np.asarray((low ^ self.flipped) & 15 | high << 4)

    def unpack(self, packed: Array, unit: int, inputs: int) -> Array:
        """What `pack` was given."""
        both = packed.view(np.uint8).reshape(-1, unit // 2, inputs)
        halves = [both & 15 ^ self.flipped, both >> 4]
        return (np.concatenate(halves, axis=1) ^ 8).astype(np.int8) - np.int8(8)


def _dense_instructions(rescaling: Rescaling, depth: int, channels: int, **limits: int) -> float:
    bytes_ = dense_instructions(rescaling, depth, channels, **limits)
    return bytes_ + 20 + 3 * slices_of(depth) + 4 * -(-channels // DENSE_UNIT)


def _conv_instructions(
    rescaling: Rescaling, kernel_h: int, kernel_w: int, in_channels: int, **sizes: int
) -> float:
    bytes_ = conv_instructions(rescaling, kernel_h, kernel_w, in_channels, **sizes)
    calls = -(-sizes["pixels"] // 2) * -(-sizes["channels"] // CONV_UNIT)
    return bytes_ + calls * (2 * kernel_h * slices_of(kernel_w * in_channels) + 2)


for _rescaling in RESCALINGS:
    _header = f"mve/matrix_s8{_rescaling.suffix}{NIBBLES}.h"
    Products(_rescaling, _header, Nibbles(flipped=8), NIBBLES).register_dense(
        _dense_instructions, 760
    )
    Products(_rescaling, _header, Nibbles(), NIBBLES).register_conv(_conv_instructions, 950)
