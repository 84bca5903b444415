"""Convolution and dense on MVE: vectors of integers along the channels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from edgec.errors import ScheduleError
from edgec.loop.dtype import bits
from edgec.loop.intrinsics import INT32_MAX
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import get_microkernel
from edgec.loop.primitives.int4 import fits_int4
from edgec.loop.schedule import Schedule
from edgec.loop.values import Array
from edgec.loop.window import Window
from edgec.targets.common.gathered import fuse_pixels
from edgec.targets.common.kernels.rescaling import ONNX, RESCALINGS, TFLM, Rescaling
from edgec.targets.common.limits import Limits, find_limits
from edgec.targets.common.nests import decompose, find_param
from edgec.targets.helium.kernels.depthwise import fits_pairs
from edgec.targets.helium.kernels.depthwise_int16 import BLOCK
from edgec.targets.helium.kernels.int4 import GROUPS, INT4, MOST_DEPTH, step_of
from edgec.targets.helium.kernels.matrix import (
    CONV_UNIT,
    DENSE_UNIT,
    QUAD,
    QUADS_UNIT,
    SLICE,
    slice_of,
)
from edgec.targets.helium.kernels.rows import FARTHEST, MOST_GATHERED, has_rgb_columns
from edgec.targets.rule import Nest

#: Scales of floats are below this, or what they give is, so that a zero point fits beside it.
MOST_SCALE, MOST_RESULT = 0.5, 1 << 30
#: A dense layer of fewer products is small.
FEW_PRODUCTS = 1024
#: Of windows whose pixels share inputs: width, stride, dilation and channels.
SHARED = 3, 1, 1, SLICE
#: Bytes that a padded copy of several rows may take, and windows side by side of several rows.
MOST_PADDED, MOST_COLUMNS = 4096, 2048


def schedule_vectors(nest: Nest) -> list[Schedule]:
    """Schedules of a nest on Helium's kernels; none where no kernel fits.

    With `--optimize time` the taps of depthwise windows may be paired in another order, so that
    weights of -128 fit. Weights are stored as int4 where they fit, else as int8.
    """
    tables, bits = nest.tables, nest.weight_bits
    limits = find_limits(nest.func)
    if limits is None or not limits.rescaling.needs <= nest.core.features:
        return []
    if limits.rescaling.result == "int8" and not _fits_scales(tables):
        return []
    storages = [limits]
    short = _in_four_bits(nest, tables["w"], limits) if 4 in bits else None
    if short is not None:
        storages = [limits, short] if 8 in bits else [short]
    found = []
    for way, limits in product(_ways(nest), storages):
        schedule = nest.schedule()
        try:
            way(schedule, limits)
        except ScheduleError:
            continue
        found.append(schedule)
    return found


def _ways(nest: Nest) -> list[Callable[[Schedule, Limits], None]]:
    """Ways to schedule the nest, with the limits of its results."""
    if is_matrix(nest):
        return [partial(_matrix, nest)]
    way = _windows if _has_columns(nest) or not nest.is_depthwise else _channel_windows
    return [partial(_quad_rows, nest), *(partial(way, nest, n) for n in _rows_at_once(nest))]


def _quad_rows(nest: Nest, schedule: Schedule, limits: Limits) -> None:
    """Row by row, four neighbouring pixels at a time, which share what they read."""
    if not _has_quads(nest) or nest.tables["shift"].max() >= 0:
        raise ScheduleError("four neighbouring pixels do not share inputs")
    if limits != replace(limits, rescaling=TFLM, minimum=-128, maximum=127, weights=""):
        raise ScheduleError("results are not int8 that only int8 limits")
    _window_rows(schedule, limits, nest.window, 1, "conv_quads")


def _has_quads(nest: Nest) -> bool:
    """Whether the windows are such ones, and there are as many of them as kernels take."""
    window, shape = nest.window, find_param(nest.func, "out").shape
    if window is None or _has_columns(nest) or nest.is_depthwise or "shift" not in nest.tables:
        return False
    sizes = window.kernel[1], window.stride[1], window.dilation[1], window.shape[2]
    return sizes == SHARED and shape[2] % QUAD == 0 and shape[3] % QUADS_UNIT == 0


def _windows(nest: Nest, rows: int, schedule: Schedule, limits: Limits) -> None:
    way = _column_rows if _has_columns(nest) else _window_rows
    way(schedule, limits, nest.window, rows)


def _channel_windows(nest: Nest, rows: int, schedule: Schedule, limits: Limits) -> None:
    if limits.rescaling in RESCALINGS:
        _require_pairs(nest.tables["w"], nest.is_fast or rows == 1)
        _require_room(nest.tables)
    _depthwise_rows(schedule, limits, nest.window, rows)


def is_matrix(nest: Nest) -> bool:
    """Whether it is a product of matrices."""
    return nest.window is None or nest.window.is_pixel


def _has_columns(nest: Nest) -> bool:
    return "col" in nest.temporaries


def _fits_int4(nest: Nest, w: Array, rescaling: Rescaling) -> bool:
    """Whether the weights fit int4 and there are kernels for them."""
    is_known = not nest.is_depthwise or _has_columns(nest)
    depth = w.size // find_param(nest.func, "out").shape[-1]
    return is_known and rescaling in RESCALINGS and depth <= MOST_DEPTH and fits_int4(w)


def _in_four_bits(nest: Nest, w: Array, limits: Limits) -> Limits | None:
    """Storage of these int4 weights for kernels, with the shifts of groups if there are any."""
    if _fits_int4(nest, w, limits.rescaling):
        return replace(limits, weights=INT4)
    if limits.rescaling is not ONNX or nest.is_depthwise:
        return None
    rows = w.reshape(len(w), 1 if is_matrix(nest) or _has_columns(nest) else w.shape[1], -1)
    step = step_of(rows)
    return replace(limits, weights=GROUPS, slices=step) if step else None


def _rows_at_once(nest: Nest) -> list[int]:
    """Numbers of output rows that may share one padded copy of the input, largest first.

    More rows pad less input twice, and take more scratch.
    """
    func, window, has_columns = nest.func, nest.window, _has_columns(nest)
    if is_matrix(nest) or window is None:
        return [1]
    _, height, width, _ = find_param(func, "out").shape
    itemsize = itemsize_of(func)
    if not has_columns and not (window.is_padded and nest.is_depthwise):
        return [1]  # a convolution takes much longer than a copy
    inner = window.padded(height) if window.is_padded else window
    row_bytes = inner.shape[1] * inner.shape[2] * itemsize if window.is_padded else 0
    parts = [rows for rows in range(1, height + 1) if height % rows == 0]
    found = [r for r in parts if _rows_read(window, r) * row_bytes <= MOST_PADDED]
    most = {max(found, default=1), 1}
    if has_columns:
        most.add(max((r for r in found if _fits_columns(window, r, width, itemsize)), default=1))
    return sorted(most, reverse=True)


def itemsize_of(func: PrimFunc) -> int:
    """Bytes of an input's element."""
    return bits(find_param(func, "x").dtype) // 8


