"""Products of int8 by weights of four bits (`runtime_c/kernels/dsp/matrix_s8_nibbles.h`).

They mean what the kernels of `edgec.targets.dsp.kernels.matrix` mean, for weights of [-8, 7]; their
streams are about half as long. Those of `matrix_s8_onnx_groups.h` take weights that are such
numbers shifted by up to 3 bits, the same for all inputs of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Stream, register
from edgec.loop.primitives.shifts import shared_shifts, without_shifts
from edgec.targets.common.kernels.rescaling import ONNX, RESCALINGS, TFLM, Rescaling
from edgec.targets.dsp.kernels.matrix import (
    PAIR,
    SCALE_WORDS,
    TWO_PAIRS,
    Array,
    matrix_1,
    matrix_1_plain,
    matrix_3,
    unit_starts,
)

#: Sums come as up to 4096 times themselves in 32 bits.
MOST_NIBBLE_SUM = 1 << 19
#: The largest shift of a step, which a byte stores as 16 << shift.
MOST_STEP_SHIFT = 3
#: Quads of a step.
LEAST_STEP, MOST_STEP = 4, 8


@dataclass(frozen=True)
class _Unit:
    """How the channels that share a stream's unit lie in it.

    places: by channel and s, the lowest of the four bits in a half-word; offsets: what is added to
    a channel's weights; factors: a channel's sum comes as this many times itself. words: of a quad,
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

    def pack_steps(self, shifts: Array) -> Array:
        """Shifts [channels, steps] as words: a byte for each, those of a step together."""
        table = (16 << shifts.T.astype(np.int64)).astype(np.uint8).reshape(-1)
        return np.pad(table, (0, -table.size % 4)).view("<i4")

    def unpack_steps(self, words: Array, steps: int) -> Array:
        """What `pack_steps` was given."""
        table = np.ascontiguousarray(words, "<i4").view(np.uint8)[: steps * self.channels]
        return np.log2(table.reshape(steps, self.channels).T / 16).astype(np.int64)

    def step_words(self, steps: int) -> int:
        """Words of this many steps' shifts."""
        return -(-steps * self.channels // 4)


def step_of(w: Array, multiple: int) -> int:
    """Quads of the longest steps that a `multiple` and int8 weights [O, quads, 2, 2] allow, or 0.

    Steps divide the quads, and the weights of each have four bits and a shift.
    """
    quads = w.shape[1]
    for step in range(MOST_STEP, LEAST_STEP - 1, -1):
        if step % multiple == 0 and quads % step == 0:
            shifts = shared_shifts(w.reshape(len(w), quads // step, 4 * step))
            if shifts.min(initial=0) >= 0 and shifts.max(initial=0) <= MOST_STEP_SHIFT:
                return step
    return 0


_UNITS = {
    PAIR: _Unit(PAIR, ((12, 4), (8, 0)), (0, 0), (4096, 4096), 1, ((0,), (1,))),
    TWO_PAIRS: _Unit(
        TWO_PAIRS, ((0, 0), (8, 8), (12, 12), (4, 4)), (8, 8, 0, 8), (1, 256, 4096, 16), 2,
        ((0, 1, 2, 3), (1, 2, 3), (2, 3), (3,)),
    ),
}  # fmt: skip
#: The same with steps.
_STEP_UNITS = {
    PAIR: replace(_UNITS[PAIR], factors=(1, 1)),
    TWO_PAIRS: _Unit(
        TWO_PAIRS, ((12, 12), (8, 8), (4, 4), (0, 0)), (0, 0, 0, 0), (1, 1, 1, 1), 2,
        ((0,), (1,), (2,), (3,)),
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


def _pack(
    rescaling: Rescaling, unit: _Unit, arrays: Mapping[str, Array], zero_point: int, step: int
) -> Array:
    """step: quads of one, 0 for weights without shifts."""
    bias = arrays["bias"].astype(np.int64)
    channels = len(bias)
    w = arrays["w"].reshape(channels, -1, 2, 2)
    if step:
        in_steps = w.reshape(channels, -1, 4 * step)
        shifts = shared_shifts(in_steps)
        w = without_shifts(in_steps.reshape(channels, -1), shifts).reshape(w.shape)
    parts: list[Array] = []
    for first in unit_starts(channels, unit.channels):
        own = range(first, first + unit.channels)
        biases = bias[own.start : own.stop] * unit.factors
        parts.append(np.array([biases[list(total)].sum() for total in unit.totals]))
        if step:
            parts.append(unit.pack_steps(shifts[own.start : own.stop]))
        parts.append(unit.pack(w[own.start : own.stop]))
        for channel, factor in zip(own, unit.factors, strict=True):
            parts.append(_scales(rescaling, arrays, channel, factor, zero_point))
    whole = np.concatenate(parts).astype(np.int64) & 0xFFFFFFFF
    return whole.astype(np.uint32).view(np.int32)


def _unpack(
    rescaling: Rescaling, unit: _Unit, words: Array, quads: int, channels: int, step: int
) -> Mapping[str, Array]:
    steps = quads // step if step else 0
    bias = np.zeros(channels, np.int64)
    w = np.zeros((channels, quads, 2, 2), np.int64)
    tables = {name: np.zeros(channels, dtype) for name, dtype in rescaling.tables.items()}
    starts = unit_starts(channels, unit.channels)
    each = SCALE_WORDS[rescaling] // 2
    for first, part in zip(starts, words.reshape(len(starts), -1), strict=True):
        totals, body, scales = np.split(part, [unit.channels, len(part) - unit.channels * each])
        shifts, body = np.split(body, [unit.step_words(steps)])
        own = unit.unpack(body, quads)
        if step:
            by_step = own.reshape(unit.channels, steps, -1)
            own = (by_step << unit.unpack_steps(shifts, steps)[..., None]).reshape(own.shape)
        w[first : first + unit.channels] = own
        known = np.zeros(unit.channels, np.int64)
        # Each total is one channel more than the one after it, or one channel alone.
        for total, word in reversed(list(zip(unit.totals, totals.astype(np.int64), strict=True))):
            left = word - sum(known[i] * unit.factors[i] for i in total[1:])
            known[total[0]] = _wrapped(left) // unit.factors[total[0]]
        bias[first : first + unit.channels] = known
        for i, factor in enumerate(unit.factors):
            entry = scales[i * each : (i + 1) * each]
            if rescaling is ONNX:
                tables["scale"][first + i] = entry.view(np.float32)[0] * factor
            else:
                tables["multiplier"][first + i], tables["shift"][first + i] = entry[0], -entry[2]
    return {"bias": bias, "w": w, **tables}


def _wrapped(value: int) -> int:
    return (int(value) + (1 << 31)) % (1 << 32) - (1 << 31)


def _stream(rescaling: Rescaling, unit: _Unit, quads: int) -> Stream:
    """quads: in what the kernel's sizes count."""

    def sizes_of(octets: int = 0, group: int = 0, **size: int) -> tuple[int, int]:
        return quads * size.get("quads", octets), quads * group

    def words(channels: int, zero_point: int, **size: int) -> int:
        each = 1 + SCALE_WORDS[rescaling] // 2
        count = len(unit_starts(channels, unit.channels))
        whole, step = sizes_of(**size)
        shifts = unit.step_words(whole // step) if step else 0
        return count * (unit.channels * each + shifts + unit.words * whole)

    def pack(arrays: Mapping[str, Array], channels: int, zero_point: int, **size: int) -> Array:
        return _pack(rescaling, unit, arrays, zero_point, sizes_of(**size)[1])

    def unpack(array: Array, channels: int, zero_point: int, **size: int) -> Mapping[str, Array]:
        whole, step = sizes_of(**size)
        return _unpack(rescaling, unit, array, whole, channels, step)

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


def _step_instructions_3(
    rescaling: Rescaling, quads: int, group: int, channels: int, zero_point: int
) -> float:
    each = 64 + 19 * quads + 21 * (quads // group)
    return 40 + each * ((channels + 1) // 2)


def _step_instructions_1(
    rescaling: Rescaling, octets: int, group: int, channels: int, zero_point: int,
    per_octet: int = 35,
) -> float:  # fmt: skip
    each = 44 + octets * per_octet + 16 * (octets // group)
    return 60 + each * ((channels + 3) // 4)


def _without_group(meaning: Callable[..., PrimFunc]) -> Callable[..., PrimFunc]:
    """The meaning does not depend on how weights are stored."""

    def with_group(rescaling: Rescaling, *, group: int, **sizes: int) -> PrimFunc:
        return meaning(rescaling, **sizes)

    return with_group


@dataclass(frozen=True)
class _Products:
    """A kernel without what it stores: its unit, and how many quads its size counts in."""

    name: str
    meaning: Callable[..., PrimFunc]
    unit: int
    quads: int

    def register(
        self,
        rescaling: Rescaling,
        storage: str,
        unit: _Unit,
        instructions: Callable[..., float],
        code_bytes: int,
    ) -> None:
        """Make known the kernel of this `storage`, "nibbles" or "groups"."""
        size, meaning = "quads" if self.quads == 1 else "octets", self.meaning
        sizes: tuple[str, ...] = (size, "channels", "zero_point")
        if storage == "groups":
            sizes, meaning = (size, "group", "channels", "zero_point"), _without_group(meaning)
        kind = (
            f"{rescaling.suffix}_groups" if storage == "groups" else rescaling.suffix or "_nibbles"
        )
        register(
            Microkernel(
                rescaling.kernel(f"{self.name}_{storage}"),
                partial(meaning, rescaling),
                sizes=sizes,
                header=f"dsp/matrix_s8{kind}.h",
                needs=frozenset({"dsp"}) | rescaling.needs,
                alignment=(("x", 4), ("bias", 4)),
                stream=_stream(rescaling, unit, self.quads),
                instructions=partial(instructions, rescaling),
                code_bytes=code_bytes,
                weight_bits=4,
            )
        )


_THREE = _Products("matrix_3", matrix_3, PAIR, 1)
_ONE = _Products("matrix_1", matrix_1, TWO_PAIRS, 2)
_PLAIN = _Products("matrix_1_plain", matrix_1_plain, TWO_PAIRS, 2)

#: Kernels, the estimates of their instructions, and their bytes of code.
_Kernels = tuple[tuple[_Products, Callable[..., float], int], ...]
_NIBBLES: _Kernels = (
    (_THREE, _instructions_3, 980), (_ONE, _instructions_1, 1330),
    (_PLAIN, partial(_instructions_1, per_octet=34), 1460),
)  # fmt: skip
_GROUPS: _Kernels = (
    (_THREE, _step_instructions_3, 1000), (_ONE, _step_instructions_1, 890),
    (_PLAIN, partial(_step_instructions_1, per_octet=39), 950),
)  # fmt: skip

for _products, _instructions, _bytes in _NIBBLES:
    for _rescaling in RESCALINGS:
        _products.register(_rescaling, "nibbles", _UNITS[_products.unit], _instructions, _bytes)
for _products, _instructions, _bytes in _GROUPS:
    _products.register(ONNX, "groups", _STEP_UNITS[_products.unit], _instructions, _bytes)
