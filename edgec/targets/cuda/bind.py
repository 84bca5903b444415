"""The loops of a schedule on the blocks and threads of a GPU.

    for h in 0..32 {                            block_x for h_w_o in 0..8 {
      for w in 0..32 {                            thread_x for h_w_i in 0..128 {
        acc[0] = 0                        ->        acc[0] = 0
        for k in 0..9 { acc[0] = ... }              for k in 0..9 { acc[0] = ... }
        out[h, w] = f(acc[0])                       out[h, w] = f(acc[0])
    } }                                         } }

The loops around each statement of the function become one loop, whose steps are divided among
threads; each thread runs the inner loops (mostly sums) alone. Between dependent statements the
whole grid waits: each is a kernel. A statement that cannot be divided runs in one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from edgec.errors import ScheduleError
from edgec.loop.access import accesses
from edgec.loop.bound import BLOCKS, BOUND, kernel_parts
from edgec.loop.ir import For, PrimFunc, Seq, Stmt, Sync
from edgec.loop.lanes import private_buffers, why_not_apart
from edgec.loop.rewrite import statements
from edgec.loop.schedule import Schedule
from edgec.targets.common.nests import largest_divisor

#: Threads of a block: smaller blocks for loops with few steps, so that more multiprocessors share
#: them.
FEW_THREADS, MANY_THREADS, MANY_STEPS = 64, 128, 16384
#: The most threads along one index where loops stay apart.
MOST_THREADS = 256


def bound(schedule: Schedule) -> Schedule:
    """The schedule with its loops bound, and barriers; unchanged if nothing can be bound."""
    schedule.simplify()
    if not _has_own_registers(schedule.func):
        return schedule
    found = with_bound_statements(schedule)
    try:
        place_whole_barriers(found)
    except ScheduleError:
        return schedule
    return found


def with_bound_statements(schedule: Schedule, but: str = "") -> Schedule:
    """The schedule with each of its nests bound, `but` for the loop of this name."""
    found = schedule
    for stmt in _statements(schedule.func.body):
        if isinstance(stmt, For) and stmt.kind == "serial" and stmt.var.name != but:
            found = _with_bound(found, stmt)
    return found.copy()


def place_whole_barriers(schedule: Schedule) -> None:
    """Place barriers; ScheduleError unless the grid's barriers stand between complete kernels."""
    schedule.run_once()
    schedule.place_barriers()
    if not has_whole_kernels(schedule.func):
        raise ScheduleError("the grid would wait inside of a statement")


def has_whole_kernels(func: PrimFunc) -> bool:
    """Whether all barriers of the grid stand between statements that share no registers."""
    outside = sum(isinstance(stmt, Sync) for stmt in _statements(func.body))
    every = [s for s in statements(func.body) if isinstance(s, Sync) and s.scope == "grid"]
    return len(every) <= outside and _are_apart([part.body for part in kernel_parts(func)])


def _statements(body: Stmt) -> tuple[Stmt, ...]:
    return body.stmts if isinstance(body, Seq) else (body,)


def _has_own_registers(func: PrimFunc) -> bool:
    """Whether no statement of the function reads registers that another one left."""
    return _are_apart(_statements(func.body))


def _are_apart(stmts: Sequence[Stmt]) -> bool:
    used = [{a.buffer for a in accesses(s) if a.buffer.scope == "register"} for s in stmts]
    return sum(map(len, used)) == len(set[object]().union(*used))


def _with_bound(schedule: Schedule, loop: For) -> Schedule:
    """The schedule with one more nest bound, in the first way that the loops allow."""
    chain = _chain(schedule.func, loop)
    ways: tuple[Callable[[Schedule, list[For]], None], ...] = (_bind_as_one, _bind_apart)
    for count in range(len(chain), 0, -1):
        for way in ways:
            trial = schedule.copy()
            try:
                way(trial, chain[:count])
            except ScheduleError:
                continue
            return trial
    return schedule


def _chain(func: PrimFunc, loop: For) -> list[For]:
    """The loop and those directly inside whose steps may run at once."""
    found: list[For] = []
    stmt: Stmt = loop
    while isinstance(stmt, For) and stmt.kind == "serial" and (stmt.extent or 0) > 1:
        tried = replace(stmt, kind="thread_x")
        if stmt.start.constant is None or why_not_apart(tried, private_buffers(func, tried)):
            break
        found.append(stmt)
        stmt = stmt.body
    return found


def _bind_as_one(schedule: Schedule, chain: list[For]) -> None:
    """All steps of a nest one after the other, shared out among threads."""
    name, *others = (loop.var.name for loop in chain)
    for other in others:
        name = schedule.fuse(name, other)
    extents = [loop.extent or 1 for loop in chain]
    threads = threads_of(extents)
    if prod(extents) > threads:
        block, name = schedule.split(name, threads)
        schedule.bind(block, "block_x")
    schedule.bind(name, "thread_x")


def threads_of(extents: Sequence[int]) -> int:
    """Threads of a block, by the steps of the loops: whole inner loops, and a part of the next.

    Each index is then a sum of the block's and the thread's index. If no part of a single loop is
    large enough, the last block has fewer threads.
    """
    most = MANY_THREADS if prod(extents) >= MANY_STEPS else FEW_THREADS
    threads = 1
    for extent in reversed(extents):
        part = largest_divisor(extent, most // threads)
        threads *= part
        if part < extent:
            break
    is_enough = threads * 2 >= min(most, prod(extents)) or len(extents) > 1
    return threads if is_enough else most


def _bind_apart(schedule: Schedule, chain: list[For]) -> None:
    """Each loop on an index of its own, the innermost on threads."""
    *outer, inner = chain
    names, last = [loop.var.name for loop in outer], inner.var.name
    if (inner.extent or 1) > MOST_THREADS:
        block, last = schedule.split(last, MOST_THREADS)
        names.append(block)
    if len(names) > len(BLOCKS):
        raise ScheduleError(f"{len(names)} loops, but blocks have {len(BLOCKS)} indices")
    for name, kind in zip(reversed(names), BOUND[: len(BLOCKS)], strict=False):
        schedule.bind(name, kind)
    schedule.bind(last, "thread_x")
