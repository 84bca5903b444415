"""Depthwise 3x3 convolutions on MVE by planes of channels: a window's inputs lie together."""

from __future__ import annotations

from edgec.errors import ScheduleError
from edgec.loop.in_place import in_place_inputs
from edgec.loop.schedule import Schedule
from edgec.loop.window import Window
from edgec.targets.common.gathered import IMAGE_AXES, fold_offsets, spread_factors
from edgec.targets.common.kernels.rescaling import TFLM
from edgec.targets.common.limits import find_limits
from edgec.targets.common.nests import decompose, find_param, output_loops
from edgec.targets.helium.kernels.planes import (
    LANES,
    MOST_PLANE,
    MOST_ROW,
    ZERO_POINT,
    fits_planes,
)
from edgec.targets.rule import Nest


def channel_planes(nest: Nest) -> Nest:
    """The windows of each column of outputs, row after row, of each channel."""
    window, shape = nest.window, find_param(nest.func, "out").shape
    if window is None or (window.kernel, window.stride, window.dilation) != ((3, 3), *[(1, 1)] * 2):
        raise ScheduleError("the windows are not 3x3, next to each other")
    _require_image(window, shape)
    schedule = Schedule(nest.func)
    schedule.pad_tiles("acc", "x", "plane", (0, 3, -1, 1, 2, -2), IMAGE_AXES, (2, 1, 3))
    fold_offsets(schedule, "plane")
    spread_factors(schedule, nest.tables)
    schedule.transform_layout("w", "HWO -> O H W")
    return nest.after(schedule)


def schedule_planes(nest: Nest) -> list[Schedule]:
    """Four channels packed, then summed; none where kernels cannot do it."""
    limits, window = find_limits(nest.func), nest.window
    if window is None or limits is None or limits.rescaling is not TFLM:
        return []
    if (limits.zero_point, limits.minimum, limits.maximum) != (ZERO_POINT, -128, 127):
        return []
    if not fits_planes(nest.tables):
        return []
    schedule = nest.schedule()
    batch, high, wide, channel = output_loops(nest.func, "out", "out")
    try:
        schedule.reorder(batch, channel, wide, high)
        outer, inner = schedule.split(channel, LANES)
        schedule.compute_at("acc", high)
        schedule.compute_at("plane", outer, scope="scratch")
        decompose(schedule, "acc")
        schedule.simplify()
        schedule.in_place = in_place_inputs(schedule.func)
        height, width, channels = find_param(nest.func, "out").shape[1:]
        fill = window.zero_point if window.is_padded else 0
        sizes = {"height": height, "width": width, "step": channels, "fill": fill}
        schedule.tensorize("plane_c", "ec_pack_planes_s8_mve", sizes)
        sizes = {"height": height, "width": width, "channels": channels}
        schedule.tensorize(inner, "ec_depthwise_planes_s8_mve", sizes)
    except ScheduleError:
        return []
    return [schedule]


def _require_image(window: Window, shape: tuple[int, ...]) -> None:
    if window.corner != (1, 1) or window.shape[:2] != shape[1:3] or shape[0] != 1:
        raise ScheduleError("the output has not the size of its input")
    _, height, width, channels = shape
    if window.shape[2] != channels or channels % LANES:
        raise ScheduleError("the channels do not fill vectors")
    if width * channels >= MOST_ROW or 3 * width * (height + 2) > MOST_PLANE:
        raise ScheduleError("the image is too large")
