"""How plain loops store their weights: in as few bytes as hold them, where that costs little."""

from __future__ import annotations

from contextlib import suppress

from edgec.errors import ScheduleError
from edgec.loop.primitives.halves import fits_halves
from edgec.loop.primitives.int4 import fits_int4
from edgec.loop.primitives.shifts import find_shifts
from edgec.loop.primitives.steps import find_steps
from edgec.loop.rewrite import buffers_of
from edgec.loop.schedule import Schedule
from edgec.targets.rule import Nest


def begin(nest: Nest, prepared: Schedule | None = None) -> Schedule:
    """A schedule whose weights are stored as steps and shifts where they can be.

    Float weights as int8 for `size` alone, since it is slower. prepared: with first steps.
    """
    schedule = prepared or Schedule(nest.func)
    if "w" not in nest.tables:
        return schedule
    weights = schedule.table("w", nest.tables)
    steps = find_steps(weights) if nest.is_small else None
    if steps is not None:
        schedule.pack_steps("w", steps[0], steps[1].tolist())
        weights = schedule.repacked["w"](weights)
    found = find_shifts(weights)
    if found is not None:
        shifts = found[1]
        schedule.pack_shifts("w", shifts.shape, shifts.reshape(-1).tolist())
        schedule.pack_int4("w_shift")
    return schedule


def finish(nest: Nest, schedule: Schedule) -> Schedule:
    """Weights in as few bytes as hold them, floats for `size` alone; shifts without a negation."""
    weights = nest.tables.get("w")
    if weights is not None:
        repack = schedule.repacked.get("w")
        if fits_int4(weights if repack is None else repack(weights)):
            schedule.pack_int4("w")
        elif nest.is_small and fits_halves(weights) and "w_step" not in schedule.packed:
            with suppress(ScheduleError):  # a kernel reads whole numbers
                schedule.pack_halves("w")
    # Lines leave few shifts, and layers of one shape then differ in more: that is for time alone.
    if (
        (nest.is_fast or not nest.rescaling)
        and "shift" in buffers_of(schedule.func)
        and (nest.tables["shift"] < 0).all()
    ):
        schedule.complement("shift")
    return schedule
