"""Windows of 3 x 3 of int8 by the method of Winograd: `runtime_c/kernels/aarch64/winograd_s8.h`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from edgec.loop.define import Definition
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Struct, register
from edgec.loop.primitives.winograd import TILES
from edgec.loop.stream import Field, Stream
from edgec.loop.values import Array
from edgec.targets.common.kernels.rescaling import HOSTED, Rescaling
from edgec.targets.common.kernels.sums import Results, rescaled_sums

#: Tiles of 2 x 2 outputs that are multiplied together; channels of a unit.
TOGETHER, UNIT = 4, 16
#: Inputs that are transformed together, and the most input channels: their tiles are on the stack,
#: and four times a sum is at most 16 * 512 * 1152 times the channels, which fits in int32.
INPUTS, MOST_INPUTS = 8, 128
#: Twice the matrix that transforms weights, so that it is an integer.
_APART = 2 * np.array(TILES[2].apart)
_SIZES = ("in_channels", "rows", "pixels", "channels", "zero_point", "minimum", "maximum")


def tiles(
    rescaling: Rescaling, in_channels: int, rows: int, pixels: int, channels: int, **limits: int
) -> PrimFunc:
    """out[h, p, o] = requantized bias[o] + sum of x[h + kh, p + kw, i] * w[o, kh, kw, i]."""
    b = Definition("tiles")
    out = b.output("out", (rows, pixels, channels), rescaling.result)
    x = b.input("x", (rows + 2, pixels + 2, in_channels), rescaling.dtype)
    w = b.constant("w", (channels, 3, 3, in_channels), "int8")
    return rescaled_sums(
        b, rescaling, out, {"kh": 3, "kw": 3, "ic": in_channels},
        lambda h, p, c, kh, kw, ic: x[h + kh, p + kw, ic], lambda h, p, c, *k: w[c, *k],
        Results.within(**limits),
    )  # fmt: skip


def _stream(rescaling: Rescaling) -> Stream:
    """Units of channels: four times the transformed weights, biases and tables."""

    def fields(in_channels: int, channels: int, **_: int) -> list[Field]:
        lanes = np.arange(channels).reshape(-1, UNIT)
        steps = np.arange(16 * in_channels)[:, None]  # places, then input channels
        return [
            Field("tiles", lanes[:, None] * 16 * in_channels + steps, "int16"),
            Field("bias", lanes),
            *(
                Field(name, lanes, dtype if dtype == "float32" else "int32")
                for name, dtype in rescaling.tables.items()
            ),
        ]

    def prepare(arrays: Mapping[str, Array], in_channels: int, **_: int) -> Mapping[str, Array]:
        w = arrays["w"].reshape(-1, 3, 3, in_channels).astype(np.int64)
        return {**arrays, "tiles": np.rint(_both(_APART, w)).astype(np.int16)}

    def restore(found: Mapping[str, Array], in_channels: int, **_: int) -> Mapping[str, Array]:
        found_tiles = found["tiles"].reshape(-1, 4, 4, in_channels)
        return {**found, "w": np.rint(_both(np.linalg.pinv(_APART), found_tiles)).astype(np.int64)}

    return Stream(rescaling.sources, fields, prepare, restore)


def _both(matrix: Array, w: Array) -> Array:
    """Rows and columns of w [channels, rows, columns, inputs] times a matrix."""
    return np.asarray(np.einsum("ai,bj,oijc->oabc", matrix, matrix, w, optimize=True))


def _instructions(in_channels: int, rows: int, pixels: int, channels: int, **_: int) -> float:
    """Instructions of tiles: input transforms, then each unit's products and output transforms."""
    units, groups = channels / UNIT, -(-rows * pixels // (4 * TOGETHER))
    products = 16 * (40 + 142 * in_channels / INPUTS)
    return 100 + groups * (TOGETHER * 80 * in_channels / INPUTS + units * (products + 1300))


for _rescaling in HOSTED:
    register(
        Microkernel(
            _rescaling.kernel("winograd", "neon"), partial(tiles, _rescaling), _SIZES,
            "aarch64/winograd_s8.h", frozenset({"neon"}), alignment=(("bias", 4),),
            stream=_stream(_rescaling), instructions=_instructions, code_bytes=6200,
            struct=Struct("ec_winograd_sizes", _SIZES),
        )
    )  # fmt: skip
