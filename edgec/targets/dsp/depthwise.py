"""Depthwise convolution for the DSP extension: on planes of int16, or on windows in place."""

from __future__ import annotations

from collections.abc import Mapping

from edgec.errors import ScheduleError
from edgec.loop.gathered import COLUMN
from edgec.loop.in_place import in_place_inputs, row_bytes
from edgec.loop.microkernel import get_microkernel
from edgec.loop.schedule import Schedule
from edgec.loop.values import Array
from edgec.loop.window import Window
from edgec.targets.common.constant_channels import (
    fold_constant_channels,
    has_plain_scales,
    replace_constants,
)
from edgec.targets.common.gathered import IMAGE_AXES, fold_offsets, spread_factors
from edgec.targets.common.kernels.rescaling import TFLM
from edgec.targets.common.limits import Limits, find_limits
from edgec.targets.common.nests import decompose, find_param, largest_divisor, output_loops
from edgec.targets.dsp.kernels.depthwise import ZERO_POINT, fits_stream
from edgec.targets.dsp.kernels.depthwise_row import KERNELS, fits_row
from edgec.targets.dsp.kernels.windows import CHANNELS, MOST_TAPS, fits_windows
from edgec.targets.rule import Nest

#: Columns of outputs in a tile: few, for little scratch, but each tile packs two more.
WIDEST_TILE, NARROWEST_TILE = 24, 8


def column_planes(nest: Nest) -> Nest:
    """The channels of 3x3 windows copied to planes of int16, each column of some rows."""
    window, rows = nest.window, rows_at_once(find_param(nest.func, "out").shape[1])
    if window is None or (window.kernel, window.stride, window.dilation) != ((3, 3), *[(1, 1)] * 2):
        raise ScheduleError("the windows are not 3x3, next to each other")
    if not rows:
        raise ScheduleError("no plane serves these rows")
    schedule = Schedule(nest.func)
    order = (0, 3, -1, 2, 1, -2)
    schedule.pad_tiles("acc", "x", "plane", order, IMAGE_AXES, (1, rows, 2), "int16")
    fold_offsets(schedule, "plane")
    spread_factors(schedule, nest.tables)
    schedule.transform_layout("w", "HWO -> O H W")
    return nest.after(schedule)


def rows_at_once(height: int) -> int:
    """Rows of outputs, of `height`, that one plane serves; 0 where no kernel can do it."""
    most = COLUMN - 2
    if 2 <= height <= most:
        return height
    return max((rows for rows in range(2, most + 1, 2) if height % rows == 0), default=0)


def column_schedules(nest: Nest) -> list[Schedule]:
    """Schedules of column planes; none where kernels cannot do it.

    The fastest packs four channels at once, and needs planes for all of them.
    """
    func, tables, window = nest.func, nest.tables, nest.window
    limits = find_limits(func)
    if window is None or limits is None or not limits.rescaling.needs <= nest.core.features:
        return []
    rescaling, zero_point = limits.rescaling, limits.zero_point
    if rescaling is TFLM and zero_point != ZERO_POINT:
        return []
    constants = fold_constant_channels(tables, rescaling, zero_point)
    shape = find_param(func, "out").shape
    if not fits_stream(constants, rescaling) or not has_plain_scales(constants):
        return []
    if not has_thin_edges(window, shape):
        return []
    found = []
    for lanes, in_tiles in ((4, False), (1, False), (1, True)):
        try:
            found.append(_schedule(nest, window, lanes, in_tiles, limits))
        except ScheduleError:
            continue
    for schedule in found:
        replace_constants(schedule, tables, constants)
    return found


def has_thin_edges(window: Window, shape: tuple[int, ...]) -> bool:
    """Whether windows reach at most one row or column past each side of the input."""
    sides = zip(window.corner, window.shape[:2], shape[1:3], window.stride, strict=True)
    return all(
        before <= 1 and (outs - 1) * stride + 3 <= before + extent + 1
        for before, extent, outs, stride in sides
    )


