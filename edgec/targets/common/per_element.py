"""Depthwise convolution, pools and other reductions in plain loops: one accumulator at a time."""

from __future__ import annotations

from edgec.loop.ir import PrimFunc
from edgec.loop.primitives.lookup import find_loop
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule
from edgec.targets.common.nests import (
    decompose,
    find_param,
    gather_temporaries,
    largest_divisor,
    output_loops,
)

#: Windows of at most this many taps become straight code.
MOST_STRAIGHT = 16
#: Rows of this many taps, too, on cores whose loads reach far; fewer taps gain nothing.
STRAIGHT_ROWS = range(5, 9)


def schedule_per_element(
    schedule: Schedule, straight: range = range(0), *, is_fast: bool = False
) -> None:
    """Depthwise convolution, pools and means: one accumulator at a time, in a register.

    A row of taps, always the same, becomes straight code if it is as long as `straight` says, and
    with `is_fast` a whole window of few taps: that takes a third of the instructions less.
    """
    *_, last = output_loops(schedule.func, "out", "out")
    gather_temporaries(schedule, last)
    decompose(schedule, "acc")
    if is_fast and _has_few_taps(schedule.func):
        for loop in window_loops(schedule.func):
            schedule.unroll(loop)
        return
    rows = [n for n in loops_of(schedule.func.body) if n == "acc_kw"]
    if rows and find_loop(schedule.func, "acc_kw")[0].extent in straight:
        schedule.unroll("acc_kw")


def schedule_windows(schedule: Schedule, at_once: int = 1) -> None:
    """Depthwise convolution whose windows are whole and short: straight code.

    Channels are the outermost loop, so that their weights stay where they are. Up to `at_once`
    neighbouring outputs of a channel are summed together, since their windows share inputs.
    """
    batch, height, width, channel = output_loops(schedule.func, "out", "out")
    schedule.reorder(batch, channel, height, width)
    _, high, wide, _ = find_param(schedule.func, "out").shape
    line, lane, extent = (width, "acc_w", wide) if wide > 1 else (height, "acc_h", high)
    together = largest_divisor(extent, at_once)
    place, lanes = width, []
    if together > 1:
        place, inner = schedule.split(line, together)
        lanes = [inner, lane, f"{lane}_init"]
    gather_temporaries(schedule, place)
    window = window_loops(schedule.func)
    if lanes:
        schedule.reorder(*window, lane)
    decompose(schedule, "acc")
    there = loops_of(schedule.func.body)  # windows of one tap are decomposed into nothing
    for loop in (*window, *lanes):
        if loop in there:
            schedule.unroll(loop)


def has_short_windows(func: PrimFunc) -> bool:
    """Whether all windows of a depthwise convolution have the same, few taps."""
    is_image = len(find_param(func, "out").shape) == 4
    return is_image and any(buffer.name == "w" for buffer in func.params) and _has_few_taps(func)


def _has_few_taps(func: PrimFunc) -> bool:
    taps = 1
    for name in window_loops(func):
        extent = find_loop(func, name)[0].extent
        if extent is None:
            return False
        taps *= extent
    return taps <= MOST_STRAIGHT


def window_loops(func: PrimFunc) -> list[str]:
    """The loops over the taps of a window; one that has a single step may be gone."""
    return [name for name in loops_of(func.body) if name in ("acc_kh", "acc_kw")]
