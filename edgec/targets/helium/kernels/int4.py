"""Matrix products of int8 on MVE by int4 weights: streams.

They are in the files `matrix_s8_int4.h` and `matrix_s8_onnx.h` of
`runtime_c/kernels/helium/`, and have the meanings of `edgec.targets.helium.kernels.matrix`.
Their streams are the same, except that a vector of 16 bytes is a slice of two channels. Kernels of
`matrix_s8_onnx_groups.h` take numbers of four bits with a shift for some slices of a channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.loop.primitives.shifts import shared_shifts, without_shifts
from edgec.loop.stream import Digits, Field
from edgec.targets.common.kernels.rescaling import ONNX, RESCALINGS, Rescaling
from edgec.targets.helium.kernels.matrix import (
    CONV,
    CONV_UNIT,
    DENSE,
    DENSE_UNIT,
    SLICE,
    Products,
    Storage,
    conv_instructions,
    dense_instructions,
    slices_of,
)

Array = npt.NDArray[Any]

#: The part of a kernel's name after its products.
INT4, GROUPS = "_s4", "_groups"
#: Slices that share a shift, at most.
MOST_STEP = 4
#: A convolution sums up fewer inputs: its sums are 16 times themselves.
MOST_DEPTH = (1 << 17) - 1


@dataclass(frozen=True)
class Int4(Storage):
    """Channel i of a unit in the low half of a byte, channel i + unit / 2 in the high one.

    flipped: 8 where low halves are stored as 8 more than the weight, else 0.
    """

    weights: int = 2
    flipped: int = 0

    def fields(self, slices: Array, count: int) -> list[Field]:
        """Both halves of each byte."""
        both = np.stack(np.split(slices, 2, axis=2), axis=-1)
        return [Digits("w", both, "uint8", (1, 16), (self.flipped, 0))]


@dataclass(frozen=True)
class Groups(Int4):
    """Int4 weights, and after every `count` slices a byte for each channel: its sums' left shift.

    Sums of low halves are 16 times themselves.
    """

    def fields(self, slices: Array, count: int) -> list[Field]:
        """Digits and shifts of step after step."""
        # The first input of a step says which step of its channel it is.
        first = slices[:, ::count, :, 0] // (count * SLICE)
        low = np.repeat([4, 0], slices.shape[2] // 2)
        steps = np.split(slices, len(first[0]), axis=1)
        return [
            field
            for number, step in enumerate(steps)
            for field in (
                *super(Groups, self).fields(step, count),
                Field("w_shift", first[:, number], "int8", plus=-low),
            )
        ]

    def prepare(self, arrays: Mapping[str, Array], count: int) -> Mapping[str, Array]:
        """Weights without their shifts, and these."""
        w = arrays["w"]
        steps = w.reshape(len(w), -1, count * SLICE)
        shifts = shared_shifts(steps)
        digits = without_shifts(steps.reshape(len(w), -1), shifts)
        return {**arrays, "w": digits, "w_shift": shifts}

    def restore(self, found: Mapping[str, Array], count: int) -> Mapping[str, Array]:
        """Weights with their shifts."""
        steps = found["w"].reshape(-1, count * SLICE)
        return {**found, "w": steps << found["w_shift"].reshape(-1, 1)}


def step_of(w: Array) -> int:
    """Slices of the longest steps that int8 weights [channels, runs, run] allow, or 0.

    Steps divide runs, and the weights of each have four bits and a shift.
    """
    channels, runs, run = w.shape
    for step in range(MOST_STEP, 0, -1):
        size = step * SLICE
        if run % size == 0:
            parts = w.reshape(channels, runs * run // size, size)
            if shared_shifts(parts).min(initial=0) >= 0:
                return step
    return 0


def _dense_instructions(rescaling: Rescaling, depth: int, channels: int, **limits: int) -> float:
    bytes_ = dense_instructions(rescaling, depth, channels, **limits)
    return bytes_ + 20 + 3 * slices_of(depth) + 4 * -(-channels // DENSE_UNIT)


def _conv_instructions(
    rescaling: Rescaling, kernel_h: int, kernel_w: int, in_channels: int, **sizes: int
) -> float:
    bytes_ = conv_instructions(rescaling, kernel_h, kernel_w, in_channels, **sizes)
    calls = -(-sizes["pixels"] // 2) * -(-sizes["channels"] // CONV_UNIT)
    return bytes_ + calls * (2 * kernel_h * slices_of(kernel_w * in_channels) + 2)


def _dense_steps(
    rescaling: Rescaling, depth: int, channels: int, slices: int, **limits: int
) -> float:
    bytes_ = dense_instructions(rescaling, depth, channels, **limits)
    count = slices_of(depth)
    return bytes_ + -(-channels // DENSE_UNIT) * (4 * count + 12 * count // slices)


def _conv_steps(
    rescaling: Rescaling, kernel_h: int, kernel_w: int, in_channels: int, slices: int, **sizes: int
) -> float:
    bytes_ = conv_instructions(rescaling, kernel_h, kernel_w, in_channels, **sizes)
    calls = -(-sizes["pixels"] // 2) * -(-sizes["channels"] // CONV_UNIT)
    count = kernel_h * slices_of(kernel_w * in_channels)
    return bytes_ + calls * (2 * count + 13 * count // slices)


for _rescaling in RESCALINGS:
    _header = f"helium/matrix_s8{_rescaling.suffix or '_int4'}.h"
    Products(_rescaling, _header, Int4(flipped=8), INT4).register(DENSE, _dense_instructions, 760)
    Products(_rescaling, _header, Int4(), INT4).register(CONV, _conv_instructions, 950)
_products = Products(
    ONNX, f"helium/matrix_s8{ONNX.suffix}{GROUPS}.h", Groups(), GROUPS, more=("slices",)
)
_products.register(DENSE, _dense_steps, 760)
_products.register(CONV, _conv_steps, 950)
