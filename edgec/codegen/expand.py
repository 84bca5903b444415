"""Expand a loop nest to statements that C has: no blocks, no unrolled loops, no decided conditions.

  for oc in 0..2 unrolled:                  acc[0] = 0
      Block(axes o = oc):           ->      acc[1] = 0
          acc[o] = 0

1. A block's axes are replaced by their bindings; its init becomes an `if` on the first step of
   its reduce loops, or no condition if that is known.
2. Unrolled loops of constant extent are written out; loops of one step lose their `for`, except
   loops bound to one thread of a GPU.
3. Conditions that the bounds of their terms decide are taken or dropped, and choices by the
   number of a step.
4. Loops end when they change nothing any more (`settled.py`).
5. Two loops that walk evenly through everything become one (`collapse.py`). Remaining statements
   are loops (serial, vectorized, parallel), If, Branch, While, Store, Call and Seq.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgec.codegen.collapse import collapse
from edgec.codegen.settled import LeaveSettled
from edgec.loop.bound import BOUND
from edgec.loop.ir import (
    Binary,
    Block,
    Branch,
    Call,
    Const,
    Expr,
    For,
    If,
    IndexValue,
    PrimFunc,
    Select,
    Seq,
    Stmt,
    Store,
    Sync,
    While,
)
from edgec.loop.rewrite import Substitute
from edgec.numerics.term import Term, Var, as_term

# The condition "first step" of a variable: pairs (value, start) that must be equal, or None for
# a variable that is certainly beyond its first step.
_First = tuple[tuple[Term, Term], ...] | None


def expand(func: PrimFunc) -> tuple[Stmt, ...]:
    """The function's body as a flat list of statements."""
    return tuple(
        collapse(LeaveSettled().stmt(stmt)) for stmt in _Expander().stmts(func.body, {}, {})
    )


class _Decided(Substitute):
    """Puts in the numbers of the steps, and decides the conditions that follow from them."""

    def expr(self, expr: Expr) -> Expr:
        found = super().expr(expr)
        match found:
            case Select(Binary("eq", IndexValue(term), Const(number)), yes, no):
                if term.constant is not None:
                    return yes if term.constant == number else no
        return found


class _Expander:
    def stmts(
        self, stmt: Stmt, values: Mapping[Var, Term], first: Mapping[Var, _First]
    ) -> list[Stmt]:
        if isinstance(stmt, Seq):
            return [new for child in stmt.stmts for new in self.stmts(child, values, first)]
        if isinstance(stmt, For):
            return self._loop(stmt, values, first)
        if isinstance(stmt, Block):
            return self._block(stmt, values, first)
        if isinstance(stmt, If):
            return self._if(stmt, values, first)
        if isinstance(stmt, Branch):
            parts = (stmt.body, stmt.otherwise or Seq(()))
            body, otherwise = (self.stmts(part, values, first) for part in parts)
            condition = _Decided(values).expr(stmt.condition)
            return [Branch(condition, _joined(body), _joined(otherwise) if otherwise else None)]
        if isinstance(stmt, While):
            head, body = (self.stmts(part, values, first) for part in (stmt.head, stmt.body))
            condition = _Decided(values).expr(stmt.condition)
            return [While(_joined(head), condition, _joined(body), stmt.limit)]
        assert isinstance(stmt, (Store, Call, Sync))
        return [_Decided(values).stmt(stmt) if values else stmt]

    def _loop(
        self, loop: For, values: Mapping[Var, Term], first: Mapping[Var, _First]
    ) -> list[Stmt]:
        start, stop = loop.start.substitute(values), loop.stop.substitute(values)
        extent = (stop - start).constant
        is_straight = (extent is not None and extent <= 0) or loop.kind == "unrolled"
        if extent is not None and (is_straight or (extent == 1 and loop.kind not in BOUND)):
            result = []
            for step in range(extent):
                inner = {**values, loop.var: start + step}
                result += self.stmts(loop.body, inner, {**first, loop.var: None if step else ()})
            return result
        here: _First = ((as_term(loop.var), start),)
        # A variable that an outer, substituted loop had too must not keep the outer value.
        inner = {var: value for var, value in values.items() if var != loop.var}
        body = self.stmts(loop.body, inner, {**first, loop.var: here})
        kind = "serial" if loop.kind == "unrolled" else loop.kind
        return [For(loop.var, start, stop, kind, _joined(body))] if body else []

    def _block(
        self, block: Block, values: Mapping[Var, Term], first: Mapping[Var, _First]
    ) -> list[Stmt]:
        inner = dict(values)
        inner_first = dict(first)
        reduce_first: _First = ()
        for axis in block.axes:
            inner[axis.var] = axis.binding.substitute(values)
            condition: _First = ()
            for var in sorted(axis.binding.variables(), key=lambda v: v.name):
                condition = _both(condition, first.get(var, ()))
            inner_first[axis.var] = condition
            if axis.kind == "reduce":
                reduce_first = _both(reduce_first, condition)
        result: list[Stmt] = []
        if block.init is not None and reduce_first is not None:
            init = self.stmts(block.init, inner, inner_first)
            for value, start in reversed(reduce_first):
                init = self._guarded(value, start + 1, init)
            result += init
        return result + self.stmts(block.body, inner, inner_first)

    def _guarded(self, left: Term, right: Term, body: list[Stmt]) -> list[Stmt]:
        low, high = (right - left).bounds()
        if low > 0:
            return body
        return [If(left, right, _joined(body))] if high > 0 else []

    def _if(self, stmt: If, values: Mapping[Var, Term], first: Mapping[Var, _First]) -> list[Stmt]:
        left, right = stmt.left.substitute(values), stmt.right.substitute(values)
        low, high = (right - left).bounds()
        if low > 0:
            return self.stmts(stmt.body, values, first)
        otherwise = [] if stmt.otherwise is None else self.stmts(stmt.otherwise, values, first)
        if high <= 0:
            return otherwise
        body = self.stmts(stmt.body, values, first)
        if not body and not otherwise:
            return []
        return [If(left, right, _joined(body), _joined(otherwise) if otherwise else None)]


def _joined(stmts: list[Stmt]) -> Stmt:
    return stmts[0] if len(stmts) == 1 else Seq(tuple(stmts))


def _both(a: _First, b: _First) -> _First:
    if a is None or b is None:
        return None
    return (*a, *(pair for pair in b if pair not in a))
