"""Sums of two int8 tensors on a kernel for the DSP extension."""

from __future__ import annotations

from dataclasses import asdict

from edgec.errors import ScheduleError
from edgec.loop.schedule import Schedule
from edgec.targets.common.elements import limited, on_elements, sum_of_two
from edgec.targets.common.nests import find_param
from edgec.targets.rule import Nest

#: A sum of fewer elements saves less time than the kernel takes code, unless it is one row of many.
FEWEST_SUMS = 512


def schedule_add(nest: Nest) -> list[Schedule]:
    """A sum of two tensors that may be any int8; none for others."""
    func = nest.func
    if not nest.in_rows and find_param(func, "out").elements < FEWEST_SUMS:
        return []
    total, schedule = sum_of_two(func), Schedule(func)
    if total is None or limited(func) is None:
        return []
    try:
        numbers = schedule.floor_sum("out")
    except ScheduleError:
        return []
    made = on_elements(schedule, total.buffers, "ec_add_s8_dsp", asdict(numbers), multiple=4)
    return [] if made is None else [made]
