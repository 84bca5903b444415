"""Convolutions and dense of float32 on x86: vectors of output channels, by the schedule alone.

Each lane sums the products of its channel in the order of the plain loops, so the bits are theirs.
Several vectors side by side share each input and hide what a sum waits for the one before.
"""

from __future__ import annotations

from edgec.errors import ScheduleError
from edgec.loop.schedule import Schedule
from edgec.targets.common.nests import find_param, gather_temporaries, output_loops
from edgec.targets.common.sums import Kind
from edgec.targets.rule import Nest, Rule, always

#: Vectors of sums that stay in registers.
VECTORS = (4, 2, 1)
#: Floats in a vector: of AVX-512, of AVX2, and of either's lower half.
AVX512_LANES, AVX2_LANES, LEAST_LANES = 16, 8, 4


def _is_float(nest: Nest) -> bool:
    kinds = (Kind.MATRIX, Kind.WINDOWS)
    is_sum = nest.sums is not None and nest.sums.kind in kinds
    return is_sum and nest.dtype == "float32" and nest.out_dtype == "float32" and not nest.is_small


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
    found = _lanes(nest, weights.shape[0])
    if found is None:
        return []
    lanes, together = found
    schedule = Schedule(nest.func)
    is_window = len(weights.shape) == 4
    taps = ("acc_kh", "acc_kw", "acc_ic") if is_window else ("acc_k",)
    packing = "OHWI -> O/{0} H W I O%{0}" if is_window else "OI -> O/{0} I O%{0}"
    try:
        block, lane = schedule.split(output_loops(nest.func, "out", "out")[-1], together)
        gather_temporaries(schedule, block)
        schedule.decompose_reduction("acc", "acc_c")
        schedule.reorder(*taps, "acc_c")
        schedule.transform_layout("w", packing.format(together))
        for loop in ("acc_c", "acc_c_init", lane):
            outer, inner = schedule.split(loop, lanes, tail="exact")
            schedule.unroll(outer)
            schedule.vectorize(inner)
    except ScheduleError:
        return []
    return [schedule]


RULES = (
    Rule(
        "channels of floats", _is_float, _channels, needs=frozenset({"avx2"}), ends_menu=always,
    ),
)  # fmt: skip
