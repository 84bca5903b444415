"""Sums and products of tensors, means and maxima of channels on MVE."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from edgec.errors import ScheduleError
from edgec.loop.ir import Cast, Const, PrimFunc, Store
from edgec.loop.rewrite import buffers_of, statements, subexpressions, with_constants
from edgec.loop.schedule import Schedule
from edgec.targets.common.elements import on_elements, sum_of_two
from edgec.targets.common.nests import find_param, stored_value
from edgec.targets.rule import Nest

#: Channels that a vector holds.
MEAN_CHANNELS = 16
#: Channels that are summed as floats at once.
REAL_CHANNELS = 8
#: Vectors take denormal floats for 0: of such numbers, no sum is one.
LEAST_SCALE = 2.0**-60


def schedule_linear_sum(nest: Nest) -> list[Schedule]:
    """A linear sum of two tensors as calls; none for others."""
    func = nest.func
    total = sum_of_two(func)
    if total is None:
        return []
    limits = {"minimum": total.minimum, "maximum": total.maximum}
    sizes = {**asdict(total.linear), **limits}
    found = on_elements(Schedule(func), total.buffers, "ec_linear_sum_s8_mve", sizes)
    return [] if found is None else [found]


def schedule_mean(nest: Nest) -> list[Schedule]:
    """The mean of each channel of a whole image; none for others."""
    func = nest.func
    x, out = (find_param(func, name) for name in ("x", "out"))
    limits = _limits(func)
    if limits is None or len(out.shape) != 4 or out.elements != out.shape[3]:
        return []
    if x.dtype != "int8" or out.shape[3] < MEAN_CHANNELS:
        return []
    schedule = Schedule(func)
    _, height, width, channels = x.shape
    sizes = {"kernel_h": height, "kernel_w": width, "channels": channels, **limits}
    try:
        schedule.compute_at("acc", "out_d3")
        schedule.decompose_reduction("acc", "acc_kh")
        schedule.simplify()
        schedule.tensorize("out_d3", "ec_mean_s8_mve", sizes)
    except ScheduleError:
        return []
    return [schedule]


def schedule_real_mean(nest: Nest) -> list[Schedule]:
    """Such a mean in floats, its sums on a kernel; none for others."""
    func = nest.func
    x, out = (find_param(func, name) for name in ("x", "out"))
    sums = buffers_of(func).get("acc")
    if sums is None or sums.dtype != "float32" or x.dtype != "int8" or len(out.shape) != 4:
        return []
    if out.elements != out.shape[3] or out.shape[3] % REAL_CHANNELS:
        return []
    consts = [
        part
        for stmt in statements(func.body)
        if isinstance(stmt, Store) and stmt.buffer == sums
        for part in subexpressions(stmt.value)
        if isinstance(part, Const)
    ]
    scales = [np.float32(c.value) for c in consts if c.dtype == "float32" and c.value != 0.0]
    points = [int(c.value) for c in consts if c.dtype == "int32"]
    if len(scales) != 1 or len(points) > 1 or scales[0] < LEAST_SCALE:
        return []
    schedule = Schedule(func)
    _, height, width, channels = x.shape
    sizes = {"kernel_h": height, "kernel_w": width, "channels": channels}
    sizes |= {"zero_point": sum(points), "scale_bits": int(scales[0].view(np.int32))}
    try:
        schedule.cache_write("acc", "acc_c")
        schedule.decompose_reduction("acc", "acc_kh")
        schedule.simplify()
        schedule.tensorize("acc_c", "ec_sum_real_channels_s8_mve", sizes)
    except ScheduleError:
        return []
    return [schedule]


def _limits(func: PrimFunc) -> dict[str, int] | None:
    """The range that an output is limited to before it becomes int8."""
    value = stored_value(func)
    found = with_constants(value.value, "min", "max") if isinstance(value, Cast) else None
    return {"minimum": found[1][1], "maximum": found[1][0]} if found else None
