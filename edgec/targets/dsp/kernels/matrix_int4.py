"""Products of int8 by int4 weights (`runtime_c/kernels/dsp/matrix_s8_int4.h`).

They mean what the kernels of `edgec.targets.dsp.kernels.matrix` mean, for weights of [-8, 7]; their
streams are about half as long. Those of `matrix_s8_onnx_groups.h` take weights that are such
numbers shifted by up to 3 bits, the same for all inputs of a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from edgec.loop.primitives.shifts import shared_shifts, without_shifts
from edgec.loop.stream import Digits, Field, Stream, Totals, lanes_of, rows_at
from edgec.targets.common.kernels.rescaling import Rescaling
from edgec.targets.dsp.kernels.matrix import (
    PAIR,
    TWO_PAIRS,
    Array,
    add_constants,
    scale_fields,
    weights_at,
)

#: Sums come as up to 4096 times themselves in 32 bits.
MOST_INT4_SUM = 1 << 19
#: The largest shift of a step, which a byte stores as 16 << shift.
MOST_STEP_SHIFT = 3
#: Quads of a step: at least, by how many at a time kernels take them; at most.
LEAST_STEP, MOST_STEP = {1: 4, 2: 2}, 8


@dataclass(frozen=True)
class _Unit:
    """How the channels that share a stream's unit lie in it.

    order: of [unit, channel, quad, s, r], half-words of digits of the last axes. low_bits: the
    lowest bit of each digit. offsets: what is added to it. factors: the kernel's sum of a channel
    is this many times the channel's sum. totals: which channels' biases, times their factors, each
    word before the weights holds.
    """

    channels: int
    order: tuple[int, ...]
    low_bits: tuple[int, ...]
    offsets: tuple[int, ...]
    factors: tuple[int, ...]
    totals: tuple[tuple[int, ...], ...]

    def fields(
        self, rescaling: Rescaling, lanes: Array, w: Array, zero_point: int, step: int
    ) -> list[Field]:
        """w: where weights lie. step: quads of one, 0 for weights without shifts."""
        quads = w.shape[2]
        w = w.transpose(self.order)
        halves = w.reshape(len(lanes), -1, len(self.low_bits))
        totals = [[f * (i in t) for i, f in enumerate(self.factors)] for t in self.totals]
        return [
            Totals("bias", lanes, times=np.array(totals)),
            *([_step_factors(lanes, quads // step)] if step else []),
            Digits("w", halves, "uint16", 1 << np.array(self.low_bits), self.offsets),
            *scale_fields(rescaling, lanes, self.factors, zero_point, [False] * self.channels),
        ]


def _step_factors(lanes: Array, steps: int) -> Field:
    """A byte for each channel, those of a step together; in whole words."""
    at = rows_at(lanes, steps).transpose(0, 2, 1).reshape(len(lanes), -1)
    more = ((0, 0), (0, -at.shape[1] % 4))
    return Field("step_factor", np.pad(at, more, constant_values=-1), "uint8")


def step_of(w: Array, multiple: int) -> int:
    """Quads of the longest steps that int8 weights [O, quads, 2, 2] allow, or 0.

    The kernel takes `multiple` (1 or 2) quads at a time, so a step has a multiple of that many. A
    row has a whole number of steps. A shift for each step leaves its weights four bits.
    """
    quads = w.shape[1]
    for step in range(MOST_STEP, LEAST_STEP[multiple] - 1, -1):
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
        _TWO_PAIRS, low_bits=(12, 8, 4, 0), offsets=(0, 0, 0, 0), factors=(1, 1, 1, 1),
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


def int4_stream(
    rescaling: Rescaling, channels_at_once: int, is_plain: bool, has_groups: bool
) -> Stream:
    """The constants of a kernel. is_plain: weights in the order of inputs."""
    unit = (_STEP_UNITS if has_groups else _UNITS)[channels_at_once]
    quads_in_size = channels_at_once // 2

    def fields(
        channels: int, zero_point: int, octets: int = 0, group: int = 0, quads: int = 0
    ) -> list[Field]:
        whole, step = quads_in_size * (quads or octets), quads_in_size * group
        lanes = lanes_of(channels, unit.channels)
        return unit.fields(rescaling, lanes, weights_at(lanes, whole, is_plain), zero_point, step)

    return Stream(rescaling.sources, fields, _prepare, _restore)
