"""Windows of 3 x 3 of int8 by the method of Winograd (`runtime_c/kernels/dsp/tiles_s8.h`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from edgec.loop.define import Definition
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Struct, register
from edgec.loop.stream import Field, Stream, lanes_of, rows_at
from edgec.loop.values import Array
from edgec.loop.window import Window
from edgec.targets.common.kernels.rescaling import ONNX, RESCALINGS, TFLM, Rescaling
from edgec.targets.common.kernels.sums import Results, rescaled_sums
from edgec.targets.dsp.kernels.matrix import PAIR, add_constants, scale_fields

#: Pixels of outputs that are computed together. Input channels are a multiple of INPUTS, and at
#: most MOST_INPUTS, because transformed inputs are on the stack.
WIDTH, INPUTS, MOST_INPUTS = 8, 8, 64
#: How many rows of transformed inputs there is room for, times their channels.
_ROOM = 3 * MOST_INPUTS
#: What transforms three weights of a row, in the order of passes; all are integers.
_APART = np.array([[1, 1, 1], [1, -1, 1], [2, 0, 0], [0, 0, -2]])
#: Twice what transforms them back.
_BACK = np.array([[0, 0, 1, 0], [1, -1, 0, 0], [0, 0, 0, -1]])
_SIZES = (
    "height", "width", "in_channels", "top", "left", "rows", "pixels", "channels", "fill",
    "zero_point",
)  # fmt: skip


def tiles(
    rescaling: Rescaling,
    in_channels: int,
    rows: int,
    pixels: int,
    channels: int,
    zero_point: int,
    **image: int,
) -> PrimFunc:
    """out[h, p, o] = requantized bias[o] + sum of x[h + kh, p + kw, i] * w[o, kh, kw, i].

    image: the height and width of x, where windows begin, and the value outside of x.
    """
    window = _window(in_channels, rows, pixels, **image)
    b = Definition("tiles")
    out = b.output("out", (rows, pixels, channels), rescaling.result)
    x = b.input("x", (1, *window.shape), rescaling.dtype)
    w = b.constant("w", (channels, 3, 3, in_channels), "int8")
    return rescaled_sums(
        b, rescaling, out, {"kh": 3, "kw": 3, "ic": in_channels},
        lambda h, p, c, *k: window.tap(x, 0, h, p, *k), lambda h, p, c, *k: w[c, *k],
        Results(zero_point),
    )  # fmt: skip


def _window(
    in_channels: int, rows: int, pixels: int, height: int, width: int, top: int, left: int,
    fill: int,
) -> Window:  # fmt: skip
    is_inside = top == left == 0 and rows + 2 <= height and pixels + 2 <= width
    shape, corner = (height, width, in_channels), (top, left)
    return Window(shape, (3, 3), (1, 1), (1, 1), corner, pixels, not is_inside, fill)


def _stream(rescaling: Rescaling) -> Stream:
    """Pairs of channels: twice the biases, the transformed weights, what rescales."""

    def fields(in_channels: int, channels: int, zero_point: int, **_: int) -> list[Field]:
        lanes = lanes_of(channels, PAIR)
        # [pairs, channel, pass and row, quad, pair of the quad, element of the pair]
        at = rows_at(lanes, 12 * in_channels).reshape(len(lanes), PAIR, 12, -1, 2, 2)
        return [
            Field("bias", lanes, times=2),
            Field("tiles", at.transpose(0, 2, 3, 5, 1, 4), "int16"),
            *_rescale(rescaling, lanes, zero_point),
        ]

    def prepare(arrays: Mapping[str, Array], in_channels: int, **sizes: int) -> Mapping[str, Array]:
        w = arrays["w"].reshape(-1, 3, 3, in_channels).astype(np.int64)
        made = np.einsum("pw,ohwi->ophi", _APART, w)
        return {**add_constants(arrays, **sizes), "tiles": made.astype(np.int16)}

    def restore(found: Mapping[str, Array], in_channels: int, **_: int) -> Mapping[str, Array]:
        made = found["tiles"].reshape(-1, 4, 3, in_channels)
        return {**found, "w": np.einsum("wp,ophi->ohwi", _BACK, made) // 2}

    return Stream(rescaling.sources, fields, prepare, restore)


def _rescale(rescaling: Rescaling, lanes: Array, zero_point: int) -> list[Field]:
    return scale_fields(rescaling, lanes, (2, 2), zero_point, (False, False))


#: Instructions of a pair of channels of four tiles, but for their products.
_PAIR_COSTS = {TFLM: 280, ONNX: 332}


def _instructions(
    rescaling: Rescaling, in_channels: int, rows: int, pixels: int, channels: int, **_: int
) -> float:
    """Estimate strips of tiles: transformed inputs, then products and results."""
    strips, most = -(-pixels // WIDTH), _ROOM // in_channels - 2
    transformed = (rows + 2 * -(-rows // most)) * (80 + 40 * in_channels)
    pairs, pair = -(-channels // PAIR), _PAIR_COSTS[rescaling] + 68 * in_channels
    return 60 + strips * (transformed + rows * (20 + pairs * pair))


for _rescaling in RESCALINGS:
    register(
        Microkernel(
            _rescaling.kernel("tiles"), partial(tiles, _rescaling), _SIZES, "dsp/tiles_s8.h",
            frozenset({"dsp"}) | _rescaling.needs, alignment=(("bias", 4),),
            stream=_stream(_rescaling), instructions=partial(_instructions, _rescaling),
            code_bytes=2150, struct=Struct("ec_tiles_sizes", _SIZES),
        )
    )  # fmt: skip
