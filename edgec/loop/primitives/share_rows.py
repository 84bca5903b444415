"""share_rows: a block of a GPU's threads makes each row together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import inf, prod

from edgec.errors import ScheduleError
from edgec.loop.access import accesses
from edgec.loop.dtype import integer_range, is_float
from edgec.loop.ir import Binary, Buffer, Const, Expr, For, Load, PrimFunc, Scope, Seq, Stmt, Store
from edgec.loop.lanes import private_buffers, why_not_apart
from edgec.loop.primitives.lookup import fresh
from edgec.loop.primitives.matrix_product import decoded, nested
from edgec.loop.rewrite import ReplaceBuffer, Substitute, sequence, statements, subexpressions
from edgec.numerics.term import Term, Var, as_term, minimum

#: Steps of a loop that each thread runs alone, and parts of a sum that one thread adds up.
SHORT, JOINED = 8, 16
ZERO = (as_term(0),)


def share_rows(func: PrimFunc, threads: int, free: bool = False) -> tuple[PrimFunc, None]:
    """Let a block of threads make each row together, where loops of a row share registers.

        for m in 0..6 {                     block_x for row in 0..6 {
          top[0] = -128                       top[0] = -128                        every thread
          for k in 0..90 {                    thread_x for j in 0..90 { part[j] = ... }
            top[0] = max(top[0],        ->    for p in 0..90 { top[0] = max(top[0], part[p]) }
              x[m, k])                        thread_x for j in 0..90 {
          }                                     y[row, j] = x[row, j] - top[0]
          for k in 0..90 {                    }
            y[m, k] = x[m, k] - top[0]      }
        } }

    Every thread computes values that stay in registers; one thread does each single store. Integer
    sums, maxima and minima are computed in parts. Threads compute the terms of a float sum, which
    are then added in order; with `free`, in parts and a fixed order. Requires a simplified
    function. Adds no barriers yet; ScheduleError if control flow depends on data.
    """
    loops, body = _rows(func)
    sharing = _Sharing(func, threads, free)
    shared = sharing.stmt(body)
    if not sharing.is_spread:
        raise ScheduleError("share_rows: there is nothing that threads could share")
    rows = Var(fresh(func, "row"), 0, prod(loop.extent or 1 for loop in loops))
    if loops:
        shared = Substitute(decoded(loops, as_term(rows))).stmt(shared)
        shared = For(rows, as_term(0), as_term(rows.stop), "block_x", shared)
    return replace(func, body=shared, allocs=(*func.allocs, *sharing.made)), None


def _rows(func: PrimFunc) -> tuple[list[For], Stmt]:
    """The outer loops whose iterations are independent, and the body of the innermost one."""
    loops: list[For] = []
    stmt = func.body
    while isinstance(stmt, For) and _is_apart(func, stmt) and stmt.start.constant == 0:
        loops.append(stmt)
        stmt = stmt.body
    return loops, stmt


def _is_apart(func: PrimFunc, loop: For) -> bool:
    tried = replace(loop, kind="thread_x")
    is_plain = loop.kind == "serial" and (loop.extent or 0) > 1
    return is_plain and not why_not_apart(tried, private_buffers(func, tried))


@dataclass(frozen=True)
class _Fold:
    """A loop that joins terms to a register: acc = op(acc, term), or op(term, acc)."""

    loop: For
    store: Store
    op: str
    is_first: bool

    @property
    def acc(self) -> Buffer:
        return self.store.buffer

    @property
    def term(self) -> Expr | None:
        """The one term that a step joins; None where there are several."""
        value, acc = self.store.value, Load(self.acc, ZERO)
        assert isinstance(value, Binary)
        sides = (value.left, value.right) if self.is_first else (value.right, value.left)
        return sides[1] if sides[0] == acc else None

    def joined(self, to: Buffer, term: Expr) -> Store:
        """The statement that joins a term to a register, on the same side."""
        sides = (Load(to, ZERO), term) if self.is_first else (term, Load(to, ZERO))
        return Store(to, ZERO, Binary(self.op, *sides))

    @property
    def neutral(self) -> Const:
        """The neutral element."""
        dtype = self.acc.dtype
        if self.op == "add":
            return Const(0.0 if is_float(dtype) else 0, dtype)
        low, high = (-inf, inf) if is_float(dtype) else integer_range(dtype)
        return Const(low if self.op == "max" else high, dtype)


def _fold(loop: For) -> _Fold | None:
    """The loop as a fold of one register; None where it is another one."""
    try:
        _, store = nested(loop)
    except ScheduleError:
        return None
    if not isinstance(store, Store) or store.buffer.elements != 1:
        return None
    op = store.value.op if isinstance(store.value, Binary) else ""
    path = _path_to(store.value, Load(store.buffer, ZERO), op)
    if op not in ("add", "max", "min") or path is None or len(set(path)) > 1:
        return None
    return _Fold(loop, store, op, path[0])


def _path_to(value: Expr, acc: Load, op: str) -> list[bool] | None:
    """On which side the register stands, in each of the operations around it; it is read once."""
    if sum(part == acc for part in subexpressions(value)) != 1:
        return None
    path: list[bool] = []
    while value != acc:
        if not isinstance(value, Binary) or value.op != op:
            return None
        path.append(any(part == acc for part in subexpressions(value.left)))
        value = value.left if path[-1] else value.right
    return path


class _Sharing:
    """Rewrites the statements of a row. made: new buffers. is_spread: whether any is shared out."""

    def __init__(self, func: PrimFunc, threads: int, free: bool) -> None:
        self.func, self.threads, self.free = func, threads, free
        self.made: list[Buffer] = []
        self.is_spread = False
        self.count = 0

    def stmt(self, stmt: Stmt) -> Stmt:
        """A statement, as all threads of the block run it."""
        if isinstance(stmt, Seq):
            return sequence(*map(self.stmt, stmt.stmts))
        if all(a.buffer.scope == "register" for a in accesses(stmt) if a.is_write):
            return self._in_registers(stmt)
        if isinstance(stmt, Store):
            return self._threads(1, lambda _: stmt)
        if isinstance(stmt, For) and _is_apart(self.func, stmt):
            return self._spread(stmt)
        if isinstance(stmt, For):
            return replace(stmt, body=self.stmt(stmt.body))
        raise ScheduleError("share_rows: control flow depends on data")

    def _spread(self, loop: For) -> Stmt:
        """The steps of a loop, or of a longer one directly inside, among threads."""
        loops = [loop]
        while isinstance(loops[-1].body, For) and _is_apart(self.func, loops[-1].body):
            loops.append(loops[-1].body)
        chosen = max(loops, key=lambda each: each.extent or 0)
        self.is_spread = True
        spread = self._steps(chosen)
        for each in reversed(loops[: loops.index(chosen)]):
            spread = replace(each, body=spread)
        return spread

    def _steps(self, loop: For) -> Stmt:
        """Steps side by side by threads side by side: in even turns, or with a rest."""
        extent = loop.extent or 1
        most = min(self.threads, extent)
        even = max(count for count in range(1, most + 1) if extent % count == 0)
        threads = even if even * 2 >= most else most
        turns, rest = divmod(extent, threads)
        turn = self._var("turn", turns)

        def at(first: Term) -> Callable[[Term], Stmt]:
            return lambda thread: Substitute({loop.var: first + thread + loop.start}).stmt(
                loop.body
            )

        stmts: list[Stmt] = []
        if turns == 1:
            stmts.append(self._threads(threads, at(as_term(0))))
        elif turns:
            body = self._threads(threads, at(as_term(turn) * threads))
            stmts.append(For(turn, as_term(0), as_term(turns), "serial", body))
        if rest:
            stmts.append(self._threads(rest, at(as_term(turns * threads))))
        return sequence(*stmts)

    def _in_registers(self, stmt: Stmt) -> Stmt:
        """Each thread has registers of its own; long folds are made in parts."""
        extent = stmt.extent if isinstance(stmt, For) else None
        if not isinstance(stmt, For) or extent is None or extent < SHORT or stmt.start.constant:
            return stmt
        fold = _fold(stmt)
        if fold is None or _is_answer(self.func, fold):
            return stmt
        self.is_spread = True
        if fold.op == "add" and is_float(fold.acc.dtype) and not self.free:
            return self._in_order(fold)
        return self._in_parts(fold, extent)

    def _in_order(self, fold: _Fold) -> Stmt:
        """Floats: threads compute the terms, each of them adds all up in their order."""
        term = fold.term
        if fold.loop.body != fold.store or term is None or isinstance(term, Load):
            return fold.loop
        terms = self._buffer("terms", fold.loop.extent or 1, fold.acc.dtype, "shared")
        place = (as_term(fold.loop.var),)
        made = self._steps(replace(fold.loop, body=Store(terms, place, term)))
        return sequence(made, replace(fold.loop, body=fold.joined(fold.acc, Load(terms, place))))

    def _in_parts(self, fold: _Fold, extent: int) -> Stmt:
        """Each thread joins some terms that follow each other; so are their results joined."""
        mine = self._buffer("mine", 1, fold.acc.dtype, "register")
        swap, each = ReplaceBuffer({fold.acc: mine}), -(-extent // self.threads)

        def terms(part: Term) -> Stmt:
            start = part * each
            return swap.stmt(replace(fold.loop, start=start, stop=minimum(start + each, extent)))

        buffer, made = self._parts(fold, mine, -(-extent // each), terms)
        stmts = [made]
        while buffer.elements > JOINED:
            below = partial(self._join, fold, buffer, mine)
            buffer, made = self._parts(fold, mine, -(-buffer.elements // JOINED), below)
            stmts.append(made)
        return sequence(*stmts, self._join(fold, buffer, fold.acc, None))

    def _parts(
        self, fold: _Fold, mine: Buffer, parts: int, make: Callable[[Term], Stmt]
    ) -> tuple[Buffer, Stmt]:
        """The buffer of joined parts, and the loop in which some threads join them."""
        buffer = self._buffer("part", parts, mine.dtype, "shared")
        return buffer, self._threads(
            parts,
            lambda part: sequence(
                Store(mine, ZERO, fold.neutral), make(part),
                Store(buffer, (part,), Load(mine, ZERO)),
            ),
        )  # fmt: skip

    def _join(self, fold: _Fold, buffer: Buffer, to: Buffer, part: Term | None) -> Stmt:
        """Combine the elements of a buffer in a register: all, or one part."""
        var, start = self._var("joined", buffer.elements), as_term(0 if part is None else part)
        first = start * JOINED
        stop = as_term(buffer.elements)
        stop = stop if part is None else minimum(first + JOINED, stop)
        return For(var, first, stop, "serial", fold.joined(to, Load(buffer, (as_term(var),))))

    def _threads(self, threads: int, make: Callable[[Term], Stmt]) -> Stmt:
        var = self._var("thread", threads)
        return For(var, as_term(0), as_term(threads), "thread_x", make(as_term(var)))

    def _var(self, name: str, extent: int) -> Var:
        self.count += 1
        return Var(fresh(self.func, f"{name}{self.count}"), 0, extent)

    def _buffer(self, name: str, elements: int, dtype: str, scope: Scope) -> Buffer:
        self.count += 1
        name = fresh(self.func, f"{name}{self.count}")
        self.made.append(Buffer(name, (elements,), dtype, scope))
        return self.made[-1]


def _is_answer(func: PrimFunc, fold: _Fold) -> bool:
    """Whether the largest float so far is stored directly; then NaNs are ordered by position."""
    stores = (stmt for stmt in statements(func.body) if isinstance(stmt, Store))
    outside = any(s.value == Load(fold.acc, ZERO) for s in stores if s.buffer.scope != "register")
    return outside and fold.is_first and fold.op != "add" and is_float(fold.acc.dtype)
