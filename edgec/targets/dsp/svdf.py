"""Filters over time on microkernels: their dot products, and their past that moves down."""

from __future__ import annotations

from collections.abc import Mapping

from edgec.errors import ScheduleError
from edgec.loop.ir import PrimFunc
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule
from edgec.loop.values import Array
from edgec.targets.common.kernels.rescaling import TFLM
from edgec.targets.common.nests import find_param, rescaling_of
from edgec.targets.dsp.kernels.svdf import LANES, SUFFIXES


def schedule_push(func: PrimFunc) -> Schedule | None:
    """The memory's values all moved down by one on a microkernel, and features behind them."""
    schedule = Schedule(func)
    out = find_param(func, "out")
    if out.dtype not in SUFFIXES or "move_i" not in loops_of(func.body):
        return None
    try:
        kernel = f"ec_shift_down_{SUFFIXES[out.dtype]}"
        schedule.tensorize("move_i", kernel, {"count": out.elements - 1})
    except ScheduleError:
        return None
    return schedule


def schedule_time(func: PrimFunc, tables: Mapping[str, Array], unit: str) -> Schedule | None:
    """All dot products on the kernel of `dsp` or `mve`; None where that cannot rescale them."""
    found = rescaling_of(func)
    out = find_param(func, "out")
    if found is None or found[0] is not TFLM or out.dtype != "int8":
        return None
    if not -31 <= int(tables["shift"][0]) <= -1:
        return None
    units = out.elements
    sizes = {"units": units, "taps": tables["w"].size // units, "zero_point": found[1]}
    dtype = find_param(func, "w").dtype
    if unit == "dsp" and sizes["taps"] % LANES[dtype]:
        return None  # weights are told in words
    schedule = Schedule(func)
    try:
        schedule.compute_at("acc", "out_d1")
        if sizes["taps"] > 1:
            schedule.decompose_reduction("acc", "acc_k")
        schedule.simplify()
        schedule.tensorize("out_d1", f"ec_svdf_time_{SUFFIXES[dtype]}_{unit}", sizes)
    except ScheduleError:
        return None
    return schedule
