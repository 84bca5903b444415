"""Make one loop of two that together walk evenly through everything they touch.

    for h in 0..32:                              for h_w in 0..1024:
        for w in 0..32:                 ->           out[h_w] = f(x[h_w])
            out[h * 32 + w] = f(x[h * 32 + w])

That needs two loops nested with nothing between them, a constant extent inside, and in every
index, bound and condition below a coefficient of the outer variable that is the inner extent times
the inner one. The order of execution stays the same. A convolution's window row and its channels
become one long inner loop, and an elementwise layer becomes flat.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from edgec.loop.access import flat_term
from edgec.loop.ir import Branch, Buffer, BufferRef, Expr, For, If, Load, Seq, Stmt, Store, While
from edgec.loop.rewrite import Rewriter, Substitute
from edgec.numerics.term import Term, Var, as_term


def collapse(stmt: Stmt) -> Stmt:
    """Collapse all pairs of loops that allow it, innermost first; blocks must be gone."""
    if isinstance(stmt, Seq):
        return Seq(tuple(collapse(child) for child in stmt.stmts))
    if isinstance(stmt, (If, Branch)):
        otherwise = None if stmt.otherwise is None else collapse(stmt.otherwise)
        return replace(stmt, body=collapse(stmt.body), otherwise=otherwise)
    if isinstance(stmt, While):
        return replace(stmt, head=collapse(stmt.head), body=collapse(stmt.body))
    return _joined(replace(stmt, body=collapse(stmt.body))) if isinstance(stmt, For) else stmt


def _joined(outer: For) -> For:
    """The loop joined with the loop that is its body, if possible."""
    body = outer.body
    if not isinstance(body, For) or outer.kind != "serial" or body.kind != "serial":
        return outer
    extent = body.stop.constant
    if body.start.constant != 0 or extent is None or not _is_even(outer.var, body, extent):
        return outer
    start, stop = outer.start * extent, outer.stop * extent
    name = _joined_name(outer.var.name, body.var.name)
    var = Var(name, start.bounds()[0], stop.bounds()[1])
    flat = Substitute({outer.var: as_term(0), body.var: _plain(var)}).stmt(body.body)
    return For(var, start, stop, "serial", flat)


def _plain(var: Var) -> Term:
    """The variable as a term, also where its bounds allow one value only."""
    return Term(((var, 1),), 0)


def _is_even(outer: Var, inner: For, extent: int) -> bool:
    terms = _Terms()
    terms.stmt(inner.body)
    for term in terms.found:
        coefficients = dict(term.parts)
        if coefficients.get(outer, 0) != extent * coefficients.get(inner.var, 0):
            return False
        for atom in coefficients:
            if isinstance(atom, Var):
                continue
            if {outer, inner.var} & Term(((atom, 1),), 0).variables():
                return False
    return True


class _Terms(Rewriter):
    """Collects the terms that must advance evenly: flat offsets of elements, and all other index
    terms.

    Only an element's flat offset counts, since C sees nothing else: afterwards an index may exceed
    its dimension.
    """

    def __init__(self) -> None:
        self.found: set[Term] = set()

    def term(self, term: Term) -> Term:
        if term.parts:
            self.found.add(term)
        return term

    def place(self, buffer: Buffer, indices: Sequence[Term]) -> None:
        """The flat offset, or where extents are open its parts between these."""
        starts = [0, len(indices)]
        if buffer.extents is not None:
            starts[1:1] = [axis for axis, term in enumerate(buffer.extents) if axis and term.parts]
        for start, stop in itertools.pairwise(starts):
            self.term(flat_term(indices[start:stop], buffer.shape[start:stop]))

    def load(self, load: Load) -> Expr:
        self.place(load.buffer, load.indices)
        return load

    def store(self, store: Store) -> Stmt:
        self.place(store.buffer, store.indices)
        self.expr(store.value)
        return store

    def argument(self, argument: BufferRef | Expr) -> BufferRef | Expr:
        if isinstance(argument, BufferRef):
            self.place(argument.buffer, argument.indices)
            return argument
        return super().argument(argument)


def _joined_name(outer: str, inner: str) -> str:
    """`acc_kw` and `acc_ic_o` make `acc_kw_ic_o`."""
    first, second = outer.split("_"), inner.split("_")
    while len(second) > 1 and first[0] == second[0]:
        first, second = first[1:], second[1:]
        if not first:
            break
    return f"{outer}_{'_'.join(second)}"
