"""Int4 weights that are shifted by up to 3 bits, the same for all inputs of a step.

A step is a part of a group of inputs that a kernel's loop takes without being left.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgec.loop.primitives.shifts import shared_shifts, without_shifts
from edgec.loop.stream import Field, rows_at
from edgec.loop.values import Array

#: The largest shift of a step: 16 << shift is a byte without a sign, and the weights are int8.
MOST_STEP_SHIFT = 3
#: Quads of a step: at least, by how many at a time kernels take them; at most.
LEAST_STEP, MOST_STEP = {1: 4, 2: 2}, 8


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


def step_factors(lanes: Array, steps: int) -> Field:
    """A byte for each step and channel, step by step, padded to whole words."""
    at = rows_at(lanes, steps).transpose(0, 2, 1).reshape(len(lanes), -1)
    more = ((0, 0), (0, -at.shape[1] % 4))
    return Field("step_factor", np.pad(at, more, constant_values=-1), "uint8")


def divide_steps(
    arrays: Mapping[str, Array], channels: int, group: int, *, once: int, octets: int = 0,
    quads: int = 0, **_: int,
) -> Mapping[str, Array]:  # fmt: skip
    """Return weights without shifts, and the factor of a step's sums: once << shift."""
    steps = arrays["w"].reshape(channels, (quads or octets) // group, -1)
    shifts = shared_shifts(steps)
    digits = without_shifts(steps.reshape(channels, -1), shifts)
    return {**arrays, "step_factor": once << shifts.astype(np.int64), "w": digits}


def join_steps(
    found: Mapping[str, Array], channels: int, group: int, *, once: int, octets: int = 0,
    quads: int = 0, **_: int,
) -> Mapping[str, Array]:  # fmt: skip
    """Return weights with their shifts."""
    steps = found["w"].reshape(channels, (quads or octets) // group, -1)
    factors = found["step_factor"].reshape(channels, -1, 1) // once
    return {**found, "w": steps * factors}
