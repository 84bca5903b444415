"""Clean up after scheduling: no blocks, small temporaries, no loop or condition that is decided.

1. `lower_blocks`: a block becomes its body, with the bindings in place of its axes; its init is
   guarded by "first step of every reduce loop" (schedules decompose the reduction to avoid that).
2. `compact_buffers`: a temporary whose uses all lie inside some loops keeps only the box that one
   iteration of these loops needs; dimensions of extent 1 go.
3. `drop_decided`: loops of one step, empty loops, conditions with a known outcome.
"""

from __future__ import annotations

from dataclasses import replace

from edgec.loop.access import accesses, region, term_range
from edgec.loop.ir import (
    Block,
    Buffer,
    Expr,
    For,
    If,
    Load,
    PrimFunc,
    Seq,
    Stmt,
    Store,
)
from edgec.loop.primitives.lookup import reduce_vars
from edgec.loop.rewrite import Rewriter, Substitute, prune, walk
from edgec.loop.term import Term, as_term


def simplify(func: PrimFunc) -> PrimFunc:
    """All three steps. The result holds no block and means the same."""
    func = replace(func, body=lower_blocks(func.body))
    func = replace(func, body=drop_decided(func.body))
    func = compact_buffers(func)
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
        return replace(stmt, body=lower_blocks(stmt.body, (*loops, stmt)))
    if isinstance(stmt, Seq):
        return Seq(tuple(lower_blocks(s, loops) for s in stmt.stmts))
    if isinstance(stmt, If):
        otherwise = None if stmt.otherwise is None else lower_blocks(stmt.otherwise, loops)
        return replace(stmt, body=lower_blocks(stmt.body, loops), otherwise=otherwise)
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


class _DropDecided(Rewriter):
    def __init__(self) -> None:
        self.loops: list[For] = []

    def loop(self, loop: For) -> Stmt:
        low, high = (loop.stop - loop.start).bounds()
        if high <= 0:
            return Seq(())
        if low == high == 1:
            return self.stmt(Substitute({loop.var: loop.start}).stmt(loop.body))
        self.loops.append(loop)
        body = self.stmt(loop.body)
        self.loops.pop()
        return replace(loop, body=body)

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, If):
            low, high = term_range(stmt.right - stmt.left, self.loops)
            if low >= 1:
                return self.stmt(stmt.body)
            if high <= 0:
                return Seq(()) if stmt.otherwise is None else self.stmt(stmt.otherwise)
        return super().stmt(stmt)

    def expr(self, expr: Expr) -> Expr:
        return expr


def drop_decided(stmt: Stmt) -> Stmt:
    """Remove loops of one step, empty loops and decided conditions."""
    return prune(_DropDecided().stmt(stmt))


def compact_buffers(func: PrimFunc) -> PrimFunc:
    """Shrink each temporary to the box that is live inside the loops around all its uses.

        alloc acc: register int32[64]            alloc acc: register int32[4]
        for o in 0..16 {                         for o in 0..16 {
          for i in 0..4 { acc[o*4 + i] = ..  ->    for i in 0..4 { acc[i] = ..
        } }                                      } }

    Needs blocks lowered. A buffer whose first use in an iteration is not a write is left alone,
    and so is one that is passed to a call.
    """
    for buffer in (*func.params, *func.allocs):
        if buffer.scope in ("scratch", "register"):
            func = _compact(func, buffer)
    return func


def _compact(func: PrimFunc, buffer: Buffer) -> PrimFunc:
    loops, home = _common_place(func.body, buffer)
    if home is None or not loops:
        return func
    touched = [a for a in accesses(home) if a.buffer == buffer]
    writes_first = isinstance(_first_store(home, buffer), Store)
    if any(a.indices is None for a in touched) or not writes_first:
        return func
    box = region(buffer, home, outer=loops)
    assert box is not None
    sizes = box.largest_extents()
    kept = [d for d, size in enumerate(sizes) if size > 1]
    shape = tuple(sizes[d] for d in kept) or (1,)
    if shape == buffer.shape:
        return func
    small = replace(buffer, shape=shape)
    change = _Reindex(buffer, small, box.starts, tuple(kept))
    return replace(
        func,
        params=tuple(small if p == buffer else p for p in func.params),
        allocs=tuple(small if a == buffer else a for a in func.allocs),
        body=change.stmt(func.body),
    )


def _common_place(body: Stmt, buffer: Buffer) -> tuple[list[For], Stmt | None]:
    """The loops around all uses of the buffer, and the smallest statement that holds all uses."""
    paths = [
        (*path, stmt)
        for stmt, path in walk(body)
        if not isinstance(stmt, (For, If, Seq)) and any(a.buffer == buffer for a in accesses(stmt))
    ]
    if not paths:
        return [], None
    common: list[Stmt] = []
    for level in zip(*paths, strict=False):
        if any(s is not level[0] for s in level):
            break
        common.append(level[0])
    while isinstance(common[-1], For):  # the loop itself is outside; what it runs is the place
        common.append(common[-1].body)
    return [s for s in common if isinstance(s, For)], common[-1]


def _first_store(stmt: Stmt, buffer: Buffer) -> Stmt | None:
    """The first use of the buffer in order of execution: a store, or None if it reads first."""
    for child, _ in walk(stmt):
        if isinstance(child, (For, If, Seq)):
            continue
        found = [a.is_write for a in accesses(child) if a.buffer == buffer]
        if found:
            return child if found[0] else None
    return None


class _Reindex(Rewriter):
    def __init__(
        self, old: Buffer, new: Buffer, starts: tuple[Term, ...], kept: tuple[int, ...]
    ) -> None:
        self.old, self.new, self.starts, self.kept = old, new, starts, kept

    def _indices(self, indices: tuple[Term, ...]) -> tuple[Term, ...]:
        return tuple(indices[d] - self.starts[d] for d in self.kept) or (as_term(0),)

    def load(self, load: Load) -> Expr:
        if load.buffer != self.old:
            return load
        return Load(self.new, self._indices(load.indices))

    def store(self, store: Store) -> Stmt:
        value = self.expr(store.value)
        if store.buffer != self.old:
            return replace(store, value=value)
        return Store(self.new, self._indices(store.indices), value)


class _Unroll(Rewriter):
    def loop(self, loop: For) -> Stmt:
        extent = (loop.stop - loop.start).constant
        if loop.kind != "unrolled" or extent is None:
            return super().loop(loop)
        steps = [
            self.stmt(Substitute({loop.var: loop.start + step}).stmt(loop.body))
            for step in range(extent)
        ]
        return Seq(tuple(steps))


def expand_unrolled(stmt: Stmt) -> Stmt:
    """Write out the steps of unrolled loops; blocks must be lowered before.

    unrolled for i in 0..2 { acc[i] = 0 }    ->    acc[0] = 0
                                                   acc[1] = 0
    """
    return drop_decided(_Unroll().stmt(stmt))
