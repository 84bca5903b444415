"""Rules of plain loops, which every core runs where no kernel matches.

The last rules of every target. One of them schedules each nest.
"""

from __future__ import annotations

from collections.abc import Callable

from edgec.errors import ScheduleError
from edgec.loop.dtype import is_integer
from edgec.loop.primitives.whole_windows import is_clipped
from edgec.loop.schedule import Schedule
from edgec.targets.common import copies
from edgec.targets.common.depthwise import schedule_planes
from edgec.targets.common.gathered import IMAGE_AXES, fold_offsets, gathered
from edgec.targets.common.matrix import (
    CHANNELS_AT_ONCE,
    UNROLLED_INPUTS,
    is_worth_gathering,
    schedule_computed_matrix,
    schedule_gathered,
    schedule_matrix,
)
from edgec.targets.common.per_element import (
    STRAIGHT_ROWS,
    has_short_windows,
    schedule_per_element,
    schedule_windows,
)
from edgec.targets.common.recurrent import (
    is_filter,
    is_gru,
    is_lstm,
    is_recurrence,
    schedule_filters,
    schedule_gru,
    schedule_lstm,
    schedule_recurrence,
)
from edgec.targets.common.rows import (
    UNROLLED_ELEMENTS,
    schedule_elements,
    schedule_moves,
    schedule_rows,
)
from edgec.targets.common.sums import Kind
from edgec.targets.common.svdf import schedule_push
from edgec.targets.common.walks import is_walk, schedule_walks
from edgec.targets.common.weights import begin, finish
from edgec.targets.rule import Nest, Rule, always

#: Inputs in straight code, and the most channels whose windows are gathered, where it is long.
NARROW_STRAIGHT, NARROW_CHANNELS = 2, 4


def finished(apply: Callable[[Nest, Schedule], object]) -> Callable[[Nest], list[Schedule]]:
    """A rule's `apply` of a function that schedules the loops; it returns False where they do not
    fit.
    """

    def schedules(nest: Nest) -> list[Schedule]:
        schedule = begin(nest)
        return [] if apply(nest, schedule) is False else [finish(nest, schedule)]

    return schedules


def _unrolled(nest: Nest) -> int:
    """Elements in straight code; one where the C compiler makes vectors of a plain loop."""
    has_vectors = not nest.core.is_embedded or nest.core.has("rv32v")
    return 1 if nest.is_small or has_vectors else UNROLLED_ELEMENTS


def sums_windows(nest: Nest) -> bool:
    """Sums of products over windows of all input channels, rescaled."""
    sums = nest.sums
    return sums is not None and sums.kind is Kind.WINDOWS and sums.is_rescaled


def _sums_channels(nest: Nest) -> bool:
    sums = nest.sums
    is_own = sums is not None and sums.kind is Kind.CHANNEL_WINDOWS and not sums.is_output
    return is_own and is_integer(nest.dtype)


def _is_kind(*kinds: Kind) -> Callable[[Nest], bool]:
    return lambda nest: nest.sums is not None and nest.sums.kind in kinds


def _gathered(nest: Nest) -> list[Schedule]:
    """Windows that are few inputs, gathered before they are used."""
    straight, most = UNROLLED_INPUTS, 1
    if nest.spares_code:
        straight, most = NARROW_STRAIGHT, NARROW_CHANNELS
    if nest.window is None or not is_worth_gathering(nest.func, most):
        return []
    try:
        schedule = begin(nest, gathered(nest))
        schedule_gathered(schedule, straight, nest.window)
    except ScheduleError:
        return []
    return [finish(nest, schedule)]


def _planes(nest: Nest) -> list[Schedule]:
    """Each channel copied to a plane of its own, with its padding."""
    if nest.window is None or not is_clipped(nest.func, "acc"):
        return []
    prepared = Schedule(nest.func)
    try:
        prepared.pad_copy("acc", "x", "plane", [0, 3, 1, 2], IMAGE_AXES)
        fold_offsets(prepared, "plane")
        prepared.transform_layout("w", "HWO -> O H W")
        schedule = begin(nest, prepared)
        schedule_planes(schedule, straight=not nest.is_small)
    except ScheduleError:  # such as windows that stay clipped at one side, in narrow rows
        return []
    return [finish(nest, schedule)]


