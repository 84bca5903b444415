"""fold_storage: keep only the rows of a temporary that are still needed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from edgec.errors import ScheduleError
from edgec.loop.access import accesses
from edgec.loop.ir import Buffer, BufferRef, Call, Const, For, If, IndexValue, PrimFunc, Seq, Stmt
from edgec.loop.move_rows import kernel_for
from edgec.loop.primitives.lookup import find_buffer, with_changes
from edgec.loop.rewrite import Reindex, sequence
from edgec.loop.row_order import Touch, touches
from edgec.loop.simplify import lower_blocks
from edgec.loop.step_term import step_term
from edgec.numerics.term import as_term, floor_mod


def fold_storage(func: PrimFunc, buffer: str, contiguous: bool = False) -> tuple[PrimFunc, None]:
    """Shrink a temporary to the rows that are alive at once, and reuse them in turn.

        alloc t: [9]                              alloc t: [3]
        for i in 0..9 {                           for i in 0..9 {
          t[i] = f(x[i])                    ->      t[i % 3] = f(x[i])
          for j in max(i-2,0)..max(i-1,0) {         for j in max(i-2,0)..max(i-1,0) {
            u[j] = g(t[j], t[j+1], t[j+2])            u[j] = g(t[j % 3], t[(j+1) % 3], t[(j+2) % 3])
        } }                                       } }

    With `contiguous`, live rows stay consecutive for callees that take a pointer to several rows:
    they move down before new ones are written, and row r is at t[r - base(i)], base(i) being the
    first one alive in step i of the innermost loop around all uses.

    Lowers the blocks. Requires a temporary in memory whose rows are written in order, each before
    it is read; without `contiguous` no access may span several rows.
    """
    found = find_buffer(func, buffer)
    if found.scope != "scratch":
        raise ScheduleError(f"fold_storage: {buffer} is not a temporary in memory")
    func = replace(func, body=lower_blocks(func.body))
    order = list(touches(func.body, {found}))
    _require_written_first(order, buffer)
    if contiguous:
        return _fold_window(func, found, order), None
    if any(touch.stop - touch.first > 1 for touch in order):
        raise ScheduleError(f"fold_storage: an access of {buffer} spans several rows")
    rows = _alive(order)
    if rows >= found.shape[0]:
        return func, None
    small = replace(found, shape=(rows, *found.shape[1:]))
    body = Reindex(found, small, lambda at: (floor_mod(at[0], rows), *at[1:])).stmt(func.body)
    return _with_buffer(func, found, small, body), None


def _require_written_first(order: list[Touch], buffer: str) -> None:
    stop = 0
    for touch in order:
        if touch.is_write:
            if touch.first > stop:
                raise ScheduleError(f"fold_storage: {buffer} is not written row after row")
            stop = max(stop, touch.stop)
        elif touch.stop > stop:
            raise ScheduleError(f"fold_storage: {buffer} is read before it is written")


def _alive(order: list[Touch]) -> int:
    """Least number of rows so that no row is overwritten before its last use."""
    rows, stop = 1, 0
    for touch in order:
        stop = max(stop, touch.stop) if touch.is_write else stop
        rows = max(rows, stop - touch.first)
    return rows


def _fold_window(func: PrimFunc, buffer: Buffer, order: list[Touch]) -> PrimFunc:
    loop = _loop_around(func.body, buffer)
    if loop is None or loop.start.variables() & {loop.var}:
        raise ScheduleError(f"fold_storage: no loop holds all uses of {buffer.name}")
    name = loop.var.name
    steps = sorted({touch.at[name] for touch in order})
    if steps != list(range(len(steps))):
        raise ScheduleError(f"fold_storage: loop {name} does not step from 0")
    if any(a.at[name] > b.at[name] for a, b in pairwise(order)):
        raise ScheduleError(f"fold_storage: loop {name} runs more than once")
    base = [buffer.shape[0]] * len(steps)
    for touch in order:
        base[touch.at[name]] = min(base[touch.at[name]], touch.first)
    for step in reversed(range(len(steps) - 1)):
        base[step] = min(base[step], base[step + 1])
    rows = max(touch.stop - base[touch.at[name]] for touch in order)
    if rows >= buffer.shape[0]:
        return func
    small = replace(buffer, shape=(rows, *buffer.shape[1:]))
    here, before = (step_term(base, as_term(loop.var) - i) for i in (0, 1))
    body = Reindex(buffer, small, lambda at: (at[0] - here, *at[1:])).stmt(loop.body)
    row_elements = small.elements // rows
    call = Call(
        kernel_for(buffer.dtype),
        (
            BufferRef(small, tuple(as_term(0) for _ in small.shape), "updates", small.shape),
            Const(rows, "int32"),
            Const(row_elements, "int32"),
            IndexValue(here - before),
        ),
    )
    move = If(before, here, call)
    changed = replace(loop, body=sequence(move, body) if rows > 1 else body)
    func = with_changes(func, [(loop, changed)])
    return _with_buffer(func, buffer, small, func.body)


def _loop_around(stmt: Stmt, buffer: Buffer) -> For | None:
    """The innermost loop that holds all uses."""
    found: For | None = None
    while True:
        if isinstance(stmt, Seq):
            users = [s for s in stmt.stmts if any(accesses(s, of=(buffer,)))]
            if len(users) != 1:
                return found
            stmt = users[0]
        elif isinstance(stmt, For):
            found, stmt = stmt, stmt.body
        else:
            return found


def _with_buffer(func: PrimFunc, old: Buffer, new: Buffer, body: Stmt) -> PrimFunc:
    params = tuple(new if p == old else p for p in func.params)
    return replace(func, params=params, body=body)
