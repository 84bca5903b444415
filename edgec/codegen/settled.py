"""Leave a loop as soon as it changes nothing any more.

    for level in 0..9:                            repeat at most 9 times:
        at = at < 0 ? at : child[at]       ->         if not 0 <= at: leave
                                                      at = child[at]

That needs a loop of one store, which keeps its own element under a condition that reads nothing
but this element and constants, and a step whose number is not used: once the condition holds, it
holds for all steps that are left. So a walk down a tree ends at its leaf.
"""

from __future__ import annotations

from dataclasses import replace

from edgec.loop.dtype import is_float
from edgec.loop.ir import (
    Binary,
    Cast,
    Const,
    Expr,
    For,
    IndexValue,
    Load,
    Select,
    Seq,
    Stmt,
    Store,
    While,
)  # fmt: skip
from edgec.loop.rewrite import Rewriter, Substitute, subexpressions
from edgec.numerics.term import as_term


class LeaveSettled(Rewriter):
    """Let such loops end early; blocks must be lowered."""

    def store(self, store: Store) -> Stmt:
        return store

    def loop(self, loop: For) -> Stmt:
        """A loop that ends, where it may."""
        store, steps = loop.body, loop.extent
        if loop.kind != "serial" or not isinstance(store, Store) or steps is None:
            return super().loop(loop)
        uncounted = Substitute({loop.var: as_term(loop.var.start - 1)}).stmt(store)
        kept = _kept(store) if uncounted == store else None
        if kept is None:
            return loop
        return While(Seq(()), _negated(kept.condition), replace(store, value=kept.no), steps)


def _kept(store: Store) -> Select | None:
    """The choice that leaves an element unchanged, depending only on itself and constants."""
    match store.value:
        case Select(condition, yes, _) if yes == Load(store.buffer, store.indices):
            reads = (part for part in subexpressions(condition) if part != yes)
            if all(isinstance(part, (Const, Binary, Cast, IndexValue)) for part in reads):
                return store.value
    return None


def _negated(condition: Expr) -> Expr:
    """Whether a condition does not hold; of floats, which may be NaNs, as `== 0`."""
    match condition:
        case Binary("lt", left, right) if not is_float(left.dtype):
            return Binary("le", right, left)
    return Binary("eq", condition, Const(0, "bool"))
