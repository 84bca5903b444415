"""Sums of float32, and of int8 that stay int32: vectors of output channels by schedules.

Each lane sums the products of its channel in the order of the plain loops, so the bits are theirs.
Several vectors side by side share each input, several pixels each weight, and all of them hide what
a sum waits for the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from edgec.errors import ScheduleError
from edgec.loop.primitives.whole_windows import is_clipped
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule
from edgec.targets.common.gathered import IMAGE_AXES, padding_adds_nothing
from edgec.targets.common.nests import (
    find_param,
    gather_temporaries,
    largest_divisor,
    output_loops,
)
from edgec.targets.common.per_element import window_loops
from edgec.targets.common.sums import WEIGHTED, Kind
from edgec.targets.rule import Nest, Rule, always


@dataclass(frozen=True)
class Weights:
    """Weights of one rank: the axis of output channels, the loops over taps, how they are packed.

    Those of depthwise convolutions lie channel by channel already.
    """

    channel: int
    taps: tuple[str, ...]
    packing: str = ""


#: By the rank of the weights.
PACKED = {
    2: Weights(0, ("acc_k",), "OI -> O/{0} I O%{0}"),
    3: Weights(2, ("acc_kh", "acc_kw")),
    4: Weights(0, ("acc_kh", "acc_kw", "acc_ic"), "OHWI -> O/{0} H W I O%{0}"),
}
#: Vectors of channels that share each input.
VECTORS = (4, 2, 1)
#: Vectors of sums that stay in registers, beside those of weights and inputs.
MOST_SUMS = 12
#: Floats in a vector, by features, the widest first.
LANES = {"avx512": (16, 8, 4), "avx2": (8, 4), "neon": (4,)}


def _is_plain(nest: Nest) -> bool:
    """Whether it sums products of floats to floats, or of int8 to sums that nothing rescales."""
    types = (nest.dtype, nest.out_dtype)
    is_sum = nest.sums is not None and nest.sums.kind in WEIGHTED and not nest.is_small
    return is_sum and types in (("float32", "float32"), ("int8", "int32"))


def _lanes(nest: Nest, channels: int, most: Sequence[int] = VECTORS) -> tuple[int, int]:
    """Lanes of a vector, and channels that share each input; ScheduleError if none fit."""
    for lanes in next(lanes for feature, lanes in LANES.items() if nest.core.has(feature)):
        for vectors in most:
            if channels % (lanes * vectors) == 0:
                return lanes, lanes * vectors
    raise ScheduleError(f"{channels} channels are no whole vectors")


def _channels(nest: Nest) -> list[Schedule]:
    """Tiles of pixels and channels where windows are whole or can be made so, else of channels."""
    for made in (_tiles, _pixel_by_pixel):
        with suppress(ScheduleError):
            return [made(nest)]
    return []


def _tiles(nest: Nest) -> Schedule:
    """Several pixels of a row share the weights that are loaded."""
    func, window = nest.func, nest.window
    out = find_param(func, "out")
    if window is None or len(out.shape) != 4:
        raise ScheduleError("there are no rows of pixels")
    weights = find_param(func, "w")
    axes = PACKED[len(weights.shape)]
    schedule = Schedule(func)
    if is_clipped(func, "acc"):
        if not padding_adds_nothing(nest.dtype, nest.tables):
            raise ScheduleError("a product by padding may change a sum")
        schedule.pad_copy("acc", "x", "padded", range(4), IMAGE_AXES)
        with suppress(ScheduleError):  # few inputs: one after the other
            _vectors(schedule, _lanes(nest, window.shape[2])[0], "padded_c")
    lanes, together = _lanes(nest, weights.shape[axes.channel], VECTORS[1:])
    pixels = largest_divisor(out.shape[2], MOST_SUMS * lanes // together)
    *_, column, channel = output_loops(func, "out", "out")
    column, pixel = schedule.split(column, pixels)
    channel, lane = schedule.split(channel, together)
    schedule.reorder(column, channel, pixel, lane)
    schedule.compute_at("acc", channel, scope="register")
    schedule.decompose_reduction("acc", "acc_w")
    schedule.reorder(*axes.taps, "acc_w", "acc_c")
    if axes.packing:
        schedule.transform_layout("w", axes.packing.format(together))
    _vectors(schedule, lanes, "acc_c", "acc_c_init", lane)
    for loop in ("acc_w", "acc_w_init", pixel):
        schedule.unroll(loop)
    schedule.simplify()
    return schedule


def _pixel_by_pixel(nest: Nest) -> Schedule:
    weights = find_param(nest.func, "w")
    axes = PACKED[len(weights.shape)]
    lanes, together = _lanes(nest, weights.shape[axes.channel])
    schedule = Schedule(nest.func)
    block, lane = schedule.split(output_loops(nest.func, "out", "out")[-1], together)
    gather_temporaries(schedule, block)
    schedule.decompose_reduction("acc", "acc_c")
    schedule.reorder(*axes.taps, "acc_c")
    if axes.packing:
        schedule.transform_layout("w", axes.packing.format(together))
    _vectors(schedule, lanes, "acc_c", "acc_c_init", lane)
    return schedule


def _pools(nest: Nest) -> list[Schedule]:
    """Means and largest elements of windows of each channel: a vector of channels at a time."""
    out = find_param(nest.func, "out")
    schedule = Schedule(nest.func)
    try:
        lanes, together = _lanes(nest, out.shape[-1])
        block, lane = schedule.split(output_loops(nest.func, "out", "out")[-1], together)
        gather_temporaries(schedule, block)
        schedule.decompose_reduction("acc", "acc_c")
        schedule.reorder(*window_loops(schedule.func), "acc_c")
        _vectors(schedule, lanes, "acc_c", "acc_c_init")
    except ScheduleError:
        return []
    with suppress(ScheduleError):
        _vectors(schedule, lanes, lane)
    return [schedule]


def _is_pool(nest: Nest) -> bool:
    """Whether it adds or compares elements of windows of each channel."""
    sums = nest.sums
    is_pool = sums is not None and sums.kind in (Kind.TOTAL, Kind.LARGEST) and not nest.is_small
    return is_pool and "acc_kh" in loops_of(nest.func.body)


def _vectors(schedule: Schedule, lanes: int, *loops: str) -> None:
    """Let these loops over channels go from vector to vector, in straight code."""
    for loop in loops:
        outer, inner = schedule.split(loop, lanes, tail="exact")
        schedule.unroll(outer)
        schedule.vectorize(inner)


def rules(feature: str) -> tuple[Rule, ...]:
    """The rules of cores with a feature."""
    needs = frozenset({feature})
    return (
        Rule("channels side by side", _is_plain, _channels, needs=needs, ends_menu=always),
        Rule("pools of channels", _is_pool, _pools, needs=needs, ends_menu=always),
    )
