"""Layers with a memory in floats: the four gates of a unit, their inputs in one call."""

from __future__ import annotations

from edgec.errors import ScheduleError
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule
from edgec.targets.common.recurrent import gates_at_once, is_lstm
from edgec.targets.cortex_m.kernels.products import ADD_PRODUCTS
from edgec.targets.rule import Nest

#: A call gains nothing on fewer inputs.
FEWEST_INPUTS = 32


def is_float_lstm(nest: Nest) -> bool:
    """Whether four gates of floats are sums of products."""
    return nest.dtype == "float32" and is_lstm(nest)


def gates_by_products(nest: Nest) -> list[Schedule]:
    """Both sums of each gate where they are added, on a kernel; empty for short sums."""
    schedule = Schedule(nest.func)
    try:
        for name in ("own", "given"):
            gates_at_once(schedule, name, "gates_c")
        schedule.simplify()
        for name in ("own_k", "given_k"):
            loop = loops_of(schedule.func.body).get(name)
            if loop is None or loop.stop.offset < FEWEST_INPUTS:
                return []
            schedule.tensorize(name, ADD_PRODUCTS, {"count": loop.stop.offset})
    except ScheduleError:
        return []
    return [schedule]