def _schedule(nest: Nest, window: Window, lanes: int, in_tiles: bool, limits: Limits) -> Schedule:
    """`lanes` channels, which must divide them, are packed at once; or tiles of a channel, if it
    has several, one after the other: that takes less scratch, but never works in place.
    """
    x, out, plane = (find_param(nest.func, name) for name in ("x", "out", "plane"))
    _, _, parts, columns, pairs, _ = plane.shape
    rows, width = out.shape[1] // parts, out.shape[2]
    each = out.shape[3] // x.shape[3]
    if lanes > 1 and (each > 1 or x.shape[3] % lanes):
        raise ScheduleError(f"{lanes} channels cannot be packed at once")
    across = width
    if in_tiles:
        across = largest_divisor(width, WIDEST_TILE)
        if across * rows == width * out.shape[1] or each > 1 or across < NARROWEST_TILE:
            raise ScheduleError("there are no tiles")
        columns = across + 2
    schedule = nest.schedule()
    batch, high, wide, channel = output_loops(nest.func, "out", "out")
    schedule.reorder(batch, channel, high, wide)
    outer = channel
    if max(each, lanes) > 1:
        outer, _ = schedule.split(channel, max(each, lanes))
    first = {"first": "0", "column": "0"}
    if parts > 1:
        outer_high, high = schedule.split(high, rows)
        first["first"] = f"{outer_high if in_tiles else 'plane_j'}*{rows}"
        outer = outer_high if in_tiles else outer
    if across != width:
        outer, wide = schedule.split(wide, across)
        schedule.reorder(outer, high)
        first["column"] = f"{outer}*{across}"
    schedule.compute_at("acc", wide)
    schedule.compute_at("plane", outer, scope="scratch")
    if lanes > 1 and parts > 1:
        schedule.reorder("plane_j", "plane_c")
    decompose(schedule, "acc")
    schedule.simplify()
    schedule.in_place = in_place_inputs(schedule.func)
    schedule.row_bytes = row_bytes(schedule.func)
    schedule.storage_align("plane", -2, COLUMN // 2)
    sizes = {name: window.sizes[name] for name in ("height", "width", "top", "left")}
    fill = window.zero_point if window.is_padded else 0
    sizes |= {"step": x.shape[3], "pairs": pairs, "columns": columns, "fill": fill}
    if lanes > 1:
        sizes["plane"] = parts * columns * COLUMN
        schedule.tensorize("plane_c", "ec_pack_columns_4_s8_dsp", sizes, first)
    else:
        schedule.tensorize("plane_w", "ec_pack_columns_s8_dsp", sizes, first)
    sizes = {"height": rows, "width": across, "out_width": width, "channels": out.shape[3]}
    kernel = get_microkernel(limits.rescaling.kernel("depthwise_3x3"))
    sizes |= {name: number for name, number in limits.sizes.items() if name in kernel.sizes}
    schedule.tensorize(high, kernel.name, sizes)
    return schedule


def window_schedules(nest: Nest) -> list[Schedule]:
    """The schedules of a function that reads its windows where they are, the fastest first.

    Rows of windows that step by two have a kernel of their own: it is fast, but takes code beside
    that for all windows, and no output may follow its input as closely.
    """
    tables, window = nest.tables, nest.window
    limits = find_limits(nest.func)
    if window is None or limits is None or not limits.rescaling.needs <= nest.core.features:
        return []
    constants = fold_constant_channels(tables, limits.rescaling, limits.zero_point)
    if not has_plain_scales(constants):
        return []
    found = []
    by_rows = not nest.is_small or window.stride[0] == 1
    for schedule in (
        _row_schedule(nest, window, constants, limits) if by_rows else None,
        _window_schedule(nest, window, constants, limits),
    ):
        if schedule is not None:
            replace_constants(schedule, tables, constants)
            found.append(schedule)
    return found


def _row_schedule(
    nest: Nest, window: Window, constants: Mapping[str, Array], limits: Limits
) -> Schedule | None:
    """Rows of 3x3 windows, one channel after the other. Where windows step by one, whole images
    have faster ways.
    """
    func = nest.func
    rows, stride = find_param(func, "out").shape[1], window.stride[0]
    if (limits.rescaling, limits.zero_point) != (TFLM, ZERO_POINT) or (rows > 1 and stride == 1):
        return None
    if not fits_stream(constants, TFLM) or not fits_row(window, rows):
        return None
    schedule = nest.schedule()
    _, high, wide, channel = output_loops(func, "out", "out")
    kernel = get_microkernel(KERNELS[stride])
    try:
        schedule.compute_at("acc", channel)
        decompose(schedule, "acc")
        schedule.simplify()
        sizes = {name: window.sizes[name] for name in kernel.sizes}
        schedule.tensorize(wide, kernel.name, sizes, {"row": high if rows > 1 else "0"})
    except ScheduleError:
        return None
    return schedule


def _window_schedule(
    nest: Nest, window: Window, constants: Mapping[str, Array], limits: Limits
) -> Schedule | None:
    """A pixel at a time, four channels at once."""
    rescaling = limits.rescaling
    taps = window.kernel[0] * window.kernel[1]
    if taps > MOST_TAPS or window.shape[2] % CHANNELS or not fits_windows(constants, rescaling):
        return None
    ends = {"out_zero_point": limits.zero_point}
    if rescaling.result == "int16":
        ends = {"least": limits.minimum, "most": limits.maximum}
    schedule, func = nest.schedule(), nest.func
    _, high, wide, channel = output_loops(func, "out", "out")
    rows = find_param(func, "out").shape[1]
    try:
        schedule.compute_at("acc", channel)
        decompose(schedule, "acc")
        schedule.simplify()
        schedule.tensorize(
            wide,
            rescaling.kernel("depthwise_windows"),
            {**window.sizes, **ends},
            {"pixel": f"{high}*{window.out_width}" if rows > 1 else "0"},
        )
    except ScheduleError:
        return None
    return schedule
