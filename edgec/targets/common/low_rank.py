"""Products of int8 by weights of low rank: sums over few rows of weights, then of their multiples.

    acc[c] = bias[c]                              for r in few rows { part[r] = 0
    for k { acc[c] = acc[c] + x[k] * w[c, k] } ->   for k { part[r] = part[r] + x[k] * w[r, k] } }
                                                  acc[c] = bias[c]
                                                  for r { acc[c] = acc[c] + part[r] * w_mix[c, r] }

Only where the factors are integers, so that all sums are the same. No model of the samples has such
weights: training leaves rows that are equal or zero, which passes remove before.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from edgec.errors import ScheduleError
from edgec.loop.intrinsics import INT32_MAX
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule
from edgec.loop.values import Array
from edgec.numerics.integer_factors import Factors, integer_factors
from edgec.targets.common.nests import find_param, gather_temporaries, largest_divisor
from edgec.targets.common.sum_blocks import as_matrix
from edgec.targets.common.sums import Kind
from edgec.targets.rule import Nest, Rule

#: Sums that share each input.
AT_ONCE = 4
#: The largest number that an input of int8 and its zero point are apart.
MOST_INPUT = 255


def _is_product(nest: Nest) -> bool:
    sums = nest.sums
    return nest.dtype == "int8" and sums is not None and sums.kind in (Kind.MATRIX, Kind.WINDOWS)


def _schedules(nest: Nest) -> list[Schedule]:
    weights = nest.tables.get("w")
    if weights is None or weights.dtype != "int8":
        return []
    rows = weights.reshape(len(weights), -1)
    found = integer_factors(rows)
    if found is None or not _stays_in_int32(rows, found, nest.tables["bias"]):
        return []
    with suppress(ScheduleError):
        return [_schedule(nest, found)]
    return []


def _stays_in_int32(rows: Array, factors: Factors, bias: Array) -> bool:
    """Whether no order of adding the parts leaves int32."""
    parts = MOST_INPUT * np.abs(rows[list(factors.rows)].astype(np.int64)).sum(axis=1)
    most = np.abs(factors.mix.astype(np.int64)) @ parts
    folded = MOST_INPUT * np.abs(rows.astype(np.int64)).sum(axis=1)
    return bool(np.max(most + folded + np.abs(bias.astype(np.int64))) <= INT32_MAX)


def _schedule(nest: Nest, factors: Factors) -> Schedule:
    schedule, window = Schedule(nest.func), nest.window
    is_gathered = window is not None and not window.is_pixel
    as_matrix(schedule, is_gathered)
    source = "col" if is_gathered else "x"
    part, mix = schedule.factor("acc", source, list(factors.rows), factors.mix.tolist())
    channels = largest_divisor(find_param(schedule.func, "out").shape[-1], AT_ONCE)
    channel, lane = schedule.split("out_c", channels, tail="exact")
    gather_temporaries(schedule, channel, (part, "col"))
    schedule.compute_at(part, "out_p", scope="register")
    if is_gathered:
        schedule.compute_at("col", "out_p", scope="scratch")
    _sum_together(schedule, "acc", "acc_c", "acc_r", mix)
    row = f"{part}_r"
    _, each = schedule.split(row, largest_divisor(len(factors.rows), AT_ONCE), tail="exact")
    _sum_together(schedule, part, each, f"{part}_k", "w")
    schedule.unroll(lane)
    return schedule


def _sum_together(schedule: Schedule, block: str, each: str, step: str, weights: str) -> None:
    """Let sums share each input, their weights side by side."""
    schedule.decompose_reduction(block, each)
    schedule.reorder(step, each)
    extent = loops_of(schedule.func.body)[each].extent
    schedule.transform_layout(weights, f"OI -> O/{extent} I O%{extent}")
    schedule.unroll(each)
    schedule.unroll(f"{each}_init")


RULE = Rule("few rows of weights", _is_product, _schedules)
