"""share_sum: sums of integers shared out among the threads of a GPU's block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from edgec.errors import ScheduleError
from edgec.loop.access import accesses
from edgec.loop.dtype import integer_range, is_integer
from edgec.loop.ir import (
    Binary,
    BoundKind,
    Buffer,
    Const,
    For,
    If,
    Load,
    PrimFunc,
    Seq,
    Stmt,
    Store,
)
from edgec.loop.primitives.lookup import find_loop, with_changes
from edgec.loop.primitives.matrix_product import decoded, nested, plain_extent
from edgec.loop.rewrite import Substitute, sequence, statements
from edgec.numerics.term import Term, TermLike, Var, as_term


def share_sum(func: PrimFunc, loop: str, parts: int, columns: int) -> tuple[PrimFunc, None]:
    """Let several threads make a part of each sum, which one of them adds up.

        for c in 0..64 {                  block_x for sum_block in 0..4 {
          acc[0] = bias[c]                  thread_y for part in 0..5 { thread_x for i in 0..16 {
          for k in 0..25 {                    acc[0] = 0
            acc[0] = acc[0]       ->          for k in 5 * part..5 * part + 5 { acc[0] = acc[0]
              + f(k, c)                                                            + f(k, c) }
          }                                   partial[part, i] = acc[0]
          out[c] = g(acc[0])                } }
        }                                   thread_y for once in 0..1 { thread_x for last in 0..16 {
                                              acc[0] = bias[c]
                                              for p in 0..5 { acc[0] = acc[0] + partial[p, last] }
                                              out[c] = g(acc[0])
                                          } } }

    The largest of numbers, too. Of integers, whose sums are the same in any order. `loop` is the
    outermost of the nest; `parts` divides the steps of the sum's outermost loop. Requires a
    simplified function. Barriers are not placed yet.
    """
    target, _ = find_loop(func, loop)
    found = _match(target)
    partial = Buffer("partial", (parts, columns), found.acc.dtype, "shared")
    if plain_extent(found.sum) % parts:
        raise ScheduleError(f"share_sum: {parts} parts do not share out {found.sum.var.name}")
    body = _Writer(found, partial).stmt()
    changed = with_changes(func, [(target, body)])
    return replace(changed, allocs=(*changed.allocs, partial)), None


@dataclass(frozen=True)
class _Sum:
    """loops: of the outputs. op: add or max. sum: the outermost loop of the reduction."""

    loops: tuple[For, ...]
    start: Store
    sum: For
    op: str
    rest: tuple[Stmt, ...]

    @property
    def acc(self) -> Buffer:
        return self.start.buffer


def _match(target: For) -> _Sum:
    loops, body = nested(target)
    stmts = body.stmts if isinstance(body, Seq) else ()
    if len(stmts) < 3 or not isinstance(stmts[0], Store) or not isinstance(stmts[1], For):
        raise ScheduleError("share_sum: the nest does not start a sum, add and store")
    start, outer = stmts[0], stmts[1]
    if (start.buffer.scope, start.buffer.elements) != ("register", 1):
        raise ScheduleError("share_sum: the sum is not a single register")
    if not is_integer(start.buffer.dtype):
        raise ScheduleError("share_sum: sums of floats depend on their order")
    return _Sum(loops, start, outer, _operation(outer, start.buffer), stmts[2:])


def _operation(outer: For, acc: Buffer) -> str:
    """The operation that joins the sum and each term; nothing else may be written inside."""
    inside = [stmt for stmt in statements(outer)]
    if not all(isinstance(stmt, (For, Seq, Store)) for stmt in inside):
        raise ScheduleError("share_sum: the sum is made under conditions")
    ops = {_joined_by(stmt, acc) for stmt in inside if isinstance(stmt, Store)}
    if ops not in ({"add"}, {"max"}):
        raise ScheduleError("share_sum: neither adds numbers nor finds the largest")
    if sum(a.buffer == acc for a in accesses(outer)) != 2:
        raise ScheduleError("share_sum: a term depends on the sum")
    return ops.pop()


def _joined_by(store: Store, acc: Buffer) -> str:
    """Operator by which a store adds a term to the sum; "" if it does something else."""
    value = store.value
    is_joined = isinstance(value, Binary) and value.left == Load(acc, (as_term(0),))
    return value.op if isinstance(value, Binary) and is_joined and store.buffer == acc else ""


class _Writer:
    """Writes the nest."""

    def __init__(self, found: _Sum, partial: Buffer) -> None:
        self.found, self.partial = found, partial
        self.parts, self.columns = partial.shape
        self.outputs = 1
        for loop in found.loops:
            self.outputs *= plain_extent(loop)
        self.block = Var("sum_block", 0, -(-self.outputs // self.columns))

    def stmt(self) -> Stmt:
        """All blocks."""
        body = sequence(self._parts(), self._ends())
        return For(self.block, as_term(0), as_term(self.block.stop), "block_x", body)

    def _parts(self) -> Stmt:
        part, column = Var("sum_part", 0, self.parts), Var("sum_column", 0, self.columns)
        acc, outer = self.found.acc, self.found.sum
        steps = plain_extent(outer) // self.parts
        first = as_term(part) * steps
        nothing = 0 if self.found.op == "add" else integer_range(acc.dtype)[0]
        body = sequence(
            Store(acc, (as_term(0),), Const(nothing, acc.dtype)),
            replace(outer, start=first, stop=first + steps),
            Store(self.partial, (as_term(part), as_term(column)), Load(acc, (as_term(0),))),
        )
        return self._threads(part, column, body)

    def _ends(self) -> Stmt:
        once, column = Var("sum_once", 0, 1), Var("sum_last", 0, self.columns)
        acc, number = self.found.acc, Var("sum_number", 0, self.parts)
        read = Load(self.partial, (as_term(number), as_term(column)))
        joined = Binary(self.found.op, Load(acc, (as_term(0),)), read)
        store = Store(acc, (as_term(0),), joined)
        loop = For(number, as_term(0), as_term(self.parts), "serial", store)
        return self._threads(once, column, sequence(self.found.start, loop, *self.found.rest))

    def _threads(self, part: Var, column: Var, body: Stmt) -> Stmt:
        """The body for each output of the block, by the threads of these indices."""
        output = as_term(self.block) * self.columns + column
        body = Substitute(self._places(output)).stmt(body)
        if self.outputs % self.columns:
            body = If(output, as_term(self.outputs), body)
        kinds: tuple[tuple[Var, BoundKind], ...] = ((column, "thread_x"), (part, "thread_y"))
        for var, kind in kinds:
            body = For(var, as_term(0), as_term(var.stop), kind, body)
        return body

    def _places(self, output: Term) -> Mapping[Var, TermLike]:
        return decoded(self.found.loops, output)