def _short_windows(nest: Nest) -> list[Schedule]:
    """Straight code, and slower, but so that the output follows its input through memory.

    Neighbouring outputs are summed together, which takes more code: by default only with the DSP
    extension.
    """
    by_rows = begin(nest)
    schedule_per_element(by_rows)
    return [finish(nest, _straight_windows(nest)), finish(nest, by_rows)]


def _straight_windows(nest: Nest) -> Schedule:
    schedule = begin(nest)
    if nest.is_fast or (nest.core.has_pairs and not nest.is_small):
        try:
            schedule_windows(schedule, 4)
        except ScheduleError:  # neighbours have other taps: an image smaller than its padding
            schedule = begin(nest)
        else:
            return schedule
    schedule_windows(schedule)
    return schedule


def _per_element(nest: Nest, schedule: Schedule) -> None:
    is_wide = nest.core.has_pairs and not nest.is_small
    schedule_per_element(schedule, STRAIGHT_ROWS if is_wide else range(0), is_fast=nest.is_fast)


#: Where the windows of a convolution are copied before they are used.
GATHERED_RULE = Rule(
    "gathered windows",
    lambda nest: nest.dtype == "int8" and sums_windows(nest),
    _gathered,
    lacks=frozenset({"dsp"}),
    kernels=("ec_gather_window_s8",),
    for_size=False,
)

RULES = (
    Rule(
        "planes of channels", _sums_channels, _planes, kernels=("ec_gather_plane_*",),
    ),
    Rule(
        "a line that moves on", lambda nest: nest.dtype in ("int8", "int16"),
        lambda nest: schedule_push(nest.func),
        needs=frozenset({"unaligned"}), kernels=("ec_shift_down_*",),
    ),
)  # fmt: skip


def _elements(nest: Nest, schedule: Schedule) -> None:
    straight = _unrolled(nest)
    if straight > 1 and copies.is_copy(nest) and nest.core.has("thumb2"):  # loads reach far
        schedule_moves(schedule)
    else:
        schedule_elements(schedule, straight)


def _lstm(nest: Nest, schedule: Schedule) -> None:
    schedule_lstm(schedule, _unrolled(nest), nest.tables)


def _gru(nest: Nest, schedule: Schedule) -> None:
    schedule_gru(schedule, _unrolled(nest))


def _recurrence(nest: Nest, schedule: Schedule) -> None:
    schedule_recurrence(schedule, _unrolled(nest))


def _filters(nest: Nest, schedule: Schedule) -> None:
    schedule_filters(schedule, _unrolled(nest))


def _walks(nest: Nest, schedule: Schedule) -> None:
    schedule_walks(schedule)


def _rows(nest: Nest, schedule: Schedule) -> None:
    schedule_rows(schedule, _unrolled(nest))


def _computed_matrix(nest: Nest, schedule: Schedule) -> None:
    schedule_computed_matrix(schedule, 1 if nest.is_small else CHANNELS_AT_ONCE)


def _matrix(nest: Nest, schedule: Schedule) -> None:
    schedule_matrix(schedule, 1 if nest.is_small else UNROLLED_INPUTS, nest.spares_code)


def _has_short_windows(nest: Nest) -> bool:
    return not nest.is_small and has_short_windows(nest.func)


#: Each is the whole answer for the nests that it matches.
LOOPS = tuple(
    Rule(name, match, apply, ends_menu=always)
    for name, match, apply in (
        ("elements", lambda nest: not nest.temporaries, finished(_elements)),
        ("walks", is_walk, finished(_walks)),
        ("gates", is_lstm, finished(_lstm)),
        ("gates of two kinds", is_gru, finished(_gru)),
        ("recurrences", is_recurrence, finished(_recurrence)),
        ("filters", is_filter, finished(_filters)),
        ("rows", lambda nest: "acc" not in nest.temporaries, finished(_rows)),
        ("computed matrices", _is_kind(Kind.COMPUTED), finished(_computed_matrix)),
        ("weighted sums", _is_kind(Kind.MATRIX, Kind.WINDOWS), finished(_matrix)),
        ("short windows", _has_short_windows, _short_windows),
        ("sums", lambda nest: True, finished(_per_element)),
    )
)
