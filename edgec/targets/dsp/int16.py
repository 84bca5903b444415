"""Products of int16 inputs on DSP cores and MVE: pixel by pixel on microkernels."""

from __future__ import annotations

from edgec.errors import ScheduleError
from edgec.loop.microkernel import get_microkernel
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule
from edgec.loop.window import Window
from edgec.targets.common.gathered import gathered, spread_factors
from edgec.targets.common.kernels.rescaling import TFLM16_TO_8
from edgec.targets.common.limits import find_ending, find_limits
from edgec.targets.common.matrix import tensorize_window
from edgec.targets.common.nests import decompose, find_param, output_loops
from edgec.targets.dsp.kernels.matrix_int16 import ALL_SUMS, UNIT
from edgec.targets.dsp.kernels.windows import CHANNELS
from edgec.targets.dsp.kernels.windows_int16 import LIMITED, MOST_COLUMNS, WINDOWS
from edgec.targets.rule import Nest


def schedule_shorts(nest: Nest) -> list[Schedule]:
    """A product in a call for each pixel; empty where the kernels cannot do it.

    Kernels for inputs that are not a multiple of four are used at `time` only: they are faster than
    loops, but take more code.
    """
    func, tables, window = nest.func, nest.tables, nest.window
    *_, pixel, last = output_loops(func, "out", "out")
    channels, *taps = tables["w"].shape
    ending = find_ending(func)
    if ending is None or channels < UNIT:
        return []
    made = str(tables["bias"].dtype), ending.rounded.name
    fits = [
        sums
        for sums in sorted(ALL_SUMS, key=lambda s: s.unit == "dsp")  # vectors before those
        if (sums.dtype, sums.rescaling.function) == made
        and sums.unit in nest.core.features
        and (nest.is_fast or not sums.has_tail)
        and sums.fits(tables["w"][0].size)
    ]
    if not fits:
        return []
    sizes = {
        **dict(zip(("kernel_h", "kernel_w", "in_channels"), (1, 1, *taps)[-3:], strict=True)),
        "channels": channels, "zero_point": ending.zero_point, "minimum": ending.minimum,
        "maximum": ending.maximum,
    }  # fmt: skip
    kernel = get_microkernel(fits[0].kernel(ending.dtype))
    try:
        schedule = _prepared(nest)
        schedule.compute_at("acc", last)
        if any(buffer.name == "col" for buffer in schedule.func.params):
            schedule.compute_at("col", pixel, scope="scratch")
        decompose(schedule, "acc")
        schedule.simplify()
        schedule.tensorize(last, kernel.name, {name: sizes[name] for name in kernel.sizes})
    except ScheduleError:
        return []
    if window is not None and window.is_padded and window.dilation[1] == 1:
        _gather_windows(schedule, window)
    else:
        _copy_runs(schedule)
    return [schedule]


def _prepared(nest: Nest) -> Schedule:
    """Windows gathered one after the other, unless they are single pixels; a factor for each
    channel.
    """
    is_point = nest.window is None or nest.window.is_point
    schedule = Schedule(nest.func) if is_point else gathered(nest)
    spread_factors(schedule, nest.tables)
    return schedule


def _gather_windows(schedule: Schedule, window: Window) -> None:
    """Let a microkernel gather the windows, where it can."""
    trial = Schedule(schedule.func)
    try:
        tensorize_window(trial, window, "ec_gather_window_s16")
    except ScheduleError:
        return
    schedule.func, schedule.trace = trial.func, [*schedule.trace, *trial.trace]


def schedule_short_windows(nest: Nest) -> list[Schedule]:
    """A depthwise convolution, row by row, that reads its windows where they are; empty where the
    kernel cannot do it.
    """
    func, window = nest.func, nest.window
    limits = find_limits(func)
    if window is None or limits is None:
        return []
    ends = {
        "out_zero_point": limits.zero_point, "least": limits.minimum, "most": limits.maximum,
    }  # fmt: skip
    usual = limits.minimum in (0, -(1 << 15)) and limits.maximum == (1 << 15) - 1
    products = WINDOWS if usual or limits.rescaling is TFLM16_TO_8 else LIMITED
    kernel = get_microkernel(limits.rescaling.kernel(products))
    ends = {name: number for name, number in ends.items() if name in kernel.sizes}
    if window.shape[2] % CHANNELS or window.kernel[1] > MOST_COLUMNS:
        return []
    schedule = nest.schedule()
    _, high, wide, channel = output_loops(func, "out", "out")
    pixel = f"{high}*{window.out_width}" if find_param(func, "out").shape[1] > 1 else "0"
    try:
        schedule.compute_at("acc", channel)
        decompose(schedule, "acc")
        schedule.simplify()
        schedule.tensorize(wide, kernel.name, {**window.sizes, **ends}, {"pixel": pixel})
    except ScheduleError:
        return []
    return [schedule]


def _copy_runs(schedule: Schedule) -> None:
    """Gather the windows run by run, where they are all whole and their pixels lie together."""
    trial = Schedule(schedule.func)
    loops = [name for name in ("col_kw", "col_ic") if name in loops_of(trial.func.body)]
    if not loops:
        return
    try:
        loop = trial.fuse(*loops) if len(loops) == 2 else loops[0]
        trial.simplify()
        col = find_param(trial.func, "col").shape
        run = col[-1] * (col[-2] if len(loops) == 2 else 1)
        trial.tensorize(loop, "ec_copy_row_s16", {"row": run})
    except ScheduleError:
        return
    schedule.func, schedule.trace = trial.func, [*schedule.trace, *trial.trace]
