"""Clean up after scheduling: no blocks, small temporaries, no loop or condition that is decided.

1. `lower_blocks`: a block becomes its body, with the bindings in place of its axes; its init is
   guarded by "first step of every reduce loop" (schedules decompose the reduction to avoid that).
2. `compact_buffers`: a temporary whose uses all lie inside some loops keeps only the box that one
   iteration of these loops needs; dimensions of extent 1 go.
3. `drop_decided`: loops of one step, empty loops, conditions with a known outcome.
"""

from __future__ import annotations

from dataclasses import replace

from edgec.loop.access import term_range
from edgec.loop.bound import BOUND
from edgec.loop.compact import compact_buffers, private_buffers
from edgec.loop.ir import Block, Branch, For, If, PrimFunc, Seq, Stmt, While, remembered
from edgec.loop.primitives.lookup import reduce_vars
from edgec.loop.rewrite import StatementRewriter, Substitute, prune
from edgec.numerics.term import as_term


@remembered
def simplify(func: PrimFunc) -> PrimFunc:
    """All three steps. The result holds no block and means the same.

    for i in 0..8 {                                   for i in 0..8 {
      for j in 0..1 {                                   t[0] = x[i] * 3
        block a(c: spatial = i) { t[c] = x[c] * 3 }  ->   y[i] = t[0] + 1
        block b(c: spatial = i) { y[c] = t[c] + 1 }     }
    } }
    """
    private = private_buffers(func)
    func = replace(func, body=drop_decided(lower_blocks(func.body)))
    func = compact_buffers(func, private)
    return replace(func, body=drop_decided(func.body))


def lower_blocks(stmt: Stmt, loops: tuple[For, ...] = ()) -> Stmt:
    """Put every block's body, and its guarded init, in its place.

    for k in 0..9 {                          for k in 0..9 {
      block b(i: reduce = k) {                 if k < 1 {
        init { acc[0] = 0 }           ->         acc[0] = 0
        acc[0] = acc[0] + x[i]                 }
    } }                                        acc[0] = acc[0] + x[k]
                                             }
    """
    if isinstance(stmt, For):
        body = lower_blocks(stmt.body, (*loops, stmt))
        return For(stmt.var, stmt.start, stmt.stop, stmt.kind, body)
    if isinstance(stmt, Seq):
        return Seq(tuple(lower_blocks(s, loops) for s in stmt.stmts))
    if isinstance(stmt, If | Branch):
        otherwise = None if stmt.otherwise is None else lower_blocks(stmt.otherwise, loops)
        return replace(stmt, body=lower_blocks(stmt.body, loops), otherwise=otherwise)
    if isinstance(stmt, While):
        head, body = lower_blocks(stmt.head, loops), lower_blocks(stmt.body, loops)
        return replace(stmt, head=head, body=body)
    if isinstance(stmt, Block):
        bind = Substitute({a.var: a.binding for a in stmt.axes})
        body = lower_blocks(bind.stmt(stmt.body), loops)
        if stmt.init is None:
            return body
        init = lower_blocks(bind.stmt(stmt.init), loops)
        steps = reduce_vars(stmt)
        for loop in reversed(loops):
            if loop.var in steps:
                init = If(as_term(loop.var), loop.start + 1, init)
        return prune(Seq((init, body)))
    return stmt


class _DropDecided(StatementRewriter):
    def __init__(self) -> None:
        self.loops: list[For] = []

    def loop(self, loop: For) -> Stmt:
        low, high = (loop.stop - loop.start).bounds()
        if high <= 0:
            return Seq(())
        if low == high == 1 and loop.kind not in BOUND:  # which says whose step it is
            return self.stmt(Substitute({loop.var: loop.start}).stmt(loop.body))
        self.loops.append(loop)
        new = super().stmt(loop)
        self.loops.pop()
        return new

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, For):
            return self.loop(stmt)
        if isinstance(stmt, If):
            low, high = term_range(stmt.right - stmt.left, self.loops)
            if low >= 1:
                return self.stmt(stmt.body)
            if high <= 0:
                return Seq(()) if stmt.otherwise is None else self.stmt(stmt.otherwise)
        return super().stmt(stmt)


def drop_decided(stmt: Stmt) -> Stmt:
    """Remove loops of one step, empty loops and decided conditions."""
    return prune(_DropDecided().stmt(stmt))
