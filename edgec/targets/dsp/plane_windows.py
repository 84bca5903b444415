"""Convolutions of one channel for the DSP extension: windows stay where they are."""

from __future__ import annotations

from edgec.errors import ScheduleError
from edgec.loop.microkernel import get_microkernel
from edgec.loop.schedule import Schedule
from edgec.targets.common.constant_channels import fold_constant_channels, replace_constants
from edgec.targets.common.kernels.rescaling import TFLM
from edgec.targets.common.limits import find_limits
from edgec.targets.common.nests import decompose, find_param, output_loops
from edgec.targets.dsp.kernels.depthwise import ZERO_POINT, fits_stream
from edgec.targets.dsp.kernels.plane_windows import NAME, fits_plane
from edgec.targets.rule import Nest


def schedule_plane_windows(nest: Nest) -> list[Schedule]:
    """Rows of windows on a kernel; none where it cannot do them."""
    func, tables, window = nest.func, nest.tables, nest.window
    limits, out = find_limits(func), find_param(func, "out")
    way = limits and (limits.rescaling, limits.zero_point)
    if window is None or way != (TFLM, ZERO_POINT) or not fits_plane(window, out.shape[3]):
        return []
    constants = fold_constant_channels(tables, TFLM, ZERO_POINT)
    if not fits_stream(constants, TFLM):
        return []
    schedule = nest.schedule()
    _, high, wide, channel = output_loops(func, "out", "out")
    try:
        schedule.compute_at("acc", channel)
        decompose(schedule, "acc")
        schedule.simplify()
        sizes = {**window.sizes, "channels": out.shape[3]}
        named = {name: sizes[name] for name in get_microkernel(NAME).sizes}
        schedule.tensorize(wide, NAME, named, {"row": high if out.shape[1] > 1 else "0"})
    except ScheduleError:
        return []
    replace_constants(schedule, tables, constants)
    return [schedule]
