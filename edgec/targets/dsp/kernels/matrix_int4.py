"""Products of int8 by int4 weights (`runtime_c/kernels/dsp/matrix_s8_int4.h`).

They mean what the kernels of `edgec.targets.dsp.kernels.matrix` mean, for weights of [-8, 7]; their
streams are about half as long. The kernels of `matrix_s8_onnx_groups.h` take weights that are such
numbers shifted by up to 3 bits, the same for all inputs of a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from edgec.loop.stream import Digits, Field, Stream, Totals, lanes_of
from edgec.targets.common.kernels.rescaling import Rescaling
from edgec.targets.dsp.kernels.int4_steps import divide_steps, join_steps, step_factors
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
#: What a step's sums are multiplied by that has no shift.
_ONCE = 16


@dataclass(frozen=True)
class _Unit:
    """Layout of the channels that share a unit of a stream.

    order: of [unit, channel, quad, s, r], half-words of digits of the last axes. low_bits: the
    lowest bit of each digit. offsets: are added to it. factors: the kernel's sum of a channel
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
            *([step_factors(lanes, quads // step)] if step else []),
            Digits("w", halves, "uint16", 1 << np.array(self.low_bits), self.offsets),
            *scale_fields(rescaling, lanes, self.factors, zero_point, [False] * self.channels),
        ]


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


def _prepare(arrays: Mapping[str, Array], **sizes: int) -> Mapping[str, Array]:
    """The constants, and of weights in steps those without shifts; a step stores 16 << shift."""
    found = add_constants(arrays, **sizes)
    return divide_steps(found, once=_ONCE, **sizes) if "group" in sizes else found


def _restore(found: Mapping[str, Array], **sizes: int) -> Mapping[str, Array]:
    """Weights of steps with their shifts."""
    return join_steps(found, once=_ONCE, **sizes) if "group" in sizes else found


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
