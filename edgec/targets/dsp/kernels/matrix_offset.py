"""Products of int8 that stay bytes (`runtime_c/kernels/dsp/matrix_s8_offset.h`)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgec.loop.define import Definition
from edgec.loop.gathered import OFFSET, input_of, offset_pair
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Stream, register
from edgec.targets.common.kernels.rescaling import TFLM
from edgec.targets.dsp.kernels.matrix import TWO_PAIRS, Array, product_nest, unit_starts
from edgec.targets.dsp.kernels.packing import paired

#: Words of inputs that the kernel takes at least.
FEWEST_QUADS = 2
#: Words with which a channel is rescaled: M, C, e.
_SCALE_WORDS = 3


def matrix_1_offset(quads: int, channels: int, zero_point: int) -> PrimFunc:
    """One pixel, its inputs bytes with offsets."""
    b = Definition("matrix_1_offset")
    out = b.output("out", (1, channels), "int8")
    x = b.input("x", (quads, 2), "int16")
    return product_nest(b, TFLM, lambda p, q, s, r: input_of(x[q, r], s), out, quads, zero_point)


def offset_row(depth: int) -> PrimFunc:
    """to[q, r] = x[k] and x[k + 1] of one row, k = 4 * q + 2 * r; zeros after `depth`."""
    quads = -(-depth // 4)
    b = Definition("offset_row")
    to = b.output("to", (quads, 2), "int16")
    x = b.input("x", (1, depth), "int8")
    b.compute(
        to,
        lambda q, r: offset_pair(
            paired(x, 0, q, 0, r, depth, quads), paired(x, 0, q, 1, r, depth, quads)
        ),
    )
    return b.build()


def _words(quads: int, channels: int, zero_point: int) -> int:
    units = len(unit_starts(channels, TWO_PAIRS))
    return units * TWO_PAIRS * (1 + quads + _SCALE_WORDS)


def _taken_first(quads: int) -> int:
    """How many of the last quads come first: see the header."""
    return ((quads - 1) % 16 + 1) % 3


def _pack(arrays: Mapping[str, Array], quads: int, channels: int, zero_point: int) -> Array:
    bias = arrays["bias"].astype(np.int64)
    w = arrays["w"].reshape(channels, quads, 2, 2).astype(np.int64)  # [c, q, s, r]
    sums = 256 * (bias - OFFSET * w[:, :, 0].sum(axis=(1, 2)))
    low = w[:, :, 1, 1] - 256 * w[:, :, 0, 1]
    high = 256 * w[:, :, 0, 0] - w[:, :, 1, 0]
    words = (low & 0xFFFF) | ((high & 0xFFFF) << 16)  # [c, q]
    words = np.roll(words, _taken_first(quads), axis=1)
    scaled = 7 if zero_point == -128 else 0
    exponent = -arrays["shift"].astype(np.int64)
    constant = ((1 << exponent) >> 1) + zero_point * (1 << exponent)
    if scaled:
        constant = (constant << scaled) + (1 << (scaled - 1))
    scales = np.stack([arrays["multiplier"], constant, exponent + scaled], axis=1)
    parts: list[Array] = []
    for first in unit_starts(channels, TWO_PAIRS):
        unit = slice(first, first + TWO_PAIRS)
        parts += [sums[unit], words[unit].T.reshape(-1), scales[unit].reshape(-1)]
    whole = np.concatenate(parts) & 0xFFFFFFFF
    return whole.astype(np.uint32).view(np.int32)


def _unpack(words: Array, quads: int, channels: int, zero_point: int) -> Mapping[str, Array]:
    starts = unit_starts(channels, TWO_PAIRS)
    bias = np.zeros(channels, np.int64)
    w = np.zeros((channels, quads, 2, 2), np.int64)
    tables = {name: np.zeros(channels, dtype) for name, dtype in TFLM.tables.items()}
    for first, part in zip(starts, words.astype(np.int64).reshape(len(starts), -1), strict=True):
        unit = slice(first, first + TWO_PAIRS)
        body = part[TWO_PAIRS : TWO_PAIRS * (1 + quads)].reshape(quads, TWO_PAIRS).T
        body = np.roll(body, -_taken_first(quads), axis=1)
        low, high = _signed(body, 16), body >> 16
        w[unit, :, 1, 1], w[unit, :, 1, 0] = _signed(low, 8), -_signed(high, 8)
        w[unit, :, 0, 1] = -((low - _signed(low, 8)) >> 8)
        w[unit, :, 0, 0] = (high - _signed(high, 8)) >> 8
        offsets = OFFSET * w[unit, :, 0].sum(axis=(1, 2))
        bias[unit] = _signed((part[:TWO_PAIRS] >> 8) + offsets, 24)
        scales = part[TWO_PAIRS * (1 + quads) :].reshape(TWO_PAIRS, _SCALE_WORDS)
        tables["multiplier"][unit] = scales[:, 0]
        tables["shift"][unit] = (7 if zero_point == -128 else 0) - scales[:, 2]
    return {"bias": bias, "w": w, **tables}


def _signed(value: Array, bits: int) -> Array:
    """The lowest bits as a signed number."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def _instructions(quads: int, channels: int, zero_point: int) -> float:
    each = 27 + quads * (14 + 6 / 16 + 3 / 16) + (0 if zero_point == -128 else 9)
    return 55 + each * ((channels + 3) // 4)


register(
    Microkernel(
        "ec_matrix_1_offset_s8_dsp",
        matrix_1_offset,
        sizes=("quads", "channels", "zero_point"),
        header="dsp/matrix_s8_offset.h",
        needs=frozenset({"dsp"}),
        alignment=(("x", 4), ("bias", 4)),
        stream=Stream(TFLM.sources, _words, _pack, _unpack),
        instructions=_instructions,
        code_bytes=1240,
    )
)
register(
    Microkernel(
        "ec_offset_row_s8_dsp",
        offset_row,
        sizes=("depth",),
        header="dsp/matrix_s8_offset.h",
        needs=frozenset({"dsp"}),
        alignment=(("to", 4), ("x", 4)),
        reads_first=True,
        in_order=("to_q", 1),
        instructions=lambda depth: 15 + 9 * (depth // 16) + 4 * (depth % 16),
    )
)
