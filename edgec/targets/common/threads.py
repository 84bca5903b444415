"""Loops on several threads, where they take long enough to be worth it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from edgec.errors import ScheduleError
from edgec.loop.cost import estimate
from edgec.loop.ir import For, PrimFunc, Seq, Stmt
from edgec.loop.primitives.lookup import constant_extent
from edgec.loop.schedule import Schedule
from edgec.targets.common.nests import largest_divisor

#: Threads start and meet in some microseconds: a loop of fewer instructions is one thread's.
FEWEST_INSTRUCTIONS = 40_000
#: Beside a loop that threads share, they meet sooner, and what one of them makes alone, such as a
#: copy with padding, the others must fetch from its cache.
FEWEST_BESIDE = 8_000


def on_threads(schedule: Schedule) -> Schedule:
    """Let threads share the outermost loops that are long and whose steps may run at once."""
    schedule.simplify()
    loops = [(loop, _instructions(schedule.func, loop)) for loop in _outermost(schedule.func.body)]
    if any(instructions >= FEWEST_INSTRUCTIONS for _, instructions in loops):
        for loop, instructions in loops:
            if instructions >= FEWEST_BESIDE:
                with suppress(ScheduleError):
                    schedule.parallel(loop.var.name)
    return schedule


def share_of(steps: int, threads: int, least: int = 1) -> int:
    """The steps of each part that threads take of a loop; all where that is not worth it."""
    if threads == 1:
        return steps
    share = largest_divisor(steps, max(steps // threads, 1))
    return share if share >= least else steps


def _outermost(body: Stmt) -> list[For]:
    """Those of several steps."""
    statements = body.stmts if isinstance(body, Seq) else (body,)
    loops = [stmt for stmt in statements if isinstance(stmt, For) and stmt.kind == "serial"]
    return [loop for loop in loops if (constant_extent(loop) or 1) > 1]


def _instructions(func: PrimFunc, loop: Stmt) -> float:
    return estimate(replace(func, body=loop)).instructions
