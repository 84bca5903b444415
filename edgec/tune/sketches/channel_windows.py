"""Windows of single channels: depthwise convolutions, and pools of any kind."""

from __future__ import annotations

from edgec.loop.dtype import is_integer
from edgec.loop.ir import Buffer
from edgec.loop.primitives.fold_offset import adds_offset
from edgec.loop.primitives.whole_windows import is_clipped
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule
from edgec.targets.common.depthwise import gather_plane
from edgec.targets.common.gathered import IMAGE_AXES
from edgec.targets.common.nests import find_param
from edgec.targets.common.sums import Kind
from edgec.targets.rule import Nest
from edgec.tune.decisions import Decisions
from edgec.tune.sketches.blocks import (
    block_loop,
    block_pixels,
    decompose_sums,
    finish,
    place_rows,
    place_temporaries,
    unroll_all,
)

CHANNELS = (1, 2, 4)
#: Sums that are kept at once, at most.
MOST_SUMS = 8
_KINDS = (Kind.CHANNEL_WINDOWS, Kind.TOTAL, Kind.LARGEST)


def sums_channels(nest: Nest) -> bool:
    """Whether outputs of images are made of windows of their own channel."""
    is_kind = nest.sums is not None and nest.sums.kind in _KINDS
    known = loops_of(nest.func.body)
    return is_kind and {"acc_kh", "acc_kw", "out_d2", "out_d3"} <= known.keys()


def write_channel_windows(nest: Nest, ask: Decisions) -> Schedule:
    """Schedule windows of channels. Raises ScheduleError where decisions do not fit the nest."""
    schedule = Schedule(nest.func)
    source = _read_windows(schedule, nest, ask)
    weights = any(b.name == "w" for b in nest.func.params)
    is_first = source == "plane" or ask.choose("first", ["channels", "pixels"]) == "channels"
    if weights and (is_first or ask.choose("packed", [False, True])):
        schedule.transform_layout("w", "HWO -> O H W")
    plane = find_param(schedule.func, source)
    _block(schedule, ask, source, is_first)
    finish(schedule, ask)
    if source == "plane":
        _fill_plane(schedule, ask, find_param(nest.func, "x"), plane)
    return schedule


def _fill_plane(schedule: Schedule, ask: Decisions, x: Buffer, plane: Buffer) -> None:
    """Let the kernel that copies planes do it."""
    if ask.choose("kernel", [True, False]):
        schedule.simplify()
        gather_plane(schedule, x, plane)


def _read_windows(schedule: Schedule, nest: Nest, ask: Decisions) -> str:
    """Source of windows: the input, a copy with padding, or planes of channels."""
    assert nest.sums is not None
    if nest.sums.kind is not Kind.CHANNEL_WINDOWS or not is_integer(nest.dtype):
        return "x"
    source = "x"
    if is_clipped(schedule.func, "acc"):
        is_single = find_param(nest.func, "out").shape[3] == find_param(nest.func, "x").shape[3]
        orders = {"plain": None, "padded": [0, 1, 2, 3], "plane": [0, 3, 1, 2]}
        way = ask.choose("windows", list(orders)[: 3 if is_single else 2])
        order = orders[way]
        if order is None:
            return source
        source = schedule.pad_copy("acc", "x", way, order, IMAGE_AXES)
    if adds_offset(schedule.func, "acc", source) and ask.choose("fold", [True, False]):
        schedule.fold_offset("acc", source)
    return source


def _block(schedule: Schedule, ask: Decisions, source: str, is_first: bool) -> None:
    """Make blocks of outputs; the weights of a channel stay where they are if it is the first."""
    rows = [n for n in ("out_d0", "out_d1") if n in loops_of(schedule.func.body)]
    at_once = (1,) if source == "plane" else CHANNELS
    channels = block_loop(schedule, ask, "out_d3", "channels", at_once)
    pixels = block_pixels(schedule, ask, "out_d2", MOST_SUMS // channels.size)
    lanes = [pixels.inner, channels.inner]
    if is_first:
        order = [*rows[:1], channels.outer, *rows[1:], pixels.outer]
    else:
        order = [*rows, pixels.outer, channels.outer]
    schedule.reorder(*order, *lanes)
    place_temporaries(schedule, order[-1])
    if source == "plane":
        schedule.compute_at(source, channels.outer, scope="scratch")
    elif source != "x" and not is_first:
        place_rows(schedule, ask, source, rows[-1])
    _unroll(schedule, ask, lanes)


def _unroll(schedule: Schedule, ask: Decisions, lanes: list[str]) -> None:
    """Write blocks as straight code, and some of the steps over a window."""
    sums, steps = decompose_sums(schedule, "acc", ("acc_kh", "acc_kw"))
    schedule.reorder(*steps, *sums)
    straight = ask.choose("unroll", [0, 1, 2])
    if straight:
        unroll_all(schedule, steps[-straight:])
    unroll_all(schedule, [*sums, *(f"{s}_init" for s in sums), *lanes])
