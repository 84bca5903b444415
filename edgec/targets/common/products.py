"""Convolutions and dense of int8 on the vectors of PCs and Linux boards.

The input is padded once as a whole, where its windows reach outside: RAM is not scarce. Each row of
outputs is then one call of a kernel, and all pixels are where windows are single pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from edgec.errors import ScheduleError
from edgec.loop.intrinsics import INT32_MAX
from edgec.loop.schedule import Schedule
from edgec.loop.values import Array
from edgec.loop.window import Window
from edgec.targets.common.gathered import fuse_pixels, padded_columns, padded_rows, plain_matrix
from edgec.targets.common.kernels.image_rows import COLUMNS, PAD_ROWS
from edgec.targets.common.kernels.lines import find_lines
from edgec.targets.common.kernels.products import Vectors, groups_at, reach_of
from edgec.targets.common.kernels.rescaling import LINED, SUMS, TFLM
from edgec.targets.common.limits import Limits, find_limits
from edgec.targets.common.nests import decompose, find_param
from edgec.targets.common.sums import Kind
from edgec.targets.common.threads import share_of
from edgec.targets.rule import Match, Nest, Prepare, Rule

#: Rescaled sums are below this, so that a zero point fits beside them.
MOST_RESULT = 1 << 30
#: Pixels of a call where threads share them, at least.
LEAST_PIXELS = 8
#: Bytes of a copy with padding that threads share, at least.
LEAST_COPY = 2 << 10
#: The weight whose product by the same input is the largest of all.
LEAST_WEIGHT = -128


@dataclass(frozen=True)
class _Call:
    """A nest that is being scheduled for the kernels of some vectors."""

    schedule: Schedule
    limits: Limits
    vectors: Vectors
    threads: int

    def kernel(self, products: str) -> str:
        """The name of the kernel of these products."""
        vectors = self.vectors
        suffix = vectors.suffix if products == "conv" else vectors.planes
        return self.limits.rescaling.kernel(products, suffix)


def product_rules(
    match: Callable[..., Match],
    vectors_of: Callable[[frozenset[str]], tuple[Vectors, ...]],
    feature: str,
) -> tuple[Rule, ...]:
    """The rules of cores with a feature.

    match: of a dtype and kinds of sums; vectors_of: the vectors of a core with these features; all
    are tried.
    """

    def schedules(nest: Nest) -> list[Schedule]:
        found = (_schedules(nest, vectors) for vectors in vectors_of(nest.core.features))
        return [schedule for schedules in found for schedule in schedules]

    def rule(name: str, prepare: Prepare, *kinds: Kind) -> Rule:
        is_rescaled = match("int8", *kinds)
        return Rule(
            name, lambda nest: is_rescaled(nest) or leaves_sums(nest), schedules,
            needs=frozenset({feature}),
            kernels=("ec_conv_*", "ec_depthwise_*", PAD_ROWS, COLUMNS),
            prepare=prepare,
        )  # fmt: skip

    return (
        rule("matrices", plain_matrix, Kind.WINDOWS, Kind.MATRIX),
        rule("rows of windows", padded_rows, Kind.WINDOWS, Kind.CHANNEL_WINDOWS),
        rule("windows side by side", padded_columns, Kind.WINDOWS, Kind.CHANNEL_WINDOWS),
    )


def _schedules(nest: Nest, vectors: Vectors) -> list[Schedule]:
    """On the kernels of these vectors; empty where they cannot do it."""
    limits = _limits(nest, vectors)
    if limits is None:
        return []
    call, window = _Call(nest.schedule(), limits, vectors, nest.options.threads), nest.window
    try:
        if window is None or window.is_pixel:
            _matrix(call, nest.tables)
        elif find_param(nest.func, "out").shape[0] != 1:
            return []
        elif len(find_param(nest.func, "w").shape) == 3:  # [height, width, channel]
            _depthwise(call, window, nest.tables)
        else:
            _windows(call, window, nest.tables)
    except ScheduleError:
        return []
    return [call.schedule]


def _limits(nest: Nest, vectors: Vectors) -> Limits | None:
    """The vectors' way to turn sums into results; None if they have none."""
    if leaves_sums(nest):
        return Limits(0, 0, 0, SUMS) if vectors.sums else None
    limits = find_limits(nest.func, vectors.rescalings)
    if limits is None or not _knows(vectors, limits) or not fits(nest.tables):
        return None
    return _lined(limits, nest.tables) if vectors.lines else limits


def _knows(vectors: Vectors, limits: Limits) -> bool:
    """Whether the kernels rescale sums so, and limit results so."""
    is_above = limits.minimum > limits.zero_point == -128 and limits.maximum == 127
    return limits.rescaling in vectors.rescalings and not (vectors.floor and is_above)


def _lined(limits: Limits, tables: Mapping[str, Array]) -> Limits:
    """The same by lines of floats, where there are some."""
    if limits.rescaling is not TFLM:
        return limits
    least, most = limits.minimum - limits.zero_point, limits.maximum - limits.zero_point
    lines = find_lines(tables, reach_of(tables["w"], tables["bias"]), (least, most))
    return limits if lines is None else replace(limits, rescaling=LINED)


def leaves_sums(nest: Nest) -> bool:
    """Whether the results are sums of products of int8 by constants, unchanged."""
    sums = nest.sums
    is_sum = sums is not None and sums.kind in (Kind.MATRIX, Kind.WINDOWS) and sums.is_output
    return is_sum and (nest.dtype, nest.out_dtype) == ("int8", "int32") and not nest.is_small


