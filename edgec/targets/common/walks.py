"""Walks: sums of entries found by following a table, each walk until it no longer changes.

found[row, tree] = found < 0 ? found : child[...]        reduced over the levels
total[row, column] += leaf[found[row, k], column]        reduced over the walks
"""

from __future__ import annotations

from math import prod

from edgec.loop.ir import Load, PrimFunc, Select, Store
from edgec.loop.primitives.lookup import find_block, reduce_vars
from edgec.loop.schedule import Schedule
from edgec.targets.common.nests import decompose, find_param
from edgec.targets.rule import Nest


def is_walk(nest: Nest) -> bool:
    """Whether `total` sums the results of the reduction `found`, which stops changing at the end of
    each walk.
    """
    if nest.temporaries != {"found", "total"}:
        return False
    store = find_block(nest.func, "found")[0].body
    return (
        isinstance(store, Store)
        and isinstance(store.value, Select)
        and store.value.yes == Load(store.buffer, store.indices)
    )


def schedule_walks(schedule: Schedule) -> None:
    """Run each walk directly before its result is added, which stays in a register."""
    func = schedule.func
    if _is_found_once(func):
        schedule.compute_at("total", "out_d1")
        decompose(schedule, "total")
    else:  # one walk for all columns
        if reduce_vars(find_block(func, "total")[0]):
            schedule.decompose_reduction("total", "total_row")
        schedule.reorder("total_k", "total_column")
    schedule.compute_at("found", "total_k")
    decompose(schedule, "found")


def _is_found_once(func: PrimFunc) -> bool:
    """Whether each walk is added once."""
    total, _ = find_block(func, "total")
    steps = prod(var.stop - var.start for var in reduce_vars(total))
    return find_param(func, "total").elements * steps == find_param(func, "found").elements
