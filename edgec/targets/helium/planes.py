"""Depthwise 3x3 convolutions on MVE by planes of channels: a window's inputs lie together."""

from __future__ import annotations

from edgec.errors import ScheduleError
from edgec.loop.in_place import in_place_inputs, row_bytes
from edgec.loop.schedule import Schedule
from edgec.loop.window import Window
from edgec.targets.common.gathered import IMAGE_AXES, fold_offsets, spread_factors
from edgec.targets.common.kernels.rescaling import TFLM
from edgec.targets.common.limits import find_limits
from edgec.targets.common.nests import decompose, find_param, output_loops
from edgec.targets.helium.kernels.planes import (
    LANES,
    LEAST_TILE,
    MOST_PLANE,
    MOST_ROW,
    MOST_TILE,
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
    height, width, channels = find_param(nest.func, "out").shape[1:]
    tile = _columns_at_once(height, width)
    try:
        schedule.reorder(batch, channel, wide, high)
        outer, inner = schedule.split(channel, LANES)
        first = "0"
        if tile < width:
            outer, wide = schedule.split(wide, tile)
            schedule.reorder(outer, inner, wide)
            first = f"{outer}*{tile}"
        schedule.compute_at("acc", high)
        schedule.compute_at("plane", outer, scope="scratch")
        decompose(schedule, "acc")
        schedule.simplify()
        schedule.in_place = in_place_inputs(schedule.func)
        schedule.row_bytes = row_bytes(schedule.func)
        fill = window.zero_point if window.is_padded else 0
        sizes = {
            "height": height, "width": width, "columns": tile, "channels": channels, "fill": fill,
        }  # fmt: skip
        schedule.tensorize("plane_c", "ec_pack_planes_s8_mve", sizes, {"column": first})
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
    if width * channels >= MOST_ROW or not _columns_at_once(height, width):
        raise ScheduleError("the image is too large")


def _columns_at_once(height: int, width: int) -> int:
    """Columns of outputs that planes hold: all, or as many as divide them and fit; 0 for none."""
    column = 3 * (height + 2)
    if column * width <= MOST_PLANE:
        return width
    return max(
        (n for n in range(LEAST_TILE, width) if width % n == 0 and column * n <= MOST_TILE),
        default=0,
    )