def fits(tables: Mapping[str, Array]) -> bool:
    """Whether sums fit in int32, and rescaled sums leave room for rounding."""
    most = np.max(np.abs(reach_of(tables["w"], tables["bias"])), axis=0)
    if "scale" in tables:
        scale = tables["scale"].astype(np.float64)
        return bool(np.all((scale > 0) & (most <= INT32_MAX) & (most * scale < MOST_RESULT)))
    down = -tables["shift"].astype(np.int64)
    rounding = (np.int64(1) << np.clip(down, 0, 31)) >> 1
    return bool(np.all((down >= 0) & (down < 32) & (most + rounding + 128 <= INT32_MAX)))


def _matrix(call: _Call, tables: Mapping[str, Array]) -> None:
    """All pixels in one call: the output may follow the input through memory."""
    schedule, limits = call.schedule, call.limits
    out = find_param(schedule.func, "out")
    channels, depth = out.shape[-1], find_param(schedule.func, "w").shape[-1]
    pixels = out.elements // channels
    _require_group(call.vectors, tables["w"].reshape(channels, 1, depth))
    loop = fuse_pixels(schedule)
    share = share_of(pixels, call.threads, LEAST_PIXELS)
    if share < pixels:
        _, loop = schedule.split(loop, share, tail="exact")
    sizes = {
        "kernel_h": 1, "kernel_w": 1, "in_channels": depth, "pitch": 0, "step": depth,
        "pixels": share, "channels": channels, **limits.sizes,
    }  # fmt: skip
    schedule.tensorize(loop, call.kernel("conv"), sizes)


def _windows(call: _Call, window: Window, tables: Mapping[str, Array]) -> None:
    """Row by row; where a row of a window has fewer inputs than a group, windows are gathered."""
    schedule, limits = call.schedule, call.limits
    run = window.kernel[1] * window.shape[2]
    gathered = any(param.name == "col" for param in schedule.func.params)
    if gathered != (run < call.vectors.group or window.dilation[1] > 1) or window.is_pixel:
        raise ScheduleError("the other form is for these windows")
    channels = find_param(schedule.func, "out").shape[3]
    rows = 1 if gathered else window.kernel[0]
    _require_group(call.vectors, tables["w"].reshape(channels, rows, -1))
    inner = pad_windows(schedule, window)
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
    schedule.tensorize(loop, call.kernel("conv"), sizes)
    if gathered and inner.dilation[1] == 1:
        _tensorize_columns(schedule, inner, pixels)
    tensorize_padding(schedule, window, call.threads)


def _depthwise(call: _Call, window: Window, tables: Mapping[str, Array]) -> None:
    """All rows in one call."""
    schedule, limits = call.schedule, call.limits
    _, height, width, channels = find_param(schedule.func, "out").shape
    if window.shape[2] != channels:
        raise ScheduleError("channels have several outputs")
    if call.vectors.tap_pairs:
        taps = (tables["w"] == LEAST_WEIGHT).reshape(-1, channels)
        _require_fit(taps[: len(taps) // 2 * 2 : 2] & taps[1::2])
    inner = pad_windows(schedule, window)
    rows = share_of(height, call.threads)
    loop = "out_d1" if rows > 1 else "out_d2" if width > 1 else "out_d3"
    if 1 < rows < height:
        _, loop = schedule.split(loop, rows, tail="exact")
    row = inner.shape[1] * channels
    sizes = {
        "kernel_h": inner.kernel[0], "kernel_w": inner.kernel[1],
        "pitch": inner.dilation[0] * row, "tap": inner.dilation[1] * channels,
        "row_step": inner.stride[0] * row, "rows": rows, "step": inner.stride[1] * channels,
        "pixels": width, "channels": channels, **limits.sizes,
    }  # fmt: skip
    schedule.tensorize(loop, call.kernel("depthwise"), sizes)
    tensorize_padding(schedule, window, call.threads)


def _require_group(vectors: Vectors, w: Array) -> None:
    """Whether the kernel can do weights [channels, rows, run]; raises ScheduleError."""
    if w.shape[2] < vectors.group:
        raise ScheduleError("a row of a window has fewer inputs than a group")
    if vectors.halves:
        at, half = groups_at(1, w.shape[2], vectors.group)[0], vectors.group // 2
        least = (w[:, :, at] == LEAST_WEIGHT) & (at >= 0)
        _require_fit(least[..., :half] & least[..., half:])


def _require_fit(least: Array) -> None:
    if np.any(least):
        raise ScheduleError("the sum of two products may not fit into 16 bits")


def pad_windows(schedule: Schedule, window: Window) -> Window:
    """Make the padded copy; the window over it."""
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


def _tensorize_columns(schedule: Schedule, window: Window, pixels: int) -> None:
    sizes = {
        "kernel_h": window.kernel[0], "kernel_w": window.kernel[1], "channels": window.shape[2],
        "stride_w": window.stride[1], "dilation_h": window.dilation[0], "width": window.shape[1],
        "pixels": pixels,
    }  # fmt: skip
    schedule.tensorize("col_w" if pixels > 1 else "col_k", COLUMNS, sizes)


def tensorize_padding(schedule: Schedule, window: Window, threads: int) -> None:
    """Let threads each copy the rows that they read, if there are many."""
    if not window.is_padded:
        return
    padded = find_param(schedule.func, "padded")
    copy, first = padded.shape, "0"
    rows = share_of(copy[1], threads if padded.elements >= LEAST_COPY else 1)
    names = ("height", "width", "channels", "top", "left", "zero_point")
    sizes = {name: window.sizes[name] for name in names}
    sizes |= {"rows": rows, "out_width": copy[2]}
    loop = "padded_h" if copy[1] > 1 else "padded_w"
    if rows < copy[1]:
        share, loop = schedule.split(loop, rows, tail="exact")
        first = f"{share} * {rows}"
    schedule.tensorize(loop, PAD_ROWS, sizes, {"row": first})
    if first != "0":
        schedule.parallel(share)
