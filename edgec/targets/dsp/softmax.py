"""Softmax of int8 on kernels for the DSP extension: three for each row."""

from __future__ import annotations

from edgec.errors import ScheduleError
from edgec.loop.schedule import Schedule
from edgec.targets.common.nests import find_param
from edgec.targets.common.rows import schedule_rows
from edgec.targets.rule import Nest

#: Rows of softmax that are worth the calls of kernels, and elements that are worth their code.
SHORTEST_ROW = 8
FEWEST_IN_ROWS = 256


def schedule_softmax(nest: Nest) -> list[Schedule]:
    """Softmax of int8 on kernels for the DSP extension; none for short rows and few elements."""
    func = nest.func
    out = find_param(func, "out")
    count = out.shape[-1] if out.shape else 0
    if out.dtype != "int8" or count < SHORTEST_ROW or out.elements < FEWEST_IN_ROWS:
        return []
    schedule = Schedule(func)
    schedule_rows(schedule, 1)
    schedule.simplify()
    try:
        for loop, kernel in (
            ("largest_k", "ec_largest_s8_dsp"),
            ("total_k", "ec_sum_exponentials_s8_dsp"),
            (f"out_d{len(out.shape) - 1}", "ec_softmax_s8_dsp"),
        ):
            schedule.tensorize(loop, kernel, {"count": count})
    except ScheduleError:
        return []
    return [schedule]
