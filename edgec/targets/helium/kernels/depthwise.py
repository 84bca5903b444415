"""Depthwise convolution of int8 on MVE (`runtime_c/kernels/helium/depthwise_s8.h`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.loop.define import Definition
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Struct, register
from edgec.loop.stream import Field, Stream, rows_at
from edgec.targets.common.kernels.rescaling import RESCALINGS, Rescaling
from edgec.targets.common.kernels.sums import Results, rescaled_sums
from edgec.targets.helium.kernels.matrix import SLICE, table_field

Array = npt.NDArray[Any]

#: The channel of each lane of the four int32 vectors that widening 16 int8 twice gives.
LANES = np.array([4 * lane + first for first in (0, 2, 1, 3) for lane in range(4)])
#: Pairs of taps that are tried for an order; with few weights of -128 the first few do.
MOST_TRIED = 1_000


@dataclass(frozen=True)
class DepthwiseSizes:
    """Sizes of a depthwise convolution whose inputs have their padding.

    pitch, tap: elements from one row of taps to the next, and from one tap to the next. row_step,
    step: elements from the inputs of one row of outputs to the next, and of one pixel to the next.
    """

    kernel_h: int
    kernel_w: int
    pitch: int
    tap: int
    row_step: int
    rows: int
    step: int
    pixels: int
    channels: int
    zero_point: int
    minimum: int
    maximum: int


def depthwise(rescaling: Rescaling, zero_point: int = 0, **sizes: int) -> PrimFunc:
    """out[h, p, c] = requantized bias[c] + sum of x[at] * w[kh, kw, c].

    at = h * row_step + p * step + kh * pitch + kw * tap + c.
    """
    b, s = Definition("depthwise"), DepthwiseSizes(zero_point=zero_point, **sizes)
    out = b.output("out", (s.rows, s.pixels, s.channels), rescaling.result)
    last = (s.kernel_h - 1) * s.pitch + (s.kernel_w - 1) * s.tap + (s.pixels - 1) * s.step
    x = b.input("x", ((s.rows - 1) * s.row_step + last + s.channels,), rescaling.dtype)
    w = b.constant("w", (s.kernel_h, s.kernel_w, s.channels), "int8")
    return rescaled_sums(
        b, rescaling, out, {"kh": s.kernel_h, "kw": s.kernel_w},
        lambda h, p, c, kh, kw: x[kh * s.pitch + kw * s.tap + h * s.row_step + p * s.step + c],
        lambda h, p, c, *k: w[*k, c], Results(zero_point, (s.minimum, s.maximum)),
    )  # fmt: skip


def block_starts(channels: int, size: int = SLICE) -> list[int]:
    """The first channel of each block of this size; the second block may overlap the first."""
    blocks = -(-channels // size)
    second = channels - size * (blocks - 1)
    return [0, *(second + size * i for i in range(blocks - 1))]


def tiled(array: Array) -> Array:
    """The last axis repeated up to 16, if it is shorter."""
    repeats = max(SLICE // array.shape[-1], 1)
    return np.concatenate([array] * repeats, axis=-1)


def pairs_of_taps(w: Array) -> list[int] | None:
    """An order of the taps of w [taps, channels] in which no two at 2i and 2i + 1 share a channel
    where both are -128: their products would not fit in int16. None where none is found.
    """
    least = w == -128
    meet = (least.astype(np.float32) @ least.T.astype(np.float32)) > 0
    tried = 0

    def ordered(taps: tuple[int, ...]) -> list[int] | None:
        nonlocal tried
        if len(taps) < 2:
            return list(taps)
        first, rest = taps[0], taps[1:]
        for partner in rest:
            tried += 1
            if tried > MOST_TRIED:
                return None
            if not meet[first, partner]:
                found = ordered(tuple(tap for tap in rest if tap != partner))
                if found is not None:
                    return [first, partner, *found]
        found = ordered(rest) if len(taps) % 2 else None
        return None if found is None else [*found, first]

    return ordered(tuple(range(len(w))))


def fits_pairs(w: Array) -> bool:
    """Whether the taps of w [..., channels] can be paired in every block of channels."""
    taps = tiled(w.reshape(-1, w.shape[-1]))
    starts = block_starts(taps.shape[1])
    return all(pairs_of_taps(taps[:, first : first + SLICE]) is not None for first in starts)


def _fields(
    rescaling: Rescaling, kernel_h: int, kernel_w: int, channels: int, **_: int
) -> list[Field]:
    """A block's biases, pairs of taps, and what rescales, four by four. Requires `fits_pairs`."""
    taps = kernel_h * kernel_w
    first = np.array(block_starts(max(channels, SLICE)))[:, None]
    lanes, blocks = (first + LANES) % channels, len(first)
    places = rows_at(np.arange(blocks), taps)
    w = rows_at(places, SLICE)
    return [
        Field("bias", lanes),
        *(
            field
            for tap in range(0, taps, 2)
            for field in (
                Field("place", places[:, tap : tap + 2]),
                Field("ordered", w[:, tap : tap + 2], "int8"),
            )
        ),
        *(
            table_field(rescaling, name, four)
            for four in np.split(lanes, 4, axis=1)
            for name in rescaling.tables
        ),
    ]


