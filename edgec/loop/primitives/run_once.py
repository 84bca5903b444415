"""run_once: run in a single thread each statement that is not spread over a GPU."""

from __future__ import annotations

from dataclasses import replace

from edgec.loop.bound import BOUND
from edgec.loop.ir import BoundKind, For, PrimFunc, Seq, Stmt
from edgec.loop.rewrite import statements
from edgec.numerics.term import Var, as_term


def run_once(func: PrimFunc) -> tuple[PrimFunc, None]:
    """Bind each statement of a function to one step of the indices that others are bound to.

        t[0] = 0                                    block_x for once0_block_x in 0..1 {
        block_x for i in 0..8 {                       thread_x for once0_thread_x in 0..1 {
          thread_x for j in 0..32 { ... }    ->         t[0] = 0
        }                                           } }
                                                    block_x for i in 0..8 {
                                                      thread_x for j in 0..32 { ... }
                                                    }

    A function without bound loops does not change: one thread runs it anyway.
    """
    stmts = func.body.stmts if isinstance(func.body, Seq) else (func.body,)
    bound = [_kinds(stmt) for stmt in stmts]
    every = frozenset[str]().union(*bound)
    found = [
        _once(stmt, number, every - own)
        for number, (stmt, own) in enumerate(zip(stmts, bound, strict=True))
    ]
    return replace(func, body=found[0] if len(found) == 1 else Seq(tuple(found))), None


def _kinds(stmt: Stmt) -> frozenset[str]:
    loops = (part for part in statements(stmt) if isinstance(part, For))
    return frozenset(loop.kind for loop in loops if loop.kind in BOUND)


def _once(stmt: Stmt, number: int, kinds: frozenset[str]) -> Stmt:
    missing: list[BoundKind] = [kind for kind in BOUND if kind in kinds]
    for kind in reversed(missing):
        stmt = For(Var(f"once{number}_{kind}", 0, 1), as_term(0), as_term(1), kind, stmt)
    return stmt
