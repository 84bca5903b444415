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
from edgec.loop.microkernel import Microkernel, register
from edgec.loop.primitives.shifts import shared_shifts, without_shifts
from edgec.loop.stream import Digits, Field, Stream, Totals, lanes_of, rows_at
from edgec.targets.common.kernels.rescaling import ONNX, RESCALINGS, TFLM, Rescaling
from edgec.targets.dsp.kernels.matrix import (
    PAIR,
    TWO_PAIRS,
    Array,
    add_constants,
    matrix_1,
    matrix_1_plain,
    matrix_3,
    scale_fields,
    weights_at,
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

    order: of [unit, channel, quad, s, r], half-words of digits of the last axes. places: the lowest
    bit of each digit. offsets: what is added to it. factors: a channel's sum comes as this many
    times itself. totals: which channels' biases, times their factors, each word before the weights
    holds.
    """

    channels: int
    order: tuple[int, ...]
    places: tuple[int, ...]
    offsets: tuple[int, ...]
    factors: tuple[int, ...]
    totals: tuple[tuple[int, ...], ...]

    def fields(
        self, rescaling: Rescaling, lanes: Array, w: Array, zero_point: int, step: int
    ) -> list[Field]:
        """w: where weights lie. step: quads of one, 0 for weights without shifts."""
        quads = w.shape[2]
        w = w.transpose(self.order)
        halves = w.reshape(len(lanes), -1, len(self.places))
        totals = [[f * (i in t) for i, f in enumerate(self.factors)] for t in self.totals]
        return [
            Totals("bias", lanes, times=np.array(totals)),
            *([_step_factors(lanes, quads // step)] if step else []),
            Digits("w", halves, "uint16", 1 << np.array(self.places), self.offsets),
            *scale_fields(rescaling, lanes, self.factors, zero_point, [False] * self.channels),
        ]


def _step_factors(lanes: Array, steps: int) -> Field:
    """A byte for each channel, those of a step together; in whole words."""
    at = rows_at(lanes, steps).transpose(0, 2, 1).reshape(len(lanes), -1)
    more = ((0, 0), (0, -at.shape[1] % 4))
    return Field("step_factor", np.pad(at, more, constant_values=-1), "uint8")


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


_PAIR = _Unit(PAIR, (0, 2, 4, 1, 3), (12, 4, 8, 0), (0, 0, 0, 0), (4096, 4096), ((0,), (1,)))
_TWO_PAIRS = _Unit(
    TWO_PAIRS, (0, 2, 3, 4, 1), (0, 8, 12, 4), (8, 8, 0, 8), (1, 256, 4096, 16),
    ((0, 1, 2, 3), (1, 2, 3), (2, 3), (3,)),
)  # fmt: skip
_UNITS = {PAIR: _PAIR, TWO_PAIRS: _TWO_PAIRS}
#: The same with steps.
_STEP_UNITS = {
    PAIR: replace(_PAIR, factors=(1, 1)),
    TWO_PAIRS: replace(
        _TWO_PAIRS, places=(12, 8, 4, 0), offsets=(0, 0, 0, 0), factors=(1, 1, 1, 1),
        totals=((0,), (1,), (2,), (3,)),
    ),
}  # fmt: skip


def _prepare(
    arrays: Mapping[str, Array], channels: int, zero_point: int, octets: int = 0, group: int = 0,
    quads: int = 0,
) -> Mapping[str, Array]:  # fmt: skip
    """The constants, and of weights in steps those without shifts; a step stores 16 << shift."""
    found = add_constants(arrays, zero_point)
    if not group:
        return found
    steps = arrays["w"].reshape(channels, (quads or octets) // group, -1)
    shifts = shared_shifts(steps)
    digits = without_shifts(steps.reshape(channels, -1), shifts)
    return {**found, "step_factor": 16 << shifts.astype(np.int64), "w": digits}


def _restore(
    found: Mapping[str, Array], channels: int, octets: int = 0, group: int = 0, quads: int = 0,
    **_: int,
) -> Mapping[str, Array]:  # fmt: skip
    """Weights of steps with their shifts."""
    if not group:
        return found
    steps = found["w"].reshape(channels, (quads or octets) // group, -1)
    factors = found["step_factor"].reshape(channels, -1, 1) // 16
    return {**found, "w": steps * factors}


def _stream(rescaling: Rescaling, unit: _Unit, quads_in_size: int, is_plain: bool) -> Stream:
    """quads_in_size: in what the kernel's sizes count. is_plain: weights in the order of inputs."""

    def fields(
        channels: int, zero_point: int, octets: int = 0, group: int = 0, quads: int = 0
    ) -> list[Field]:
        whole, step = quads_in_size * (quads or octets), quads_in_size * group
        lanes = lanes_of(channels, unit.channels)
        return unit.fields(rescaling, lanes, weights_at(lanes, whole, is_plain), zero_point, step)

    return Stream(rescaling.sources, fields, _prepare, _restore)


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
                stream=_stream(rescaling, unit, self.quads, self.meaning is matrix_1_plain),
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
