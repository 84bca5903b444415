"""Products of int8 on x86 (`runtime_c/kernels/x86/`): their streams and costs.

They mean what the kernels of MVE mean. A stream holds units of as many channels as a vector has
lanes, filled up with zeros; the heads of the C files say what is in a unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from edgec.loop.microkernel import Microkernel, Stream, register
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


@dataclass(frozen=True)
class _Units:
    """How streams hold weights in chunks of a few of each channel, biases and tables."""

    vectors: Vectors
    rescaling: Rescaling

    def words(self, weights: int, channels: int) -> int:
        """Words of a stream whose channels have this many weights, zeros included."""
        lanes = self.vectors.lanes
        units = -(-channels // lanes)
        return units * (lanes * weights // 4 + lanes * (1 + len(self.rescaling.tables)))

    def pack(self, arrays: Mapping[str, Array], w: Array, bias: Array) -> Array:
        """Of weights [channels, chunks, together] and bias [channels]."""
        lanes = self.vectors.lanes
        tables = [self._entries(name, arrays[name]) for name in self.rescaling.tables]
        more = -len(bias) % lanes
        w = np.pad(w, ((0, more), (0, 0), (0, 0)))
        columns = [np.pad(t.astype(np.int64), (0, more)) for t in (bias, *tables)]
        parts: list[Array] = []
        for first in range(0, len(w), lanes):
            unit = np.ascontiguousarray(w[first : first + lanes].transpose(1, 0, 2).astype(np.int8))
            parts.append(unit.reshape(-1).view("<i4"))
            parts += [
                column[first : first + lanes].astype(np.uint32).view(np.int32) for column in columns
            ]
        return np.concatenate(parts)

    def unpack(
        self, words: Array, channels: int, chunks: int, together: int
    ) -> tuple[Array, dict[str, Array]]:
        """Weights [channels, chunks, together], and bias and tables by name."""
        lanes = self.vectors.lanes
        units = np.ascontiguousarray(words, "<i4").reshape(-(-channels // lanes), -1)
        length = lanes * chunks * together // 4
        w = np.ascontiguousarray(units[:, :length]).view(np.int8)
        w = w.reshape(-1, chunks, lanes, together).transpose(0, 2, 1, 3)
        found = {}
        for place, name in enumerate(("bias", *self.rescaling.tables)):
            first = length + place * lanes
            column = np.ascontiguousarray(units[:, first : first + lanes].reshape(-1)[:channels])
            found[name] = column
            if self.rescaling.tables.get(name) == "float32":
                found[name] = column.view(np.float32)
            elif name == "shift":
                found[name] = -column
        return w.reshape(-1, chunks, together)[:channels].astype(np.int64), found

    def _entries(self, name: str, table: Array) -> Array:
        """A table as words; results are shifted down."""
        if table.dtype.kind == "f":
            return np.ascontiguousarray(table, np.float32).view(np.int32)
        return -table.astype(np.int32) if name == "shift" else table.astype(np.int32)


def group_starts(run: int) -> list[int]:
    """The first input of each group of a run; the last one ends with the run."""
    return [min(first, run - GROUP) for first in range(0, run, GROUP)]


def _wrapped(numbers: Array) -> Array:
    return numbers.astype(np.uint64).astype(np.uint32).view(np.int32).astype(np.int64)


def _conv_stream(vectors: Vectors, rescaling: Rescaling) -> Stream:
    units = _Units(vectors, rescaling)

    def weights_of(kernel_h: int, kernel_w: int, in_channels: int) -> int:
        return kernel_h * GROUP * len(group_starts(kernel_w * in_channels))

    def words(kernel_h: int, kernel_w: int, in_channels: int, channels: int, **_: int) -> int:
        return units.words(weights_of(kernel_h, kernel_w, in_channels), channels)

    def pack(
        arrays: Mapping[str, Array], kernel_h: int, kernel_w: int, in_channels: int, channels: int,
        **_: int,
    ) -> Array:  # fmt: skip
        w = arrays["w"].reshape(channels, kernel_h, -1).astype(np.int64)
        run, starts = w.shape[2], group_starts(w.shape[2])
        groups = np.stack([w[:, :, s : s + GROUP] for s in starts], axis=2)
        groups[:, :, -1, : len(starts) * GROUP - run] = 0  # these are in the group before
        offset = vectors.offset * w.reshape(channels, -1).sum(axis=1)
        bias = _wrapped(arrays["bias"].astype(np.int64) - offset)
        return units.pack(arrays, groups.reshape(channels, -1, vectors.together), bias)

    def unpack(
        array: Array, kernel_h: int, kernel_w: int, in_channels: int, channels: int, **_: int
    ) -> Mapping[str, Array]:
        run = kernel_w * in_channels
        starts = group_starts(run)
        chunks = kernel_h * len(starts) * GROUP // vectors.together
        packed, found = units.unpack(array, channels, chunks, vectors.together)
        groups = packed.reshape(channels, kernel_h, len(starts), GROUP)
        w = np.zeros((channels, kernel_h, run), np.int64)
        for number, start in enumerate(starts):
            w[:, :, start : start + GROUP] += groups[:, :, number]
        offset = vectors.offset * w.reshape(channels, -1).sum(axis=1)
        return {**found, "w": w, "bias": _wrapped(found["bias"].astype(np.int64) + offset)}

    return Stream(rescaling.sources, words, pack, unpack)


def _depthwise_stream(vectors: Vectors, rescaling: Rescaling) -> Stream:
    units = _Units(vectors, rescaling)

    def words(kernel_h: int, kernel_w: int, channels: int, **_: int) -> int:
        return units.words(kernel_h * kernel_w, channels)

    def pack(arrays: Mapping[str, Array], channels: int, **_: int) -> Array:
        w = arrays["w"].reshape(-1, channels).T[..., np.newaxis]
        return units.pack(arrays, w, arrays["bias"].astype(np.int64))

    def unpack(
        array: Array, kernel_h: int, kernel_w: int, channels: int, **_: int
    ) -> Mapping[str, Array]:
        packed, found = units.unpack(array, channels, kernel_h * kernel_w, 1)
        return {**found, "w": packed[..., 0].T}

    return Stream(rescaling.sources, words, pack, unpack)


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
