"""Products of int8 on RISC-V's vectors. Windows are read in place, or from planes of channels."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from edgec.errors import ScheduleError
from edgec.loop.in_place import in_place_inputs, row_bytes
from edgec.loop.schedule import Schedule
from edgec.loop.window import Window
from edgec.targets.common.gathered import fuse_pixels, padded_rows, plain_matrix, whole_windows
from edgec.targets.common.kernels.rescaling import TFLM
from edgec.targets.common.limits import find_limits
from edgec.targets.common.nests import decompose, find_param, output_loops
from edgec.targets.common.products import fits
from edgec.targets.common.sum_blocks import END, flatten_sums
from edgec.targets.common.sums import Kind
from edgec.targets.dsp.rules import rescaled
from edgec.targets.riscv.kernels.products import (
    CONV,
    CONV_TILE,
    DEPTHWISE,
    DEPTHWISE_TWO,
    LANES,
    PACK,
    TILE,
    TWO,
)
from edgec.targets.rule import Nest, Prepare, Rule, never

#: Makes a schedule of a nest and how kernels end results; ScheduleError where that is not possible.
Make = Callable[[Nest, dict[str, int]], Schedule]


def _in_ways(*ways: Make) -> Callable[[Nest], list[Schedule]]:
    def schedules(nest: Nest) -> list[Schedule]:
        ends, found = _ends(nest), []
        for way in ways if ends else ():
            with suppress(ScheduleError):
                found.append(way(nest, ends))
        return found

    return schedules


def _ends(nest: Nest) -> dict[str, int]:
    """Rescaling of sums, by the kernels' names; empty if no kernel can do it."""
    limits, tables = find_limits(nest.func), nest.tables
    if limits is None or limits.rescaling is not TFLM or not fits(tables):
        return {}
    if ((tables["shift"] == 0) & (tables["multiplier"] != 0)).any():
        return {}  # kernels move halves of negative numbers as shifts need it
    return {
        "outputs": find_param(nest.func, "out").shape[-1], "out_zero_point": limits.zero_point,
        "minimum": limits.minimum, "maximum": limits.maximum,
    }  # fmt: skip


def _pixels(pixels: int, depth: int) -> dict[str, int]:
    """Single pixels as windows."""
    one = (1, 1)
    return Window((1, pixels, depth), one, one, one, (0, 0), pixels, False, 0).sizes


def _matrix(nest: Nest, ends: dict[str, int]) -> Schedule:
    """All pixels in one call: the output may follow the input at some distance."""
    schedule, depth = nest.schedule(), find_param(nest.func, "w").shape[-1]
    pixels = find_param(nest.func, "out").elements // ends["outputs"]
    loop = fuse_pixels(schedule)
    schedule.tensorize(loop, CONV, {**_pixels(pixels, depth), **ends}, {"row": "0"})
    return schedule


def _tiles(nest: Nest, ends: dict[str, int]) -> Schedule:
    """Tiles of pixels and channels: the output may follow the input closely."""
    schedule, depth = nest.schedule(), find_param(nest.func, "w").shape[-1]
    pixels = find_param(nest.func, "out").elements // ends["outputs"]
    if ends["outputs"] % LANES or pixels < TILE:
        raise ScheduleError("there are no whole tiles")
    flatten_sums(schedule)
    parts, left = [("", TILE)], pixels % TILE
    if left:
        schedule.cut("out_p", pixels - left, ("acc",), END)
        parts.append((END, 1))
    for end, wide in parts:
        outer, pixel = schedule.split(f"out_p{end}", wide, tail="exact")
        block, lane = schedule.split(f"out_c{end}", LANES, tail="exact")
        schedule.reorder(outer, block, pixel, lane)
        schedule.compute_at(f"acc{end}", lane)
        schedule.decompose_reduction(f"acc{end}", f"acc_k{end}")
    schedule.simplify()
    for end, wide in parts:
        loop = f"out_p{end}_i" if wide > 1 else f"out_c{end}_i"
        schedule.tensorize(loop, CONV_TILE, {**_pixels(wide, depth), **ends})
    return schedule


