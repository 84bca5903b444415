"""First steps of schedules whose windows are whole: offsets folded, inputs gathered."""

from __future__ import annotations

from edgec.loop.primitives.fold_offset import adds_offset
from edgec.loop.primitives.whole_windows import is_clipped
from edgec.loop.schedule import Schedule
from edgec.targets.rule import Nest

#: Rows and columns of an image [N, H, W, C].
IMAGE_AXES = (1, 2)


def fold_offsets(schedule: Schedule, buffer: str = "x") -> None:
    """Let sums start from constants that hold what is added to all inputs, if something is."""
    if adds_offset(schedule.func, "acc", buffer):
        schedule.fold_offset("acc", buffer)


def gathered(nest: Nest) -> Schedule:
    """Windows gathered in `col` one after the other; ScheduleError where they cannot be."""
    schedule = Schedule(nest.func)
    if is_clipped(schedule.func, "acc"):
        schedule.pad_reads("acc", "x", IMAGE_AXES)
        fold_offsets(schedule)
    schedule.gather("acc", "x", "col")
    return schedule
