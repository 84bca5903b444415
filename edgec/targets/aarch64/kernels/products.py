"""Products of int8 on 64-bit Arm (`runtime_c/kernels/aarch64/`): their vectors, and costs."""

from __future__ import annotations

from functools import partial

from edgec.targets.common.kernels.products import Vectors, register_convolutions, register_depthwise
from edgec.targets.common.kernels.rescaling import HOSTED
from edgec.targets.helium.kernels.depthwise import depthwise
from edgec.targets.helium.kernels.matrix import conv

NEON = Vectors(
    "neon", frozenset({"neon"}), lanes=4, group=16, together=16, pixels=4, units=1, planes="neon",
    plane_lanes=16, halves=True, tap_pairs=True, shift_sign=1, rescalings=HOSTED, floor=True,
)  # fmt: skip
DOTPROD = Vectors(
    "dotprod", frozenset({"neon", "dotprod"}), lanes=16, group=4, together=4, pixels=5, units=1,
    planes="neon", plane_lanes=16, tap_pairs=True, shift_sign=1, rescalings=HOSTED, floor=True,
)  # fmt: skip
I8MM = Vectors(
    "i8mm", frozenset({"neon", "dotprod", "i8mm"}), lanes=16, group=8, together=8, pixels=4,
    units=1, planes="neon", plane_lanes=16, tap_pairs=True, shift_sign=1, rescalings=HOSTED,
    floor=True,
)  # fmt: skip


def vectors_of(features: frozenset[str]) -> tuple[Vectors, ...]:
    """The vectors with kernels for a core with NEON, without those that are never best."""
    if I8MM.needs <= features:  # a single pixel fills half of SMMLA, and short rows fewer groups
        return I8MM, DOTPROD
    return (DOTPROD,) if DOTPROD.needs <= features else (NEON,)


#: Instructions of a round of a tile, and of all else of a tile.
_TILE = {"neon": (60, 60), "dotprod": (80, 120), "i8mm": (54, 115)}


def _conv_instructions(
    vectors: Vectors, kernel_h: int, kernel_w: int, in_channels: int, pixels: int, channels: int,
    **_: int,
) -> float:  # fmt: skip
    """Estimate the instructions of tiles, whose rounds take sixteen inputs of each pixel."""
    tiles = -(-pixels // vectors.pixels) * -(-channels // vectors.lanes)
    rounds = kernel_h * -(-kernel_w * in_channels // vectors.group) * vectors.group / 16
    each, more = _TILE[vectors.suffix]
    return 60 + tiles * (each * rounds + more)


def _depthwise_instructions(
    kernel_h: int, kernel_w: int, rows: int, pixels: int, channels: int, **_: int
) -> float:
    sums = rows * pixels * -(-channels // NEON.plane_lanes)
    return 60 + sums * (40 + 7 * kernel_h * kernel_w)


register_convolutions(NEON, "aarch64/conv_neon_s8.h", conv, partial(_conv_instructions, NEON), 2500)
register_convolutions(
    DOTPROD, "aarch64/conv_dotprod_s8.h", conv, partial(_conv_instructions, DOTPROD), 8000
)
register_convolutions(I8MM, "aarch64/conv_i8mm_s8.h", conv, partial(_conv_instructions, I8MM), 8000)
register_depthwise(NEON, "aarch64/depthwise_s8.h", depthwise, _depthwise_instructions, 2500)
