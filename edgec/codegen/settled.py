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
    Branch,
    Cast,
    Const,
    Expr,
    For,
    If,
    IndexValue,
    Load,
    Select,
    Seq,
    Stmt,
    Store,
    While,
)
from edgec.loop.rewrite import Substitute, subexpressions
from edgec.numerics.term import Var, as_term


def leave_settled(stmt: Stmt) -> Stmt:
    """All such loops as loops that end; blocks must be gone."""
    if isinstance(stmt, Seq):
        return Seq(tuple(leave_settled(child) for child in stmt.stmts))
    if isinstance(stmt, (If, Branch)):
        otherwise = None if stmt.otherwise is None else leave_settled(stmt.otherwise)
        return replace(stmt, body=leave_settled(stmt.body), otherwise=otherwise)
    if isinstance(stmt, While):
        return replace(stmt, head=leave_settled(stmt.head), body=leave_settled(stmt.body))
    if not isinstance(stmt, For):
        return stmt
    found = _ending(stmt) if stmt.kind == "serial" else None
    return replace(stmt, body=leave_settled(stmt.body)) if found is None else found


def _ending(loop: For) -> While | None:
    """The loop as one that ends, where it may."""
    store, steps = loop.body, (loop.stop - loop.start).constant
    if not isinstance(store, Store) or not isinstance(store.value, Select) or steps is None:
        return None
    kept = store.value.yes
    is_own = isinstance(kept, Load) and (kept.buffer, kept.indices) == (store.buffer, store.indices)
    if not is_own or _counts(store, loop.var) or not _reads_only(store.value.condition, kept):
        return None
    going = _negated(store.value.condition)
    return While(Seq(()), going, replace(store, value=store.value.no), steps)


def _negated(condition: Expr) -> Expr:
    """Whether a condition does not hold; of floats that may be NaNs as `== 0`."""
    if isinstance(condition, Binary) and condition.op == "lt":
        left, right = condition.left, condition.right
        if not is_float(left.dtype):
            return Binary("le", right, left)
    return Binary("eq", condition, Const(0, "bool"))


def _counts(store: Store, var: Var) -> bool:
    """Whether a store uses the number of the step."""
    return Substitute({var: as_term(var.start - 1)}).stmt(store) != store


def _reads_only(condition: Expr, own: Expr) -> bool:
    """Whether a condition is made of an element and constants."""
    return all(
        part == own or isinstance(part, (Const, Binary, Cast, IndexValue))
        for part in subexpressions(condition)
    )
