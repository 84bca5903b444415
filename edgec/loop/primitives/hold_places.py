"""hold_places: find a place that data choose once for all elements that are read there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from edgec.errors import ScheduleError
from edgec.loop.ir import Buffer, Const, Expr, For, Gather, IndexValue, Load, PrimFunc, Stmt, Store
from edgec.loop.primitives.lookup import find_loop, fresh, with_changes
from edgec.loop.rewrite import Rewriter, expressions, sequence, statements, subexpressions
from edgec.numerics.term import Var, as_term


def hold_places(func: PrimFunc, loop: str) -> tuple[PrimFunc, list[str]]:
    """Hoist the computed indices of gathers that are the same in all iterations of a loop.

                                               place[0] = min(at[i], 49)
        for j in 0..8 {                        for j in 0..8 {
          y[i, j] = x[min(at[i], 49), j]  ->     y[i, j] = x[place[0], j]
        }                                      }

    Requires: there is such an index; blocks are lowered (`simplify`). Returns the names of the
    hoisted indices. The loop may overwrite their sources, since they are read before it.
    """
    target, _ = find_loop(func, loop)
    inside = {s.var for s in statements(target) if isinstance(s, For)}
    written = {s.buffer for s in statements(target) if isinstance(s, Store)}
    found = {
        index: None
        for gather in _gathers(target)
        for index in gather.indices
        if _is_same(index, inside, written)
    }
    if not found:
        raise ScheduleError(f"hold_places: loop {loop} has no place that data choose")
    held: dict[Expr, Buffer] = {}
    for index in found:
        name = fresh(replace(func, allocs=(*func.allocs, *held.values())), "place")
        held[index] = Buffer(name, (1,), "int32", "register")
    zero = (as_term(0),)
    stores = [Store(buffer, zero, index) for index, buffer in held.items()]
    made = with_changes(func, [(target, sequence(*stores, _Held(held).stmt(target)))])
    made = replace(made, allocs=(*made.allocs, *held.values()))
    return made, [buffer.name for buffer in held.values()]


class _Held(Rewriter):
    """Reads held places."""

    def __init__(self, held: dict[Expr, Buffer]) -> None:
        self._held = held

    def expr(self, expr: Expr) -> Expr:
        if isinstance(expr, Gather):
            places = tuple(
                Load(self._held[each], (as_term(0),)) if each in self._held else self.expr(each)
                for each in expr.indices
            )
            return Gather(expr.buffer, places)
        return super().expr(expr)


def _gathers(target: Stmt) -> Iterator[Gather]:
    for stmt in statements(target):
        for expr in expressions(stmt):
            yield from (part for part in subexpressions(expr) if isinstance(part, Gather))


def _is_same(index: Expr, inside: set[Var], written: set[Buffer]) -> bool:
    """Whether an index reads only values that no iteration of the loops changes."""
    if isinstance(index, (Const, IndexValue)):
        return False
    for part in subexpressions(index):
        terms = part.indices if isinstance(part, Load) else ()
        if isinstance(part, IndexValue):
            terms = (part.term,)
        if any(inside & set(term.variables()) for term in terms):
            return False
        if isinstance(part, (Load, Gather)) and part.buffer in written:
            return False
    return True
