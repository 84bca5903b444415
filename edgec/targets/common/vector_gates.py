"""Layers with a memory in floats: the sums of all units' gates on vectors, by schedules.

    for c in 0..128 {                           for j_o in 0..4 {
      for g in 0..4 {                             sums[0..128] = bias[j_o * 128 + ..]
        own[c, g] = bias[c, g]                    for k in 0..64 {
        for k in 0..64 {                 ->         sums[0..128] = sums[..] + x[k] * w[j_o, k, ..]
          own[c, g] = own[c, g]                   }
            + x[k] * w[c, k, g]                   own[j_o * 128 + ..] = sums[0..128]
    } } }                                       }

Each lane adds its products in the order of the plain loops, so the bits are equal.
"""

from __future__ import annotations

from edgec.errors import ScheduleError
from edgec.loop.ir import Block, Load, Store
from edgec.loop.primitives.lookup import reduce_vars
from edgec.loop.rewrite import blocks_of, loops_of, subexpressions
from edgec.loop.schedule import Schedule
from edgec.targets.common.nests import find_param
from edgec.targets.common.recurrent import is_recurrence
from edgec.targets.common.vector_matrices import second_factor
from edgec.targets.common.vector_tiles import best_tile, to_vectors
from edgec.targets.rule import Nest, Rule, always


def _is_float(nest: Nest) -> bool:
    """Whether one sequence at a time is summed in floats."""
    is_plain = nest.dtype == "float32" and not nest.is_small
    return is_plain and is_recurrence(nest) and find_param(nest.func, "given").shape[0] == 1


def _schedules(nest: Nest) -> list[Schedule]:
    schedule = Schedule(nest.func)
    try:
        for block in blocks_of(nest.func.body).values():
            if reduce_vars(block):
                _sum(nest, schedule, block)
        schedule.simplify()
    except ScheduleError:
        return []
    return [schedule]


def _sum(nest: Nest, schedule: Schedule, block: Block) -> None:
    """Sum a vector's units and gates at once, which become one dimension."""
    name, weights = block.name, second_factor(schedule.func, block.name).buffer
    units, steps, gates = weights.shape
    schedule.transform_layout(weights.name, "CKG -> K C G")
    schedule.flatten(weights.name, 1, 2)
    _flatten_bias(schedule, block)
    own = f"{name}_c"
    if f"{name}_g" in loops_of(schedule.func.body):
        own = schedule.fuse_axes(name, ["c", "g"], "j")
        schedule.flatten(name, 1, 2)
    blocks = best_tile(nest, units * gates, (1, 1), steps).blocks
    copy = schedule.cache_write(name, f"{name}_n", scope="scratch")
    outer, lane = schedule.split(f"{copy}_d1", blocks.together, blocks.tail)
    schedule.compute_at(name, outer, scope="register")
    schedule.decompose_reduction(name, own)
    schedule.reorder(f"{name}_k", own)
    if blocks.tail == "exact":
        schedule.transform_layout(weights.name, f"KJ -> J/{blocks.together} K J%{blocks.together}")
    to_vectors(schedule, blocks.lanes, own, f"{own}_init", lane)


def _flatten_bias(schedule: Schedule, block: Block) -> None:
    """Make one dimension of the constants that sums start from: [unit, gate] or [unit, 1, gate]."""
    assert isinstance(block.init, Store)
    for load in subexpressions(block.init.value):
        if isinstance(load, Load):
            schedule.flatten(load.buffer.name, 0, len(load.buffer.shape) - 1)


def rules(feature: str) -> tuple[Rule, ...]:
    """The rules of cores with a feature."""
    return (Rule("gates on vectors", _is_float, _schedules, needs=frozenset({feature}),
                 ends_menu=always),)  # fmt: skip
