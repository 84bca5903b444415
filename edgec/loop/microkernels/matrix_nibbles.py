"""Products of int8 by weights of four bits (`runtime_c/microkernels/dsp/matrix_s8_nibbles.h`).

They mean what the kernels of `edgec.loop.microkernels.matrix` mean, for weights of [-8, 7]; their
streams are about half as long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Stream, register
from edgec.loop.microkernels.matrix import (
    PAIR,
    SCALE_WORDS,
    TWO_PAIRS,
    Array,
    matrix_1,
    matrix_1_plain,
    matrix_3,
    unit_starts,
)
from edgec.loop.microkernels.rescaling import ONNX, RESCALINGS, TFLM, Rescaling

#: Sums come as up to 4096 times themselves in 32 bits.
MOST_NIBBLE_SUM = 1 << 19


@dataclass(frozen=True)
class _Unit:
    """How the channels that share a stream's unit lie in it.

    places: by channel and s, the lowest of the four bits in a half-word; offsets: what is added to
    a channel's weights; factors: a channel's sum comes as so many times itself. words: of a quad,
    s = 0 in the first and s = 1 in the last. totals: which channels' biases, times their factors,
    each word before the weights holds.
    """

    channels: int
    places: tuple[tuple[int, int], ...]
    offsets: tuple[int, ...]
    factors: tuple[int, ...]
    words: int
    totals: tuple[tuple[int, ...], ...]

    def pack(self, w: Array) -> Array:
        """Weights [channels, quads, 2, 2] as words, flat."""
        quads = w.shape[1]
        halves = np.zeros((quads, self.words, 2), np.int64)
        for numbers, places, offset in zip(w, self.places, self.offsets, strict=True):
            for s in (0, 1):
                digits = (numbers[:, s].astype(np.int64) + offset) & 15
                halves[:, s * (self.words - 1)] |= digits << places[s]
        return np.asarray(halves[..., 0] | halves[..., 1] << 16).reshape(-1)

    def unpack(self, words: Array, quads: int) -> Array:
        """What `pack` was given."""
        both = words.astype(np.int64).reshape(quads, self.words) & 0xFFFFFFFF
        halves = np.stack([both & 0xFFFF, both >> 16], axis=-1)
        w = np.zeros((self.channels, quads, 2, 2), np.int64)
        for i, (places, offset) in enumerate(zip(self.places, self.offsets, strict=True)):
            for s in (0, 1):
                digits = halves[:, s * (self.words - 1)] >> places[s] & 15
                w[i, :, s] = digits - offset if offset else (digits ^ 8) - 8
        return w


_UNITS = {
    PAIR: _Unit(PAIR, ((12, 4), (8, 0)), (0, 0), (4096, 4096), 1, ((0,), (1,))),
    TWO_PAIRS: _Unit(
        TWO_PAIRS, ((0, 0), (8, 8), (12, 12), (4, 4)), (8, 8, 0, 8), (1, 256, 4096, 16), 2,
        ((0, 1, 2, 3), (1, 2, 3), (2, 3), (3,)),
    ),
}  # fmt: skip


def _scales(rescaling: Rescaling, arrays: Mapping[str, Array], channel: int, factor: int,
            zero_point: int) -> Array:  # fmt: skip
    """What rescales a channel, in words: its scale for `factor` times a sum, or M, C, e."""
    if rescaling is ONNX:
        return np.array([arrays["scale"][channel] / factor], np.float32).view(np.int32)
    exponent = -int(arrays["shift"][channel])
    half = (1 << exponent) >> 1  # nothing to round where nothing is shifted out
    constant = half + zero_point * (1 << exponent)
    return np.array([int(arrays["multiplier"][channel]), constant, exponent])


def _pack(rescaling: Rescaling, unit: _Unit, arrays: Mapping[str, Array], zero_point: int) -> Array:
    bias = arrays["bias"].astype(np.int64)
    channels = len(bias)
    w = arrays["w"].reshape(channels, -1, 2, 2)
    parts: list[Array] = []
    for first in unit_starts(channels, unit.channels):
        own = range(first, first + unit.channels)
        biases = bias[own.start : own.stop] * unit.factors
        parts.append(np.array([biases[list(total)].sum() for total in unit.totals]))
        parts.append(unit.pack(w[own.start : own.stop]))
        for channel, factor in zip(own, unit.factors, strict=True):
            parts.append(_scales(rescaling, arrays, channel, factor, zero_point))
    whole = np.concatenate(parts).astype(np.int64) & 0xFFFFFFFF
    return whole.astype(np.uint32).view(np.int32)


def _unpack(
    rescaling: Rescaling, unit: _Unit, words: Array, quads: int, channels: int
) -> Mapping[str, Array]:
    bias = np.zeros(channels, np.int64)
    w = np.zeros((channels, quads, 2, 2), np.int64)
    tables = {name: np.zeros(channels, dtype) for name, dtype in rescaling.tables.items()}
    starts = unit_starts(channels, unit.channels)
    each = SCALE_WORDS[rescaling] // 2
    for first, part in zip(starts, words.reshape(len(starts), -1), strict=True):
        totals, body, scales = np.split(part, [unit.channels, len(part) - unit.channels * each])
        w[first : first + unit.channels] = unit.unpack(body, quads)
        known = np.zeros(unit.channels, np.int64)
        # Each total is one channel more than the one behind it, or one channel alone.
        for total, word in reversed(list(zip(unit.totals, totals.astype(np.int64), strict=True))):
            left = word - sum(known[i] * unit.factors[i] for i in total[1:])
            known[total[0]] = _wrapped(left) // unit.factors[total[0]]
        bias[first : first + unit.channels] = known
        for i, factor in enumerate(unit.factors):
            own = scales[i * each : (i + 1) * each]
            if rescaling is ONNX:
                tables["scale"][first + i] = own.view(np.float32)[0] * factor
            else:
                tables["multiplier"][first + i], tables["shift"][first + i] = own[0], -own[2]
    return {"bias": bias, "w": w, **tables}


def _wrapped(value: int) -> int:
    return (int(value) + (1 << 31)) % (1 << 32) - (1 << 31)


def _stream(rescaling: Rescaling, unit: _Unit, quads_of: Callable[..., int]) -> Stream:
    def words(channels: int, zero_point: int, **size: int) -> int:
        each = 1 + SCALE_WORDS[rescaling] // 2
        count = len(unit_starts(channels, unit.channels))
        return count * (unit.channels * each + unit.words * quads_of(**size))

    def pack(arrays: Mapping[str, Array], channels: int, zero_point: int, **size: int) -> Array:
        return _pack(rescaling, unit, arrays, zero_point)

    def unpack(array: Array, channels: int, zero_point: int, **size: int) -> Mapping[str, Array]:
        return _unpack(rescaling, unit, array, quads_of(**size), channels)

    return Stream(rescaling.sources, words, pack, unpack)


def _instructions_3(rescaling: Rescaling, quads: int, channels: int, zero_point: int) -> float:
    more = {TFLM: 0 if zero_point == -128 else 6, ONNX: 5}[rescaling]
    each = 60 + 19 * quads + 3 * -(-quads // 8) + more
    return 40 + each * ((channels + 1) // 2)


def _instructions_1(
    rescaling: Rescaling, octets: int, channels: int, zero_point: int, per_octet: int = 30
) -> float:
    more = {TFLM: 0 if zero_point == -128 else 4, ONNX: 12}[rescaling]
    each = 45 + octets * per_octet + 3 * -(-octets // 8) + more
    return 60 + 7 * octets + each * ((channels + 3) // 4)


def _register(rescaling: Rescaling) -> None:
    kernels: list[tuple[str, Callable[..., PrimFunc], int, Any, Callable[..., float], int]] = [
        ("matrix_3", matrix_3, PAIR, lambda quads: quads, _instructions_3, 980),
        ("matrix_1", matrix_1, TWO_PAIRS, lambda octets: 2 * octets, _instructions_1, 1330),
        (
            "matrix_1_plain", matrix_1_plain, TWO_PAIRS, lambda octets: 2 * octets,
            partial(_instructions_1, per_octet=34), 1460,
        ),
    ]  # fmt: skip
    for name, meaning, channels, quads_of, instructions, code_bytes in kernels:
        register(
            Microkernel(
                rescaling.kernel(f"{name}_nibbles"),
                partial(meaning, rescaling),
                sizes=("quads" if channels == PAIR else "octets", "channels", "zero_point"),
                header=f"dsp/matrix_s8{rescaling.suffix}_nibbles.h",
                needs=frozenset({"dsp"}) | rescaling.needs,
                alignment=(("x", 4), ("bias", 4)),
                stream=_stream(rescaling, _UNITS[channels], quads_of),
                instructions=partial(instructions, rescaling),
                code_bytes=code_bytes,
                weight_bits=4,
            )
        )


for _rescaling in RESCALINGS:
    _register(_rescaling)
