"""First steps of schedules whose windows are whole: offsets folded, inputs padded or gathered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from edgec.errors import ScheduleError
from edgec.loop.dtype import is_float
from edgec.loop.primitives.fold_offset import adds_offset
from edgec.loop.primitives.whole_windows import is_clipped, leaves_out_weights
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule
from edgec.loop.values import Array
from edgec.loop.window import Window
from edgec.targets.common.nests import decompose, find_param, output_loops
from edgec.targets.rule import Nest

#: Rows and columns of an image [N, H, W, C].
IMAGE_AXES = (1, 2)
#: Constants that rescale sums.
FACTORS = ("multiplier", "shift", "scale")


def fold_offsets(schedule: Schedule, buffer: str = "x") -> None:
    """Fold the offset of all inputs, if any, into the constants that sums start from."""
    if adds_offset(schedule.func, "acc", buffer):
        schedule.fold_offset("acc", buffer)


def padding_adds_nothing(dtype: str, tables: Mapping[str, Array]) -> bool:
    """Whether products of padding change no sum: of inputs of this dtype, and these constants.

    Of floats, where weights are finite and no sum is -0 before products of padding are added.
    """
    if not is_float(dtype):
        return True
    if not {"w", "bias"} <= tables.keys():
        return False
    bias = tables["bias"]
    starts = not np.any((bias == 0) & np.signbit(bias))
    return bool(starts and np.all(np.isfinite(tables["w"])))


def gathered(nest: Nest) -> Schedule:
    """Windows gathered in `col` one after the other; ScheduleError where they cannot be."""
    schedule = Schedule(nest.func)
    if is_clipped(schedule.func, "acc"):
        schedule.pad_reads("acc", "x", IMAGE_AXES)
        fold_offsets(schedule)
    schedule.gather("acc", "x", "col")
    return schedule


def spread_factors(schedule: Schedule, tables: Mapping[str, Array]) -> None:
    """Let each channel have a factor of its own."""
    for name in FACTORS:
        if name in tables and tables[name].shape == (1,):
            schedule.spread(name, "out")


def read_whole(nest: Nest) -> tuple[Schedule, Window | None]:
    """Windows read where they are, all whole, and the window that they then are."""
    schedule, window = Schedule(nest.func), nest.window
    if _reaches_outside(nest):
        schedule.pad_reads("acc", "x", IMAGE_AXES)
    elif window is not None:
        window = replace(window, is_padded=False)
    _finish(nest, schedule, "x")
    return schedule, window


def whole_windows(nest: Nest) -> Nest:
    """Windows read where they are, all whole; the weights of each channel together."""
    schedule, window = read_whole(nest)
    if len(find_param(schedule.func, "w").shape) == 3:  # of depthwise windows
        schedule.transform_layout("w", "HWO -> O H W")
    return nest.after(schedule, window)


def plain_matrix(nest: Nest) -> Nest:
    """Products of matrices: dense, and convolutions whose windows are single pixels."""
    if nest.window is not None and not nest.window.is_pixel:
        raise ScheduleError("the windows are not single pixels")
    schedule = Schedule(nest.func)
    _finish(nest, schedule, "x")
    return nest.after(schedule)


def fuse_pixels(schedule: Schedule) -> str:
    """Sum each output where it is stored, in one loop over all pixels; returns its name."""
    *pixels, last = output_loops(schedule.func, "out", "out")
    schedule.compute_at("acc", last)
    decompose(schedule, "acc")
    loop = pixels[0]
    for inner in pixels[1:]:
        loop = schedule.fuse(loop, inner)
    schedule.simplify()
    return loop if loop in loops_of(schedule.func.body) else last


def padded_rows(nest: Nest) -> Nest:
    """Windows of a copy of the input with its padding, if it has any."""
    schedule, window, _ = copy_padded(nest)
    return nest.after(schedule, window)


def copy_padded(nest: Nest) -> tuple[Schedule, Window | None, str]:
    """The schedule that copies with padding, the window, and the buffer that windows read."""
    if nest.window is None or nest.window.is_pixel:
        raise ScheduleError("there are no windows")
    schedule, window, source = Schedule(nest.func), nest.window, "x"
    if _reaches_outside(nest):
        source = schedule.pad_copy("acc", "x", "padded", (0, 1, 2, 3), IMAGE_AXES)
    elif window is not None:
        window = replace(window, is_padded=False)
    _finish(nest, schedule, source)
    return schedule, window, source


def padded_columns(nest: Nest) -> Nest:
    """The windows of that copy one after the other in `col`, each of one dimension."""
    schedule, window, source = copy_padded(nest)
    steps = ["kh", "kw", "ic"]
    if len(find_param(schedule.func, "w").shape) == 3:
        if window is None or window.shape[2] != 1:
            raise ScheduleError("each channel has windows of its own")
        schedule.transform_layout("w", "HWO -> O H W")
        steps.pop()
    schedule.fuse_axes("acc", steps, "k")
    schedule.gather("acc", source, "col")
    schedule.flatten("w", 1, len(find_param(schedule.func, "w").shape) - 1)
    return nest.after(schedule, window)


def _reaches_outside(nest: Nest) -> bool:
    """Whether loops leave out padding, at some places or at all of them."""
    return is_clipped(nest.func, "acc") or leaves_out_weights(nest.func, "acc", "x")


def _finish(nest: Nest, schedule: Schedule, source: str) -> None:
    fold_offsets(schedule, source)
    spread_factors(schedule, nest.tables)
