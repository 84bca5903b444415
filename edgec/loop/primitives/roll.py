"""roll: make only the rows of a temporary that the step before did not."""

from __future__ import annotations

from dataclasses import replace

from edgec.errors import ScheduleError
from edgec.loop.access import reads, writes
from edgec.loop.ir import Call, For, If, Load, PrimFunc, Seq, Stmt, Store
from edgec.loop.primitives.lookup import find_loop, fresh, with_changes
from edgec.loop.rewrite import Substitute, walk
from edgec.loop.simplify import lower_blocks
from edgec.numerics.term import Term, TermLike, Var, as_term, minimum


def roll(func: PrimFunc, loop: str, into: str, by: int) -> tuple[PrimFunc, None]:
    """Keep the rows that a step of `into` shares with the one before; `loop` makes the others.

        for i in 0..8 {                         for i in 0..8 {
          for r in 0..3 {                         for r in 0..3 {
            t[r] = f(x[i + r])                      if r < min(2*i, 2) {
          }                                           t[r] = t[r + 1]
          u[i] = g(t[0], t[1], t[2])     ->         } else {
        }                                             t[r] = f(x[i + r])
                                                    }
                                                  }
                                                  u[i] = g(t[0], t[1], t[2])
                                                }

    Row r of an iteration is row r - `by` of the next one, so rows of `x` are read once and the
    output may overwrite them. Lowers the blocks.

    Requires: `into` counts serially from 0; `loop` is directly inside it and computes all rows of a
    temporary that nothing else writes; the iteration before computes the same rows `by` further on,
    from buffers that `into` does not write.
    """
    func = replace(func, body=lower_blocks(func.body))
    rows, path = find_loop(func, loop)
    steps, _ = find_loop(func, into)
    inside = path[next((i for i, s in enumerate(path) if s is steps), len(path)) :]
    if not inside or not all(isinstance(s, Seq) for s in inside[1:]):
        raise ScheduleError(f"roll: loop {loop} does not stand in loop {into} under nothing else")
    if steps.start.constant != 0 or steps.kind not in ("serial", "unrolled"):
        raise ScheduleError(f"roll: loop {into} does not step from 0, one after the other")
    store = _row_store(rows)
    buffer, count = store.buffer, rows.extent
    if buffer.scope == "arena" or rows.start.constant != 0 or count != buffer.shape[0]:
        raise ScheduleError(f"roll: loop {loop} does not make all rows of a temporary")
    if not 0 < by < count:
        raise ScheduleError(f"roll: steps of {by} share none of {count} rows")
    others = (
        s for s, above in walk(func.body)
        if isinstance(s, Store | Call) and not any(a is rows for a in above)
    )  # fmt: skip
    if any(buffer in writes(s) for s in others) or buffer in reads(rows):
        raise ScheduleError(f"roll: {buffer.name} is not made by loop {loop} alone")
    changed = reads(rows) & writes(steps)
    if changed:
        names = ", ".join(sorted(b.name for b in changed))
        raise ScheduleError(f"roll: loop {into} writes {names}, which loop {loop} reads")
    later = Substitute({steps.var: as_term(steps.var) + 1}).stmt(store)
    further = Substitute({rows.var: as_term(rows.var) + by}).stmt(store)
    assert isinstance(later, Store) and isinstance(further, Store)
    if later.value != further.value:
        raise ScheduleError(f"roll: rows of loop {loop} are not those {by} further in steps before")
    rolled = keep_rows(rows, as_term(steps.var) * by, by, func)
    return with_changes(func, [(rows, rolled)]), None


def keep_rows(rows: For, first: TermLike, by: int, func: PrimFunc) -> For:
    """The loop over rows; unless `first` is 0, all rows but the last `by` are moved down.

    first: the number of the first row, a multiple of `by`. func: its loop names are taken.
    """
    store, count = _row_store(rows), rows.extent
    assert count is not None
    kept = count - by
    loops: list[For] = []
    stmt = rows.body
    while isinstance(stmt, For):
        loops.append(stmt)
        stmt = stmt.body
    names = {
        loop.var: replace(loop.var, name=fresh(func, f"{loop.var.name}_kept")) for loop in loops
    }
    at = tuple(index.substitute(dict(names)) for index in store.indices)
    copy: Stmt = Store(store.buffer, at, Load(store.buffer, (at[0] + by, *at[1:])))
    for loop in reversed(loops):
        copy = replace(loop, var=names[loop.var], body=copy)
    end = minimum(as_term(first) * kept, kept)
    return replace(rows, body=If(as_term(rows.var), end, copy, rows.body))


def _row_store(rows: For) -> Store:
    """The loop's store to an element of row `rows.var`, in loops of constant bounds."""
    stmt: Stmt = rows.body
    inner: list[Var] = []
    while isinstance(stmt, For) and stmt.start.constant is not None:
        if stmt.extent is None:
            break
        inner.append(stmt.var)
        stmt = stmt.body
    name = rows.var.name
    if not isinstance(stmt, Store) or not stmt.indices or stmt.indices[0] != as_term(rows.var):
        raise ScheduleError(f"roll: loop {name} does not store one row in each step")
    columns: Term = as_term(0)
    for index in stmt.indices[1:]:
        columns = columns + index
    if not columns.variables() <= set(inner):
        raise ScheduleError(f"roll: loop {name} stores rows of different columns")
    return stmt