def _fits_columns(window: Window, rows: int, width: int, itemsize: int) -> bool:
    """Whether the gathered windows of `rows` output rows fit in scratch."""
    return rows * width * window.depth * itemsize <= MOST_COLUMNS


def _rows_read(window: Window, rows: int) -> int:
    """Number of input rows that `rows` consecutive output rows read."""
    return (rows - 1) * window.stride[0] + (window.kernel[0] - 1) * window.dilation[0] + 1


def _matrix(nest: Nest, schedule: Schedule, limits: Limits) -> None:
    """All pixels in one call: the output follows the input through memory.

    The kernel of one pixel takes a third fewer instructions. By default, small layers do without:
    most models have convolutions, too, whose code they share.
    """
    out, weights = find_param(schedule.func, "out"), find_param(schedule.func, "w")
    channels, depth = out.shape[-1], weights.shape[-1]
    pixels = out.elements // channels
    loop = fuse_pixels(schedule)
    is_small = not nest.is_fast and weights.elements < FEW_PRODUCTS
    if pixels == 1 and channels >= DENSE_UNIT and not is_small:
        sizes = {"depth": depth, "channels": channels, **limits.sizes}
        schedule.tensorize(loop, limits.kernel("dense"), sizes)
        return
    _require_channels(channels)
    sizes = {
        "kernel_h": 1, "kernel_w": 1, "in_channels": depth, "pitch": 0, "step": depth,
        "pixels": pixels, "channels": channels, **limits.sizes,
    }  # fmt: skip
    schedule.tensorize(loop, limits.kernel("conv"), sizes)