def _prepare(
    arrays: Mapping[str, Array], kernel_h: int, kernel_w: int, pitch: int, tap: int, **_: int
) -> Mapping[str, Array]:
    """Return the offsets of taps and their weights, block by block in the order of pairs."""
    offsets = np.array(tap_offsets(kernel_h, kernel_w, pitch, tap))
    w = tiled(arrays["w"].reshape(len(offsets), -1))
    places, ordered = [], []
    for first in block_starts(w.shape[1]):
        block = w[:, first : first + SLICE]
        order = pairs_of_taps(block)
        assert order is not None
        places.append(offsets[order])
        ordered.append(block[order])
    return {**arrays, "place": np.stack(places), "ordered": np.stack(ordered)}


def _restore(
    found: Mapping[str, Array], kernel_h: int, kernel_w: int, pitch: int, tap: int, channels: int,
    **_: int,
) -> Mapping[str, Array]:  # fmt: skip
    """Weights in the order of taps."""
    offsets = tap_offsets(kernel_h, kernel_w, pitch, tap)
    wide = max(channels, SLICE)
    w = np.zeros((len(offsets), wide), np.int8)
    places = found["place"].reshape(-1, len(offsets))
    ordered = found["ordered"].reshape(*places.shape, SLICE)
    for first, own, block in zip(block_starts(wide), places, ordered, strict=True):
        w[np.argsort(offsets), first : first + SLICE] = block[np.argsort(own)]
    return {**found, "w": w[:, :channels]}


def tap_offsets(kernel_h: int, kernel_w: int, pitch: int, tap: int) -> list[int]:
    """Offsets of the taps from the first one."""
    return [kh * pitch + kw * tap for kh in range(kernel_h) for kw in range(kernel_w)]


def _instructions(
    kernel_h: int,
    kernel_w: int,
    rows: int,
    pixels: int,
    channels: int,
    zero_point: int,
    minimum: int,
    maximum: int,
    **_: int,
) -> float:
    taps = kernel_h * kernel_w
    each = 38 + 23 * (taps // 2) + 14 * (taps % 2)
    if (minimum, maximum) != (-128, 127):
        each += 15
    elif zero_point != -128:  # negative ties matter
        each += 9
    if channels < SLICE:
        return 120 + rows * (10 + (5 + each) * -(-pixels * channels // SLICE))
    return 110 + rows * (8 + pixels * (5 + each * len(block_starts(channels))))


_SIZES = tuple(size.name for size in fields(DepthwiseSizes))
_TYPES = {
    **dict.fromkeys(("row_step", "step", "rows", "pixels", "channels", "kernel_h"), "uint16"),
    "kernel_w": "uint8",
    **dict.fromkeys(("zero_point", "minimum", "maximum"), "int8"),
}
#: Sizes that the stream alone depends on.
IN_STREAM = ("pitch", "tap")
_STRUCT = Struct("ec_depthwise_mve_sizes", (*_TYPES,), (*_TYPES.items(),), IN_STREAM)
for _rescaling in RESCALINGS:
    register(
        Microkernel(
            _rescaling.kernel("depthwise", "mve"),
            partial(depthwise, _rescaling),
            sizes=_SIZES,
            struct=_STRUCT,
            header=f"helium/depthwise_s8{_rescaling.suffix}.h",
            needs=frozenset({"mve"}) | _rescaling.needs,
            alignment=(("bias", 4),),
            in_order=("result_d1", 1),
            stream=Stream(_rescaling.sources, partial(_fields, _rescaling), _prepare, _restore),
            instructions=_instructions,
            code_bytes=840,
        )
    )
