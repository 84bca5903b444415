"""compute_inline: put a temporary's formula where it is read."""

from __future__ import annotations

from dataclasses import replace

from edgec.errors import ScheduleError
from edgec.loop.access import accesses, count_uses, reads
from edgec.loop.dtype import integer_range, is_integer
from edgec.loop.ir import Buffer, Cast, Expr, Load, PrimFunc, Stmt, Store
from edgec.loop.primitives.compute_at import require_stable, require_temporary
from edgec.loop.primitives.lookup import find_block, with_changes
from edgec.loop.primitives.nests import own_nest, plain_axis, writers
from edgec.loop.rewrite import Rewriter, Substitute, with_constants
from edgec.numerics.term import Term, Var


def compute_inline(func: PrimFunc, block: str) -> tuple[PrimFunc, None]:
    """Remove a temporary: compute each element where it is read.

        for i in 0..16 {                           for j in 0..16 {
          block t(a: spatial = i) {                  block u(a: spatial = j) {
            t[a] = x[a] * 2                            u[a] = x[15 - a] * 2 + 1
        } }                                  ->    } }
        for j in 0..16 {
          block u(a: spatial = j) {
            u[a] = t[15 - a] + 1
        } }

    Requires: the block is one store to a temporary at its own axes, does not reduce, and the
    temporary is read at known indices.
    """
    found, _ = find_block(func, block)
    store = found.body
    if not isinstance(store, Store) or found.init is not None:
        raise ScheduleError(f"compute_inline: block {block} is not one store")
    buffer = store.buffer
    require_temporary("compute_inline", block, buffer)
    if len(writers(func, buffer)) != 1 or buffer in reads(found):
        raise ScheduleError(f"compute_inline: {buffer.name} is not made by one store alone")
    axes: list[Var | None] = []
    for index in store.indices:
        plain = plain_axis(index)
        if index.constant is None and (plain is None or plain[1]):
            raise ScheduleError(f"compute_inline: block {block} stores at {index}, not at an axis")
        axes.append(None if plain is None else plain[0])
    if any(a.indices is None for a in accesses(func.body, of=(buffer,))):
        raise ScheduleError(f"compute_inline: {buffer.name} is read at indices that data choose")
    if {a.var for a in found.axes if a.var.stop - a.var.start > 1} - set(axes):
        raise ScheduleError(f"compute_inline: block {block} has an axis that is not an index")
    nest = own_nest(func, block)
    require_stable("compute_inline", func, [nest], reads(found))
    removed = with_changes(func, [(nest.root, None)])
    body: Stmt = _Inline(buffer, axes, store.value).stmt(removed.body)
    if count_uses(body, buffer):
        raise ScheduleError(f"compute_inline: {buffer.name} is still used")
    return replace(
        removed,
        params=tuple(p for p in func.params if p != buffer),
        allocs=tuple(a for a in func.allocs if a != buffer),
        body=body,
    ), None


class _Inline(Rewriter):
    def __init__(self, buffer: Buffer, axes: list[Var | None], value: Expr) -> None:
        self.temporary, self.axes, self.value = buffer, axes, value

    def expr(self, expr: Expr) -> Expr:
        is_own = isinstance(expr, Cast) and isinstance(expr.value, Load)
        made = super().expr(expr)
        return _without_limits_twice(made) if is_own else made

    def load(self, load: Load) -> Expr:
        if load.buffer != self.temporary:
            return load
        values: dict[Var, Term] = {
            axis: index
            for axis, index in zip(self.axes, load.indices, strict=True)
            if axis is not None
        }
        return Substitute(values).expr(self.value)


def _without_limits_twice(expr: Expr) -> Expr:
    """Remove a cast to a narrower dtype and back from a value limited to that dtype."""
    inner = expr.value if isinstance(expr, Cast) and is_integer(expr.value.dtype) else None
    if not isinstance(inner, Cast) or inner.value.dtype != expr.dtype:
        return expr
    found, (low, high) = with_constants(inner.value, "min", "max"), integer_range(inner.dtype)
    return inner.value if found and low <= found[1][1] <= found[1][0] <= high else expr