def _window_rows(
    schedule: Schedule, limits: Limits, window: Window | None, rows: int, products: str = "conv"
) -> None:
    """Convolve row by row, on a padded copy of the input rows that an output row reads."""
    if window is None or window.is_pixel or not _has_long_runs(window, slice_of(limits.rescaling)):
        raise ScheduleError("the windows have no long runs")
    channels = find_param(schedule.func, "out").shape[3]
    _require_channels(channels)
    inner = _pad_rows(schedule, window, rows)
    loop, pixels, step = _pixels(schedule, inner)
    sizes = {
        "kernel_h": inner.kernel[0], "kernel_w": inner.kernel[1], "in_channels": inner.shape[2],
        "pitch": inner.dilation[0] * inner.shape[1] * inner.shape[2], "step": step,
        "pixels": pixels, "channels": channels, **limits.sizes,
    }  # fmt: skip
    kernel = get_microkernel(limits.kernel(products))
    schedule.tensorize(loop, kernel.name, {name: sizes[name] for name in kernel.sizes})
    _tensorize_padding(schedule, window, rows)


def _depthwise_rows(schedule: Schedule, limits: Limits, window: Window | None, rows: int) -> None:
    """Depthwise rows: a vector holds the channels of a pixel, or of several pixels with few."""
    channels = find_param(schedule.func, "out").shape[3]
    if window is None or window.shape[2] != channels:
        raise ScheduleError("channels have several outputs")
    inner = _pad_rows(schedule, window, rows)
    loop, pixels, step = _pixels(schedule, inner)
    if rows > 1:
        loop = "out_d1_i"
    is_short = limits.rescaling in RESCALINGS  # int8 to int8
    if channels < (SLICE if is_short else BLOCK) and not (
        is_short
        and SLICE % channels == 0
        and step == channels
        and pixels * channels >= SLICE
        and window.is_padded  # in scratch: the output is somewhere else
    ):
        raise ScheduleError("pixels do not share vectors")
    sizes = {
        "kernel_h": inner.kernel[0], "kernel_w": inner.kernel[1],
        "pitch": inner.dilation[0] * inner.shape[1] * channels,
        "tap": inner.dilation[1] * channels,
        "row_step": inner.stride[0] * inner.shape[1] * channels, "rows": rows, "step": step,
        "pixels": pixels, "channels": channels, **limits.sizes,
    }  # fmt: skip
    schedule.tensorize(loop, limits.kernel("depthwise"), sizes)
    _tensorize_padding(schedule, window, rows)


def _require_pairs(w: Array, paired: bool) -> None:
    if w.min() < -127 and not (paired and fits_pairs(w)):
        raise ScheduleError("two products do not fit in int16")


def _fits_scales(tables: Mapping[str, Array]) -> bool:
    """Whether sums that float scales rescale fit in int32 with the zero point, for all inputs."""
    if "scale" not in tables:
        return True
    scale = tables["scale"].astype(np.float64)
    depth = tables["w"].size // len(tables["bias"])
    most = np.abs(tables["bias"].astype(np.int64)) + depth * 128 * 128
    fits = (scale < MOST_SCALE) | ((most <= INT32_MAX) & (most * scale < MOST_RESULT))
    return bool(np.all((scale > 0) & fits))


def _require_room(tables: Mapping[str, Array]) -> None:
    """Raise ScheduleError unless int32 holds every rescaled sum with the zero point added."""
    if "scale" in tables:
        return  # `_fits_scales` has checked them
    w = tables["w"].reshape(-1, tables["w"].shape[-1]).astype(np.int64)
    most = np.abs(tables["bias"].astype(np.int64)) + 128 * np.abs(w).sum(axis=0)
    if not np.all((most < INT32_MAX - 128) | (tables["shift"] < 0)):
        raise ScheduleError("a sum and the zero point may not fit in int32")


def _column_rows(schedule: Schedule, limits: Limits, window: Window | None, rows: int) -> None:
    """Gather windows into rows of a matrix first: their own runs of inputs are short."""
    if window is None or window.is_pixel or not is_gathered(window):
        raise ScheduleError("the windows are not gathered")
    if not any(param.name == "col" for param in schedule.func.params):
        raise ScheduleError("there are no columns")
    _, _, pixels, channels = find_param(schedule.func, "out").shape
    _require_channels(channels)
    inner = _pad_rows(schedule, window, rows)
    loop, count = ("out_d2" if pixels > 1 else "out_d3"), pixels
    if rows > 1 and _fits_columns(window, rows, pixels, itemsize_of(schedule.func)):
        loop, count = "out_d1_i", rows * pixels
        if pixels > 1:
            loop = schedule.fuse("out_d1_i", "out_d2")
    sizes = {
        "kernel_h": 1, "kernel_w": 1, "in_channels": inner.depth, "pitch": 0, "step": inner.depth,
        "pixels": count, "channels": channels, **limits.sizes,
    }  # fmt: skip
    schedule.tensorize(loop, limits.kernel("conv"), sizes)
    dtype, loop = limits.rescaling.short_dtype, "col_w" if pixels > 1 else "col_k"
    sizes = {"stride_w": inner.stride[1], "width": inner.shape[1], "pixels": pixels}
    if dtype == "s8" and has_rgb_columns(inner):
        schedule.tensorize(loop, "ec_columns_rgb_s8_mve", sizes)
    else:
        sizes |= {
            "kernel_h": inner.kernel[0], "kernel_w": inner.kernel[1], "channels": inner.shape[2],
            "dilation_h": inner.dilation[0],
        }  # fmt: skip
        schedule.tensorize(loop, f"ec_columns_{dtype}_mve", sizes)
    _tensorize_padding(schedule, window, rows)


