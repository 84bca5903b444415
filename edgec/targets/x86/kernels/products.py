"""Products of int8 on x86 (`runtime_c/kernels/x86/`): their vectors, and costs."""

from __future__ import annotations

from functools import partial

from edgec.targets.common.kernels.products import Vectors, register_convolutions, register_depthwise
from edgec.targets.common.kernels.rescaling import HOSTED
from edgec.targets.helium.kernels.depthwise import depthwise
from edgec.targets.helium.kernels.matrix import conv

#: Inputs of a group, whose products by a channel's weights are added at once.
GROUP = 4
#: The offset of VPDPBUSD's inputs from int8.
OFFSET = 128


def _tile_starts(pixels: int, channels: int, **_: int) -> list[int]:
    """Return the first pixels of tiles of six, four, two and one; the last eight are twice four; of
    eight first for up to 48 channels, of sixteen for up to 16.
    """
    widths = (
        (16, 8, 4, 2, 1) if channels <= 16 else (8, 4, 2, 1) if channels <= 48 else (6, 4, 2, 1)
    )
    starts, first = [], 0
    while first < pixels:
        left = pixels - first
        starts.append(first)
        first += next(w for w in widths if w <= left and not (left == 8 and w == 6))
    return starts


VNNI = Vectors(
    "vnni", frozenset({"avx2", "avx512", "vnni"}), lanes=16, group=GROUP, together=4, pixels=6,
    units=4, planes="vnni", plane_lanes=16, offset=OFFSET, rescalings=HOSTED, sums=True,
    starts=_tile_starts, lines=True,
)  # fmt: skip
AVX2 = Vectors(
    "avx2", frozenset({"avx2"}), lanes=8, group=GROUP, together=2, pixels=4, units=2,
    planes="avx2", plane_lanes=8, rescalings=HOSTED, sums=True,
)  # fmt: skip


def vectors_of(features: frozenset[str]) -> tuple[Vectors]:
    """The widest vectors that a core with AVX2 has kernels for."""
    return (VNNI,) if VNNI.needs <= features else (AVX2,)


def _conv_instructions(
    vectors: Vectors, kernel_h: int, kernel_w: int, in_channels: int, pixels: int, channels: int,
    **_: int,
) -> float:  # fmt: skip
    """Estimate tiles: a round of a group takes its inputs, its weights and its products."""
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
    sums = rows * pixels * -(-channels // vectors.plane_lanes)
    return 60 + sums * (30 + 4 * kernel_h * kernel_w)


for _vectors in (VNNI, AVX2):
    register_convolutions(
        _vectors, "x86/conv_s8.h", conv, partial(_conv_instructions, _vectors), 9000
    )
    register_depthwise(
        _vectors, "x86/depthwise_s8.h", depthwise, partial(_depthwise_instructions, _vectors), 2000
    )
