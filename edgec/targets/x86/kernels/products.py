"""Products of int8 on x86 (`runtime_c/kernels/x86/`): their streams and costs.

They mean what the kernels of MVE mean. A stream holds units of as many channels as a vector has
lanes, filled up with zeros; the heads of the C files say what is in a unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from edgec.loop.microkernel import Microkernel, register
from edgec.loop.stream import Field, Stream
from edgec.loop.values import Array
from edgec.targets.common.kernels.rescaling import RESCALINGS, Rescaling
from edgec.targets.helium.kernels.depthwise import depthwise
from edgec.targets.helium.kernels.matrix import conv

#: Inputs of a group, whose products by a channel's weights are added at once.
GROUP = 4
#: What VPDPBUSD's inputs are more than int8.
OFFSET = 128


@dataclass(frozen=True)
class Vectors:
    """The vectors of a core.

    suffix: what the names of kernels end in. together: weights of a group that lie together of one
    channel. offset: what inputs are more than int8. pixels, units: of a tile of a convolution.
    """

    suffix: str
    needs: frozenset[str]
    lanes: int
    together: int
    offset: int
    pixels: int
    units: int


VNNI = Vectors("vnni", frozenset({"avx2", "avx512", "vnni"}), 16, 4, OFFSET, 6, 4)
AVX2 = Vectors("avx2", frozenset({"avx2"}), 8, 2, 0, 4, 2)


def vectors_of(features: frozenset[str]) -> Vectors:
    """The widest vectors that a core with AVX2 has kernels for."""
    return VNNI if VNNI.needs <= features else AVX2


def group_starts(run: int) -> list[int]:
    """The first input of each group of a run; the last one ends with the run."""
    return [min(first, run - GROUP) for first in range(0, run, GROUP)]


def _groups_at(kernel_h: int, kernel_w: int, in_channels: int) -> Array:
    """Where the weights of a channel lie for groups; -1 where they are in the group before."""
    run = kernel_w * in_channels
    at = np.arange(kernel_h)[:, None, None] * run + _group_places(run)
    at[:, -1, : -run % GROUP] = -1
    return np.asarray(at.reshape(-1))


def _group_places(run: int) -> Array:
    return np.array(group_starts(run))[:, None] + np.arange(GROUP)


def _fields(
    vectors: Vectors, rescaling: Rescaling, channels: int, at: Array, steps: tuple[int, int]
) -> list[Field]:
    """Units of as many channels as a vector has lanes: weights, biases and tables.

    at: [chunks, weights of a chunk] of a channel, -1 for zeros. steps: from one of these, and from
    one channel, to the next in the constant.
    """
    lanes = np.arange(-(-channels // vectors.lanes) * vectors.lanes).reshape(-1, vectors.lanes)
    w = at[:, None] * steps[0] + lanes[:, None, :, None] * steps[1]
    is_used = (at[:, None] >= 0) & (lanes < channels)[:, None, :, None]
    lanes = np.where(lanes < channels, lanes, -1)
    return [
        Field("w", np.where(is_used, w, -1), "int8"),
        Field("moved_bias", lanes),
        *(
            Field(
                name, lanes, dtype if dtype == "float32" else "int32", -1 if name == "shift" else 1
            )
            for name, dtype in rescaling.tables.items()
        ),
    ]


def _bias_change(vectors: Vectors, sign: int, old: str, new: str) -> Callable[..., Any]:
    """Biases without what offsets of inputs add to sums (sign -1), or with it."""

    def change(arrays: Mapping[str, Array], channels: int, **_: int) -> Mapping[str, Array]:
        moved = vectors.offset * arrays["w"].reshape(channels, -1).sum(axis=1, dtype=np.int64)
        bias = arrays[old].astype(np.int64) + sign * moved
        return {**arrays, new: bias.astype(np.uint32).view(np.int32)}

    return change


def _conv_stream(vectors: Vectors, rescaling: Rescaling) -> Stream:
    def fields(
        kernel_h: int, kernel_w: int, in_channels: int, channels: int, **_: int
    ) -> list[Field]:
        at = _groups_at(kernel_h, kernel_w, in_channels).reshape(-1, vectors.together)
        inputs = kernel_h * kernel_w * in_channels
        return _fields(vectors, rescaling, channels, at, (1, inputs))

    return Stream(
        rescaling.sources,
        fields,
        _bias_change(vectors, -1, "bias", "moved_bias"),
        _bias_change(vectors, 1, "moved_bias", "bias"),
    )


def _depthwise_stream(vectors: Vectors, rescaling: Rescaling) -> Stream:
    def fields(kernel_h: int, kernel_w: int, channels: int, **_: int) -> list[Field]:
        taps = np.arange(kernel_h * kernel_w)[:, None]
        return _fields(vectors, rescaling, channels, taps, (channels, 1))

    return Stream(
        rescaling.sources,
        fields,
        lambda arrays, **_: {**arrays, "moved_bias": arrays["bias"]},
        lambda found, **_: {**found, "bias": found["moved_bias"]},
    )


def _conv_instructions(
    vectors: Vectors, kernel_h: int, kernel_w: int, in_channels: int, pixels: int, channels: int,
    **_: int,
) -> float:  # fmt: skip
    """Of tiles: a round of a group takes its inputs, its weights and its products."""
    units = -(-channels // vectors.lanes)
    groups = kernel_h * -(-kernel_w * in_channels // GROUP)
    dots = 4 // vectors.together * (2 if vectors is AVX2 else 1)
    inputs = 3 if vectors.offset else 4
    tiles = pixels / vectors.pixels * -(-units // vectors.units)
    each = inputs / min(units, vectors.units) + 1 / min(pixels, vectors.pixels) + dots
    return 60 + 40 * tiles + pixels * units * (each * groups + 24)


def _depthwise_instructions(
    vectors: Vectors, kernel_h: int, kernel_w: int, rows: int, pixels: int, channels: int, **_: int
) -> float:
    sums = rows * pixels * -(-channels // vectors.lanes)
    return 60 + sums * (30 + 4 * kernel_h * kernel_w)


_SIZES = ("zero_point", "minimum", "maximum")
_CONV = ("kernel_h", "kernel_w", "in_channels", "pitch", "step", "pixels", "channels", *_SIZES)
_DEPTHWISE = (
    "kernel_h", "kernel_w", "pitch", "tap", "row_step", "rows", "step", "pixels", "channels",
    *_SIZES,
)  # fmt: skip


def _register(vectors: Vectors, rescaling: Rescaling) -> None:
    common: dict[str, Any] = {"needs": vectors.needs, "alignment": (("bias", 4),)}
    register(
        Microkernel(
            rescaling.kernel("conv", vectors.suffix),
            partial(conv, rescaling),
            sizes=_CONV,
            header="x86/conv_s8.h",
            stream=_conv_stream(vectors, rescaling),
            in_order=("out_p", vectors.pixels),
            instructions=partial(_conv_instructions, vectors),
            code_bytes=9000,
            **common,
        )
    )
    register(
        Microkernel(
            rescaling.kernel("depthwise", vectors.suffix),
            partial(depthwise, rescaling),
            sizes=_DEPTHWISE,
            header="x86/depthwise_s8.h",
            stream=_depthwise_stream(vectors, rescaling),
            instructions=partial(_depthwise_instructions, vectors),
            code_bytes=2000,
            **common,
        )
    )


for _vectors in (VNNI, AVX2):
    for _rescaling in RESCALINGS:
        _register(_vectors, _rescaling)