def _rows(nest: Nest, ends: dict[str, int]) -> Schedule:
    """A row of outputs in each call."""
    schedule, window, out = nest.schedule(), nest.window, find_param(nest.func, "out")
    if window is None or window.is_pixel or out.shape[0] != 1:
        raise ScheduleError("there are no windows of an image")
    kernel = _kernel_of_rows(nest, window)
    _, high, wide, channel = output_loops(nest.func, "out", "out")
    schedule.compute_at("acc", channel)
    decompose(schedule, "acc")
    schedule.simplify()
    row = {"row": high if out.shape[1] > 1 else "0"}
    loop = wide if out.shape[2] > 1 else channel
    schedule.tensorize(loop, kernel, {**window.sizes, **ends}, row)
    return schedule


def _kernel_of_rows(nest: Nest, window: Window) -> str:
    if len(find_param(nest.func, "w").shape) == 4:
        if window.dilation[1] > 1 and window.kernel[1] > 1:
            raise ScheduleError("inputs of a row of a window lie apart")
        return CONV
    if window.shape[2] != find_param(nest.func, "out").shape[3] or _is_in_place(nest, window):
        raise ScheduleError("channels have several outputs, or are better in planes")
    return DEPTHWISE


def _is_in_place(nest: Nest, window: Window) -> bool:
    """Whether the output of channels' windows shall be where the input is. As rows, which take less
    time, it follows at the distance of two, layer after layer.
    """
    out = find_param(nest.func, "out").shape
    is_image = out[0] == 1 and min(out[1:3]) > 1 and window.is_padded
    return is_image and out[1:] == window.shape and out[3] % TWO == 0 and not nest.is_fast


def _planes(nest: Nest, ends: dict[str, int]) -> Schedule:
    """Two channels after the other, of a copy with padding."""
    window, out = nest.window, find_param(nest.func, "out")
    if window is None or not _is_in_place(nest, window) or "padded" not in nest.temporaries:
        raise ScheduleError("the output is not where the input is")
    schedule, inner = nest.schedule(), window.padded(out.shape[1])
    image, high, wide, channel = output_loops(nest.func, "out", "out")
    schedule.transform_layout("w", "HWO -> O H W")
    block, lane = schedule.split(channel, TWO, tail="exact")
    schedule.reorder(image, block, high, wide, lane)
    schedule.compute_at("acc", lane)
    schedule.compute_at("padded", block, scope="scratch")
    decompose(schedule, "acc")
    schedule.simplify()
    schedule.in_place = in_place_inputs(schedule.func)
    schedule.row_bytes = row_bytes(schedule.func)
    sizes = {name: window.sizes[name] for name in ("height", "width", "top", "left")}
    height, width, channels = inner.shape
    sizes |= {"step": channels, "fill": window.zero_point}
    sizes |= {"plane_height": height, "plane_width": width}
    schedule.tensorize("padded_h", PACK, sizes)
    sizes = {
        "kernel_h": inner.kernel[0], "kernel_w": inner.kernel[1],
        "pitch": inner.dilation[0] * width * TWO, "tap": inner.dilation[1] * TWO,
        "row_step": inner.stride[0] * width * TWO, "rows": out.shape[1],
        "step": inner.stride[1] * TWO, "pixels": out.shape[2], "channels": channels,
        "zero_point": ends["out_zero_point"], "minimum": ends["minimum"],
        "maximum": ends["maximum"],
    }  # fmt: skip
    schedule.tensorize(high, DEPTHWISE_TWO, sizes)
    return schedule


def _rule(name: str, ways: tuple[Make, ...], prepare: Prepare, *kinds: Kind) -> Rule:
    return Rule(
        name, rescaled("int8", *kinds), _in_ways(*ways), needs=frozenset({"rv32v"}),
        for_size=False, kernels=(CONV, CONV_TILE, DEPTHWISE, DEPTHWISE_TWO, PACK),
        ends_menu=never, prepare=prepare,
    )  # fmt: skip


RULES = (
    _rule("matrices", (_matrix, _tiles), plain_matrix, Kind.WINDOWS, Kind.MATRIX),
    _rule("planes of two channels", (_planes,), padded_rows, Kind.CHANNEL_WINDOWS),
    _rule("rows of windows", (_rows,), whole_windows, Kind.WINDOWS, Kind.CHANNEL_WINDOWS),
)
