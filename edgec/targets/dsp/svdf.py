"""Filters over time on kernels: all dot products at once."""

from __future__ import annotations

from edgec.errors import ScheduleError
from edgec.loop.schedule import Schedule
from edgec.targets.common.kernels.rescaling import TFLM
from edgec.targets.common.kernels.shift_down import LANES, SUFFIXES
from edgec.targets.common.limits import find_ending
from edgec.targets.common.nests import find_param
from edgec.targets.rule import Nest


def schedule_time(nest: Nest, unit: str) -> list[Schedule]:
    """All dot products on the kernel of `dsp` or `mve`; none where that cannot rescale them."""
    func, tables = nest.func, nest.tables
    ending = find_ending(func)
    out = find_param(func, "out")
    if ending is None or ending.rounded.name != TFLM.function or ending.dtype != "int8":
        return []
    if not -31 <= int(tables["shift"][0]) <= -1:
        return []
    units = out.elements
    sizes = {"units": units, "taps": tables["w"].size // units, "zero_point": ending.zero_point}
    dtype = find_param(func, "w").dtype
    if unit == "dsp" and sizes["taps"] % LANES[dtype]:
        return []  # weights are given in words
    schedule = Schedule(func)
    try:
        schedule.compute_at("acc", "out_d1")
        if sizes["taps"] > 1:
            schedule.decompose_reduction("acc", "acc_k")
        schedule.simplify()
        schedule.tensorize("out_d1", f"ec_svdf_time_{SUFFIXES[dtype]}_{unit}", sizes)
    except ScheduleError:
        return []
    return [schedule]
