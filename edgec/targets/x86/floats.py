"""Sums of float32, and of int8 that stay int32, on x86: vectors of output channels by schedules.

Each lane sums the products of its channel in the order of the plain loops, so the bits are theirs.
Several vectors side by side share each input and hide what a sum waits for the one before.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgec.errors import ScheduleError
from edgec.loop.schedule import Schedule
from edgec.targets.common.nests import find_param, gather_temporaries, output_loops
from edgec.targets.common.sums import WEIGHTED
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
#: Vectors of sums that stay in registers.
VECTORS = (4, 2, 1)
#: Floats in a vector: of AVX-512, of AVX2, and of either's lower half.
AVX512_LANES, AVX2_LANES, LEAST_LANES = 16, 8, 4


def _is_plain(nest: Nest) -> bool:
    """Whether it sums products of floats to floats, or of int8 to sums that nothing rescales."""
    types = (nest.dtype, nest.out_dtype)
    is_sum = nest.sums is not None and nest.sums.kind in WEIGHTED and not nest.is_small
    return is_sum and types in (("float32", "float32"), ("int8", "int32"))


def _lanes(nest: Nest, channels: int) -> tuple[int, int] | None:
    """Lanes of a vector, and channels that share each input; None where there are too few."""
    widest = AVX512_LANES if nest.core.has("avx512") else AVX2_LANES
    for lanes in (widest, AVX2_LANES, LEAST_LANES):
        for vectors in VECTORS:
            if channels % (lanes * vectors) == 0:
                return lanes, lanes * vectors
    return None


def _channels(nest: Nest) -> list[Schedule]:
    weights = find_param(nest.func, "w")
    axes = PACKED[len(weights.shape)]
    found = _lanes(nest, weights.shape[axes.channel])
    if found is None:
        return []
    lanes, together = found
    schedule = Schedule(nest.func)
    try:
        block, lane = schedule.split(output_loops(nest.func, "out", "out")[-1], together)
        gather_temporaries(schedule, block)
        schedule.decompose_reduction("acc", "acc_c")
        schedule.reorder(*axes.taps, "acc_c")
        if axes.packing:
            schedule.transform_layout("w", axes.packing.format(together))
        for loop in ("acc_c", "acc_c_init", lane):
            outer, inner = schedule.split(loop, lanes, tail="exact")
            schedule.unroll(outer)
            schedule.vectorize(inner)
    except ScheduleError:
        return []
    return [schedule]


RULES = (
    Rule(
        "channels side by side", _is_plain, _channels, needs=frozenset({"avx2"}), ends_menu=always,
    ),
)  # fmt: skip