def _pad_rows(schedule: Schedule, window: Window, rows: int) -> Window:
    """Make the padded copy for some rows of the output; returns the window over the rows read."""
    inner = window
    outer, row = "out_d1", "out_d1"
    if rows > 1:
        outer, row = schedule.split("out_d1", rows, tail="exact")
    schedule.compute_at("acc", "out_d3")
    if any(param.name == "col" for param in schedule.func.params):
        width = find_param(schedule.func, "out").shape[2]
        together = _fits_columns(window, rows, width, itemsize_of(schedule.func))
        schedule.compute_at("col", outer if together else row, scope="scratch")
    if window.is_padded:
        schedule.compute_at("padded", outer, scope="scratch")
        inner = window.padded(find_param(schedule.func, "out").shape[1])
    decompose(schedule, "acc")
    schedule.simplify()
    if window.is_padded:
        outer, by = _steps(window, rows)
        if rows < find_param(schedule.func, "out").shape[1] and by < _rows_read(window, rows):
            schedule.roll("padded_h", outer, by)
    return inner


def _steps(window: Window, rows: int) -> tuple[str, int]:
    """The loop over this many rows of the output, and from one step to the next the rows read."""
    return "out_d1" if rows == 1 else "out_d1_o", rows * window.stride[0]


def _pixels(schedule: Schedule, window: Window) -> tuple[str, int, int]:
    """The loop that a kernel replaces: its name, its pixels, elements between their inputs.

    It is the loop over a row, or over the column where rows have one pixel and need no padding.
    """
    _, height, width, _ = find_param(schedule.func, "out").shape
    row = window.shape[1] * window.shape[2]
    if width > 1:
        return "out_d2", width, window.stride[1] * window.shape[2]
    if height > 1 and not any(p.name == "padded" for p in schedule.func.params):
        return "out_d1", height, window.stride[0] * row
    return "out_d3", 1, row


def _tensorize_padding(schedule: Schedule, window: Window, rows: int) -> None:
    if not window.is_padded:
        return
    if find_param(schedule.func, "out").shape[0] != 1:
        raise ScheduleError("several images are not padded row by row")
    read = _rows_read(window, rows)
    height = find_param(schedule.func, "out").shape[1]
    outer, by = _steps(window, rows)
    kernel = get_microkernel(
        "ec_pad_rows_s8_mve" if itemsize_of(schedule.func) == 1 else "ec_pad_rows_s16_mve"
    )
    sizes = {name: size for name, size in window.sizes.items() if name in kernel.sizes}
    sizes |= {"rows": read, "out_width": window.padded(height).shape[1], "by": min(by, read)}
    first = "0" if height == rows else f"{outer}*{by}"
    schedule.tensorize("padded_h" if read > 1 else "padded_w", kernel.name, sizes, {"row": first})


def _has_long_runs(window: Window, inputs: int) -> bool:
    """Whether the inputs of a window's row are contiguous and fill a vector of `inputs`."""
    together = window.dilation[1] == 1 or window.kernel[1] == 1
    return together and (window.kernel[1] * window.shape[2] >= inputs or not is_gathered(window))


def is_gathered(window: Window) -> bool:
    """Whether the kernel that gathers windows takes ones of this size."""
    row = window.shape[1] + sum(window.corner) + window.kernel[1]
    reach = (window.kernel[0] * window.dilation[0]) * row * window.shape[2]
    return window.depth <= MOST_GATHERED and reach <= FARTHEST and window.dilation[1] == 1


def _require_channels(channels: int) -> None:
    if channels < CONV_UNIT:
        raise ScheduleError("there are fewer channels than a unit has")
