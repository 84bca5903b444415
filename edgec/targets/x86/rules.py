"""Convolutions and dense of int8 on the kernels of x86; those of floats are in `floats.py`.

The input is padded once as a whole, where its windows reach outside: RAM is not scarce. Each row of
outputs is then one call of a kernel, and all pixels are where windows are single pixels.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgec.errors import ScheduleError
from edgec.loop.intrinsics import INT32_MAX
from edgec.loop.schedule import Schedule
from edgec.loop.values import Array
from edgec.loop.window import Window
from edgec.targets.common.gathered import fuse_pixels, padded_columns, padded_rows, plain_matrix
from edgec.targets.common.kernels.rescaling import RESCALINGS
from edgec.targets.common.limits import Limits, find_limits
from edgec.targets.common.nests import decompose, find_param
from edgec.targets.common.sums import Kind
from edgec.targets.dsp.rules import rescaled
from edgec.targets.rule import PLAIN, Nest, Prepare, Rule
from edgec.targets.x86 import floats
from edgec.targets.x86.kernels.products import GROUP, vectors_of
from edgec.targets.x86.kernels.rows import PAD_ROWS

#: Rescaled sums are below this, so that a zero point fits beside them.
MOST_RESULT = 1 << 30


def _schedules(nest: Nest) -> list[Schedule]:
    """On the kernels of the widest vectors; empty where they cannot do it."""
    limits = find_limits(nest.func)
    if limits is None or limits.rescaling not in RESCALINGS or not _fits(nest.tables):
        return []
    schedule, window = nest.schedule(), nest.window
    suffix = vectors_of(nest.core.features).suffix
    try:
        if window is None or window.is_pixel:
            _matrix(schedule, limits, suffix)
        elif find_param(nest.func, "out").shape[0] != 1:
            return []
        elif len(find_param(nest.func, "w").shape) == 3:  # [height, width, channel]
            _depthwise(schedule, limits, window, suffix)
        else:
            _windows(schedule, limits, window, suffix)
    except ScheduleError:
        return []
    return [schedule]


def _fits(tables: Mapping[str, Array]) -> bool:
    """Whether no sum leaves int32, and what it is rescaled to leaves room to be rounded."""
    w, bias = tables["w"].astype(np.int64), tables["bias"].astype(np.int64)
    w = w.reshape(-1, len(bias)).T if w.ndim == 3 else w.reshape(len(bias), -1)
    most = np.abs(bias) + 128 * np.abs(w).sum(axis=1)
    if "scale" in tables:
        scale = tables["scale"].astype(np.float64)
        return bool(np.all((scale > 0) & (most <= INT32_MAX) & (most * scale < MOST_RESULT)))
    down = -tables["shift"].astype(np.int64)
    rounding = (np.int64(1) << np.clip(down, 0, 31)) >> 1
    return bool(np.all((down >= 0) & (down < 32) & (most + rounding + 128 <= INT32_MAX)))


def _matrix(schedule: Schedule, limits: Limits, suffix: str) -> None:
    """All pixels in one call: the output may follow the input through memory."""
    out = find_param(schedule.func, "out")
    channels, depth = out.shape[-1], find_param(schedule.func, "w").shape[-1]
    pixels = out.elements // channels
    _require_group(depth)
    loop = fuse_pixels(schedule)
    sizes = {
        "kernel_h": 1, "kernel_w": 1, "in_channels": depth, "pitch": 0, "step": depth,
        "pixels": pixels, "channels": channels, **limits.sizes,
    }  # fmt: skip
    schedule.tensorize(loop, limits.rescaling.kernel("conv", suffix), sizes)


def _windows(schedule: Schedule, limits: Limits, window: Window, suffix: str) -> None:
    """Row by row; where a row of a window has fewer inputs than a group, windows are gathered."""
    run = window.kernel[1] * window.shape[2]
    gathered = any(param.name == "col" for param in schedule.func.params)
    if gathered != (run < GROUP or window.dilation[1] > 1) or window.is_pixel:
        raise ScheduleError("the other form is for these windows")
    _require_group(window.depth if gathered else run)
    channels = find_param(schedule.func, "out").shape[3]
    inner = _pad(schedule, window)
    loop, pixels, step = _pixels(schedule, inner)
    sizes = {
        "kernel_h": inner.kernel[0], "kernel_w": inner.kernel[1], "in_channels": inner.shape[2],
        "pitch": inner.dilation[0] * inner.shape[1] * inner.shape[2], "step": step,
    }  # fmt: skip
    if gathered:
        sizes = {
            "kernel_h": 1, "kernel_w": 1, "in_channels": inner.depth, "pitch": 0,
            "step": inner.depth,
        }  # fmt: skip
    sizes |= {"pixels": pixels, "channels": channels, **limits.sizes}
    schedule.tensorize(loop, limits.rescaling.kernel("conv", suffix), sizes)
    _tensorize_padding(schedule, window)


def _depthwise(schedule: Schedule, limits: Limits, window: Window, suffix: str) -> None:
    """All rows in one call."""
    _, height, width, channels = find_param(schedule.func, "out").shape
    if window.shape[2] != channels:
        raise ScheduleError("channels have several outputs")
    inner = _pad(schedule, window)
    loop = "out_d1" if height > 1 else "out_d2" if width > 1 else "out_d3"
    row = inner.shape[1] * channels
    sizes = {
        "kernel_h": inner.kernel[0], "kernel_w": inner.kernel[1],
        "pitch": inner.dilation[0] * row, "tap": inner.dilation[1] * channels,
        "row_step": inner.stride[0] * row, "rows": height, "step": inner.stride[1] * channels,
        "pixels": width, "channels": channels, **limits.sizes,
    }  # fmt: skip
    schedule.tensorize(loop, limits.rescaling.kernel("depthwise", suffix), sizes)
    _tensorize_padding(schedule, window)


def _require_group(run: int) -> None:
    if run < GROUP:
        raise ScheduleError("a row of a window has fewer inputs than a group")


def _pad(schedule: Schedule, window: Window) -> Window:
    """Make the padded copy; the window over what is read."""
    names = {param.name for param in schedule.func.params}
    height = find_param(schedule.func, "out").shape[1]
    schedule.compute_at("acc", "out_d3")
    if "col" in names:
        schedule.compute_at("col", "out_d1", scope="scratch")
    decompose(schedule, "acc")
    schedule.simplify()
    return window.padded(height) if window.is_padded else window


def _pixels(schedule: Schedule, window: Window) -> tuple[str, int, int]:
    """The loop over the pixels of a row, how many they are, and from one's input to the next's."""
    width = find_param(schedule.func, "out").shape[2]
    return ("out_d2" if width > 1 else "out_d3"), width, window.stride[1] * window.shape[2]


def _tensorize_padding(schedule: Schedule, window: Window) -> None:
    if not window.is_padded:
        return
    copy = find_param(schedule.func, "padded").shape
    names = ("height", "width", "channels", "top", "left", "zero_point")
    sizes = {name: window.sizes[name] for name in names}
    sizes |= {"rows": copy[1], "out_width": copy[2]}
    loop = "padded_h" if copy[1] > 1 else "padded_w"
    schedule.tensorize(loop, PAD_ROWS, sizes, {"row": "0"})


def _products(name: str, prepare: Prepare, *kinds: Kind) -> Rule:
    return Rule(
        name, rescaled("int8", *kinds), _schedules, needs=frozenset({"avx2"}),
        kernels=("ec_conv_*", "ec_depthwise_*", PAD_ROWS),
        form=PLAIN, prepare=prepare,
    )  # fmt: skip


RULES = (
    *floats.RULES,
    _products("matrices", plain_matrix, Kind.WINDOWS, Kind.MATRIX),
    _products("rows of windows", padded_rows, Kind.WINDOWS, Kind.CHANNEL_WINDOWS),
    _products("windows side by side", padded_columns, Kind.WINDOWS, Kind.CHANNEL_WINDOWS),
)
