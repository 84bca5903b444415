"""Integer sums with few outputs: several threads of a block share each sum.

An average over an image has one output per channel, and a single thread would add all pixels of a
channel. The same holds for products of a single row by weights. Floats keep the reference's order.
"""

from __future__ import annotations

from math import prod

from edgec.errors import ScheduleError
from edgec.loop.dtype import is_integer
from edgec.loop.primitives.lookup import find_loop
from edgec.loop.primitives.matrix_product import nested, plain_extent
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule
from edgec.targets.common.nests import (
    decompose,
    find_param,
    gather_temporaries,
    largest_divisor,
    output_loops,
)
from edgec.targets.common.sums import Kind
from edgec.targets.cuda.bind import place_whole_barriers, with_bound_statements
from edgec.targets.rule import Nest

#: Number of outputs that fill the GPU with one thread each.
MANY_OUTPUTS = 4096
#: Columns and the most parts of a block; a barrier costs more than it saves in sums of fewer steps.
COLUMNS, MOST_PARTS, LONG = 16, 16, 32


def is_long_sum(nest: Nest) -> bool:
    """Whether few outputs each sum integers, or find the largest of them."""
    if nest.sums is None or nest.sums.kind not in (Kind.TOTAL, Kind.LARGEST):
        return False
    return is_integer(nest.dtype) and find_param(nest.func, "out").elements <= MANY_OUTPUTS


def schedule_shared_sums(nest: Nest) -> list[Schedule]:
    """Return the nest's schedule; none if sums have another form."""
    schedule = Schedule(nest.func)
    try:
        gather_temporaries(schedule, output_loops(schedule.func, "out", "out")[-1])
        decompose(schedule, "acc")
        return [shared(schedule)]
    except ScheduleError:
        return []


def shared(schedule: Schedule) -> Schedule:
    """The schedule with the sums of its output shared out; ScheduleError where that cannot be."""
    schedule = schedule.copy()
    schedule.simplify()
    known = loops_of(schedule.func.body)
    names = output_loops(schedule.func, "out", "out")
    outer = next((name for name in names if name in known), "")
    target, _ = find_loop(schedule.func, outer)
    steps = next((s for s in getattr(nested(target)[1], "stmts", ()) if s in known.values()), None)
    if steps is None:
        raise ScheduleError("there is no sum")
    parts = largest_divisor(plain_extent(steps), MOST_PARTS)
    if parts == 1 or prod(map(plain_extent, nested(steps)[0])) < LONG:
        raise ScheduleError("the sum is short")
    schedule = with_bound_statements(schedule, but=outer)
    schedule.share_sum(outer, parts, COLUMNS)
    place_whole_barriers(schedule)
    return schedule
