"""Outputs that are made element by element, without sums: blocks of straight code."""

from __future__ import annotations

from edgec.errors import ScheduleError
from edgec.loop.primitives.lookup import find_loop
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule
from edgec.targets.rule import Nest
from edgec.tune.decisions import Decisions
from edgec.tune.sketches.blocks import divisors


def is_elementwise(nest: Nest) -> bool:
    """Whether the function is only one nest over the elements of the output."""
    loops = loops_of(nest.func.body)
    return not nest.temporaries and bool(loops) and all(name.startswith("out_") for name in loops)


def write_elements(nest: Nest, ask: Decisions) -> Schedule:
    """Schedule elements. Raises ScheduleError where decisions do not fit the nest."""
    schedule = Schedule(nest.func)
    loop = _flatten(schedule, ask)
    extent = find_loop(schedule.func, loop)[0].extent
    if extent is None:
        raise ScheduleError("the size is open")
    factor = ask.choose("elements", divisors(extent, 16))
    if factor > 1:
        _, lane = schedule.split(loop, factor)
        schedule.unroll(lane)
    return schedule


def _flatten(schedule: Schedule, ask: Decisions) -> str:
    """Make one loop of all where all arrays have the same shape; returns the innermost loop."""
    loops = list(loops_of(schedule.func.body))
    arrays = [b for b in schedule.func.params if b.scope == "arena"]
    is_plain = len(loops) > 1 and len({b.shape for b in arrays}) == 1
    if not is_plain or not ask.choose("flat", [True, False]):
        return loops[-1]
    loop = loops[0]
    for inner in loops[1:]:
        loop = schedule.fuse(loop, inner)
    for buffer in arrays:
        schedule.flatten(buffer.name, 0, len(buffer.shape) - 1)
    return loop
