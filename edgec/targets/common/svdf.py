"""The memory of filters over time, which moves by one element at each run."""

from __future__ import annotations

from edgec.errors import ScheduleError
from edgec.loop.ir import PrimFunc
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule
from edgec.targets.common.kernels.shift_down import SUFFIXES
from edgec.targets.common.nests import find_param


def schedule_push(func: PrimFunc) -> list[Schedule]:
    """The memory's values all moved down by one on a microkernel, and features after them."""
    schedule = Schedule(func)
    out = find_param(func, "out")
    if out.dtype not in SUFFIXES or "move_i" not in loops_of(func.body):
        return []
    try:
        kernel = f"ec_shift_down_{SUFFIXES[out.dtype]}"
        schedule.tensorize("move_i", kernel, {"count": out.elements - 1})
    except ScheduleError:
        return []
    return [schedule]
