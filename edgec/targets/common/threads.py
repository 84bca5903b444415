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


#: Of the time that threads have, what a loop takes of it that needs no better one around it.
EVEN = 0.9


def on_threads(schedule: Schedule, threads: int) -> Schedule:
    """Let threads share the outermost loops that are long and whose steps may run at once."""
    schedule.simplify()
    loops = [(loop, _instructions(schedule.func, loop)) for loop in _outermost(schedule.func.body)]
    if any(instructions >= FEWEST_INSTRUCTIONS for _, instructions in loops):
        for loop, instructions in loops:
            if instructions >= FEWEST_BESIDE:
                with suppress(ScheduleError):
                    schedule.parallel(_evenly_shared(schedule, loop, threads))
    return schedule


def _evenly_shared(schedule: Schedule, loop: For, threads: int) -> str:
    """The loop to share, around others: of 5 steps one of two threads would have 3."""
    found, body = [loop], loop.body
    while isinstance(body, For) and body.kind == "serial" and constant_extent(body):
        found.append(body)
        body = body.body
    if _evenness(loop, threads) < EVEN:
        best = max(found, key=lambda each: _evenness(each, threads))
        others = [each.var.name for each in found if each is not best]
        with suppress(ScheduleError):
            schedule.reorder(best.var.name, *others)
            return best.var.name
    return loop.var.name


def _evenness(loop: For, threads: int) -> float:
    """What part of the threads' time its steps take if each has as many, but for the last."""
    steps = constant_extent(loop) or 1
    return steps / (threads * -(-steps // threads))


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
