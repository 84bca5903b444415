"""Matrix products of int8 (`runtime_c/microkernels/dsp/matrix_s8.h`): their meaning and streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.loop.define import Definition, Tensor
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Stream, register
from edgec.loop.schedule import Schedule
from edgec.loop.values import clamp, int8, int32, intrinsic

Array = npt.NDArray[Any]

#: Channels that share a stream's unit, by kernel: a pair, or two pairs.
PAIR, TWO_PAIRS = 2, 4


def _product(
    definition: Definition, x: Tensor, out: Tensor, quads: int, zero_point: int, plain: bool
) -> PrimFunc:
    """out[p, o] = requantized bias[o] + sum over q, s, r of x[...] * w[o, q, s, r]."""
    pixels, channels = out.shape
    bias = definition.constant("bias", (channels,), "int32")
    w = definition.constant("w", (channels, quads, 2, 2), "int8")
    multiplier = definition.constant("multiplier", (channels,), "int32")
    shift = definition.constant("shift", (channels,), "int8")

    def element(p: Any, q: Any, s: Any, r: Any) -> Any:
        if plain:
            return x[4 * q + 2 * r + s]
        return x[q, s, p, r]

    acc = definition.reduce(
        "acc",
        [("q", 0, quads), ("s", 0, 2), ("r", 0, 2)],
        init=lambda p, c: bias[c],
        update=lambda acc, p, c, q, s, r: acc + int32(element(p, q, s, r)) * int32(w[c, q, s, r]),
        shape=(pixels, channels),
        dtype="int32",
    )

    def result(p: Any, c: Any) -> Any:
        rounded = intrinsic("requantize_tflm_right", acc[p, c], multiplier[c], int32(shift[c]))
        return int8(clamp(rounded + zero_point, -128, 127))

    definition.compute(out, result)
    schedule = Schedule(definition.build())
    schedule.compute_at("acc", "out_c")
    schedule.decompose_reduction("acc", "acc_q")
    schedule.simplify()
    return schedule.func


def matrix_3(quads: int, channels: int, zero_point: int) -> PrimFunc:
    """Three pixels, their inputs packed."""
    b = Definition("matrix_3")
    out = b.output("out", (3, channels), "int8")
    x = b.input("x", (quads, 2, 3, 2), "int16")
    return _product(b, x, out, quads, zero_point, False)


def matrix_1(octets: int, channels: int, zero_point: int) -> PrimFunc:
    """One pixel, its inputs packed."""
    b = Definition("matrix_1")
    out = b.output("out", (1, channels), "int8")
    x = b.input("x", (2 * octets, 2, 1, 2), "int16")
    return _product(b, x, out, 2 * octets, zero_point, False)


def matrix_1_plain(octets: int, channels: int, zero_point: int) -> PrimFunc:
    """One pixel, its inputs as they are."""
    b = Definition("matrix_1_plain")
    out = b.output("out", (1, channels), "int8")
    x = b.input("x", (8 * octets,), "int8")
    return _product(b, x, out, 2 * octets, zero_point, True)


def unit_starts(channels: int, unit: int) -> list[int]:
    """The first channel of each unit of a stream; the last unit may overlap the one before."""
    return [min(first, channels - unit) for first in range(0, channels, unit)]


def pack_stream(arrays: Mapping[str, Array], unit: int, zero_point: int) -> Array:
    """The constants of a product in the order of use, as int32 words.

    Requires what `edgec.loop.policies.dsp_matrix` checks; see the header for the order.
    """
    bias, multiplier, shift = (arrays[n].astype(np.int64) for n in ("bias", "multiplier", "shift"))
    channels = len(bias)
    w = arrays["w"].reshape(channels, -1, 2).astype(np.int64)
    parts: list[Array] = []
    for first in unit_starts(channels, unit):
        pairs = [(first + i, first + i + 1) for i in range(0, unit, 2)]
        for a, b in pairs:
            parts.append(np.array([bias[a], bias[a] + 256 * bias[b]]))
        words = []
        for a, b in pairs:
            # Bytes a[0], b'[0], a[1], b'[1] from low to high: two half-words a + 256 * b.
            low, high = (w[a, :, i] + 256 * w[b, :, i] for i in (0, 1))
            words.append((low & 0xFFFF) | ((high & 0xFFFF) << 16))
        parts.append(np.stack(words, axis=1).reshape(-1))
        for a, b in pairs:
            for channel, scaled in ((a, 0), (b, 7 if zero_point == -128 else 0)):
                exponent = int(-shift[channel])
                half = (1 << exponent) >> 1  # nothing to round where nothing is shifted out
                constant = (half + zero_point * (1 << exponent)) << scaled
                if scaled:
                    constant += 1 << (scaled - 1)
                parts.append(np.array([multiplier[channel], constant, exponent + scaled]))
    whole = np.concatenate(parts) & 0xFFFFFFFF
    return whole.astype(np.uint32).view(np.int32)


def unpack_stream(words: Array, quads: int, channels: int, unit: int, zero_point: int) -> Any:
    """The constants in a stream, flat, by their names in the meaning."""
    pairs = unit // 2
    bias = np.zeros(channels, np.int64)
    multiplier, shift = np.zeros_like(bias), np.zeros_like(bias)
    w = np.zeros((channels, 2 * quads, 2), np.int64)
    size = pairs * (2 + 2 * quads + 6)
    for number, first in enumerate(unit_starts(channels, unit)):
        part = words[number * size : (number + 1) * size].astype(np.int64)
        body = part[2 * pairs : 2 * pairs + 2 * quads * pairs].reshape(-1, pairs)
        for pair in range(pairs):
            a, b = first + 2 * pair, first + 2 * pair + 1
            total, both = part[2 * pair], part[2 * pair + 1]
            bias[a], bias[b] = total, _wrapped(both - total) >> 8
            for i, half in enumerate((body[:, pair] << 48 >> 48, body[:, pair] >> 16)):
                w[a, :, i] = ((half & 0xFF) ^ 0x80) - 0x80
                w[b, :, i] = (half - w[a, :, i]) >> 8
            for channel, at, scaled in ((a, 0, 0), (b, 3, 7 if zero_point == -128 else 0)):
                triple = part[len(part) - 6 * (pairs - pair) + at :][:3]
                multiplier[channel], shift[channel] = triple[0], scaled - triple[2]
    return {"bias": bias, "w": w, "multiplier": multiplier, "shift": shift}


def _wrapped(value: int) -> int:
    return (int(value) + (1 << 31)) % (1 << 32) - (1 << 31)


def stream_words(quads: int, channels: int, unit: int) -> int:
    """Words of a stream."""
    return len(unit_starts(channels, unit)) * (unit // 2) * (2 + 2 * quads + 6)


def _stream(unit: int, quads_of: Any) -> Stream:
    def words(channels: int, zero_point: int, **size: int) -> int:
        return stream_words(quads_of(**size), channels, unit)

    def pack(arrays: Mapping[str, Array], channels: int, zero_point: int, **size: int) -> Array:
        return pack_stream(arrays, unit, zero_point)

    def unpack(array: Array, channels: int, zero_point: int, **size: int) -> Mapping[str, Array]:
        found: Mapping[str, Array] = unpack_stream(
            array, quads_of(**size), channels, unit, zero_point
        )
        return found

    return Stream(("bias", "w", "multiplier", "shift"), words, pack, unpack)


def _instructions_3(quads: int, channels: int, zero_point: int) -> float:
    words = 2 * quads
    each = 51 + 8 * words + words / 3 + words / 12 + (0 if zero_point == -128 else 9)
    return 60 + each * ((channels + 1) // 2)


def _instructions_1(octets: int, channels: int, zero_point: int, per_octet: int = 27) -> float:
    each = 36 + octets * (per_octet + 3 / 8) + (0 if zero_point == -128 else 6)
    return 45 + each * ((channels + 3) // 4)


register(
    Microkernel(
        "ec_matrix_3_s8_dsp",
        matrix_3,
        sizes=("quads", "channels", "zero_point"),
        header="dsp/matrix_s8.h",
        needs=frozenset({"dsp"}),
        alignment=(("x", 4), ("bias", 4)),
        stream=_stream(PAIR, lambda quads: quads),
        instructions=_instructions_3,
        code_bytes=1740,
    )
)
register(
    Microkernel(
        "ec_matrix_1_s8_dsp",
        matrix_1,
        sizes=("octets", "channels", "zero_point"),
        header="dsp/matrix_s8.h",
        needs=frozenset({"dsp"}),
        alignment=(("x", 4), ("bias", 4)),
        stream=_stream(TWO_PAIRS, lambda octets: 2 * octets),
        instructions=_instructions_1,
        code_bytes=1320,
    )
)
register(
    Microkernel(
        "ec_matrix_1_plain_s8_dsp",
        matrix_1_plain,
        sizes=("octets", "channels", "zero_point"),
        header="dsp/matrix_s8.h",
        needs=frozenset({"dsp"}),
        alignment=(("x", 4), ("bias", 4)),
        stream=_stream(TWO_PAIRS, lambda octets: 2 * octets),
        instructions=lambda octets, channels, zero_point: _instructions_1(
            octets, channels, zero_point, 31
        ),
        code_bytes=1320,
    )
)
