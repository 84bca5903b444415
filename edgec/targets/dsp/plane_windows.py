"""Convolutions of one channel for the DSP extension: windows stay where they are."""

from __future__ import annotations

from collections.abc import Mapping

from edgec.errors import ScheduleError
from edgec.loop.ir import PrimFunc
from edgec.loop.lowering import PLANE_WINDOWS
from edgec.loop.microkernel import get_microkernel
from edgec.loop.schedule import Schedule
from edgec.loop.values import Array
from edgec.loop.window import Window
from edgec.targets.common.constant_channels import replace_constants, settled
from edgec.targets.common.kernels.rescaling import TFLM
from edgec.targets.common.nests import decompose, find_param, output_loops, rescaling_of
from edgec.targets.dsp.kernels.depthwise import ZERO_POINT, fits_stream
from edgec.targets.dsp.kernels.plane_windows import NAME, fits_plane


def plane_window_forms(operators: tuple[str, ...]) -> tuple[str, ...]:
    """Forms for a group of these operators; what has more channels yields no schedule."""
    known = (("conv2d", "requantize"), ("depthwise_conv2d", "requantize"))
    return (PLANE_WINDOWS,) if operators in known else ()


def schedule_plane_windows(
    func: PrimFunc, tables: Mapping[str, Array], window: Window | None
) -> Schedule | None:
    """Rows of windows on a microkernel; None where it cannot do them."""
    rescaling, out = rescaling_of(func), find_param(func, "out")
    if window is None or rescaling != (TFLM, ZERO_POINT):
        return None
    if not fits_plane(window, out.shape[3]):
        return None
    constants = settled(tables, TFLM, ZERO_POINT)
    if not fits_stream(constants, TFLM):
        return None
    schedule = Schedule(func)
    _, high, wide, channel = output_loops(func, "out", "out")
    try:
        schedule.compute_at("acc", channel)
        decompose(schedule, "acc")
        schedule.simplify()
        sizes = {**window.sizes, "channels": out.shape[3]}
        named = {name: sizes[name] for name in get_microkernel(NAME).sizes}
        schedule.tensorize(wide, NAME, named, {"row": high if out.shape[1] > 1 else "0"})
    except ScheduleError:
        return None
    replace_constants(schedule, tables, constants)
    return schedule
