"""Loops on several threads, if they take long enough.

`on_threads` marks loops that threads could share; `worth_threads` then makes loops serial that are
too short to start threads for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from edgec.errors import ScheduleError
from edgec.loop.cost import estimate
from edgec.loop.ir import For, PrimFunc, Seq, Stmt
from edgec.loop.rewrite import Rewriter, statements
from edgec.loop.schedule import Schedule

#: Threads start and meet in some microseconds: loops of fewer instructions start none.
FEWEST_INSTRUCTIONS = 40_000
#: Starting threads that already run costs less, but the others wait for work that one thread does
#: alone (a copy with padding, a small layer) and fetch its result from its cache.
FEWEST_BESIDE = 8_000
#: The fraction of the threads' time that a loop must use to need no better loop around it.
EVEN = 0.9


def on_threads(schedule: Schedule, threads: int) -> Schedule:
    """Let threads share the outermost loops that are not short and whose steps may run at once."""
    schedule.simplify()
    for loop in _outermost(schedule.func.body):
        if _instructions(schedule.func, loop) >= FEWEST_BESIDE:
            with suppress(ScheduleError):
                schedule.parallel(_evenly_shared(schedule, loop, threads))
    return schedule


def worth_threads(
    functions: Sequence[PrimFunc], callees: Sequence[Mapping[str, PrimFunc]]
) -> tuple[list[PrimFunc], list[Mapping[str, PrimFunc]]]:
    """Functions that run one after the other, and their callees, with fewer shared loops.

    One team of threads runs all functions where one has a long loop, and then shares the loops of
    the others. If a callee has one, each function starts its own threads, only for long loops.
    """
    called = [{name: _alone(each) for name, each in group.items()} for group in callees]
    starts_own = any(_shared(each.body) for group in called for each in group.values())
    if not starts_own and any(map(_is_long, functions)):
        return list(functions), list(called)
    return [_alone(each) for each in functions], list(called)


def _alone(func: PrimFunc) -> PrimFunc:
    """The function, with loops in serial where it is too short for threads of its own."""
    if not _shared(func.body) or _is_long(func):
        return func
    return replace(func, body=_Serial().stmt(func.body))


def _is_long(func: PrimFunc) -> bool:
    return any(_instructions(func, loop) >= FEWEST_INSTRUCTIONS for loop in _shared(func.body))


def _shared(body: Stmt) -> list[For]:
    """The loops that threads share."""
    return [s for s in statements(body) if isinstance(s, For) and s.kind == "parallel"]


class _Serial(Rewriter):
    """Loops that one thread runs."""

    def loop(self, loop: For) -> Stmt:
        return replace(loop, kind="serial" if loop.kind == "parallel" else loop.kind,
                       body=self.stmt(loop.body))  # fmt: skip


def _evenly_shared(schedule: Schedule, loop: For, threads: int) -> str:
    """The loop to share, around others: of 5 steps one of two threads would have 3."""
    found, body = [loop], loop.body
    while isinstance(body, For) and body.kind == "serial" and body.extent:
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
    """The used fraction of the threads' time if all but the last take equal numbers of steps."""
    return _even(loop.extent or 1, threads)


def _even(parts: int, threads: int) -> float:
    return parts / (threads * -(-parts // threads))


def share_of(steps: int, threads: int, least: int = 1) -> int:
    """The steps of one part of a loop that threads share; all steps if it stays serial.

    The largest parts that can be shared evenly: two threads take 33 steps as 11 parts of 3.
    """
    if threads == 1:
        return steps
    found = [n for n in range(min(threads, steps), steps // least + 1) if steps % n == 0]
    even = (n for n in found if _even(n, threads) >= EVEN)
    best = max(found, key=lambda n: _even(n, threads), default=1)
    return steps // next(even, best)


def _outermost(body: Stmt) -> list[For]:
    """The outermost serial loops of several steps."""
    statements = body.stmts if isinstance(body, Seq) else (body,)
    loops = [stmt for stmt in statements if isinstance(stmt, For) and stmt.kind == "serial"]
    return [loop for loop in loops if (loop.extent or 1) > 1]


def _instructions(func: PrimFunc, loop: Stmt) -> float:
    return estimate(replace(func, body=loop)).instructions
