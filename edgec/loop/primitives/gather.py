"""gather: copy the operands of a sum of products into their order of use."""

from __future__ import annotations

from edgec.errors import ScheduleError
from edgec.loop.ir import Buffer, IndexValue, Load, PrimFunc, Store
from edgec.loop.primitives.lookup import find_block, fresh, with_changes
from edgec.loop.primitives.sum_term import (
    SumTerm,
    declare_before,
    find_term,
    nest_of_copy,
    stored_as,
)
from edgec.loop.rewrite import subexpressions
from edgec.numerics.term import Var, as_term


def gather(
    func: PrimFunc, block: str, buffer: str, name: str, order: list[str], dtype: str
) -> tuple[PrimFunc, str]:
    """Before a sum of products, copy its elements of a buffer into their order of use.

        for h in 0..8 {                              for h in 0..8 {
          for c in 0..4 {                              for k in 0..3 {
            for k in 0..3 {                              block col(h, k) {
              block acc(h, c, k) {                         col[h, k] = x[2 * h + k]
                acc[h, c] = acc[h, c]           ->     } } }
                  + x[2 * h + k] * w[c, k]           for h in 0..8 {
        } } } }                                        for c in 0..4 {
                                                         for k in 0..3 {
                                                           block acc(h, c, k) {
                                                             acc[h, c] = acc[h, c]
                                                               + col[h, k] * w[c, k]
                                                     } } } }

    The copy has a dimension for each axis of the block in the read's indices, or for the axes in
    `order`. Its elements have the dtype `dtype` if it is given. Requires: these axes are loops from
    0 to a constant. Returns the name of the copy and of its block.
    """
    term = find_term("gather", func, block, buffer)
    name = fresh(func, name)
    axes = _axes(term, order)
    copy = Buffer(name, tuple(map(term.extent, axes)), dtype or term.source.dtype, "scratch")
    value = stored_as("gather", term.read, copy.dtype)
    read = Load(copy, tuple(as_term(var) for var in axes))
    func = with_changes(func, [(term.block, term.with_read(read, term.offset))])
    _, above = find_block(func, block)
    store = term.block.body
    assert isinstance(store, Store)
    return declare_before(func, copy, store.buffer, nest_of_copy(copy, axes, value), above), name


def _axes(term: SumTerm, order: list[str]) -> list[Var]:
    """The axes of the copy: the axes in the read's indices."""
    places = [p for p in subexpressions(term.read) if isinstance(p, (Load, IndexValue))]
    indices = [p.indices if isinstance(p, Load) else (p.term,) for p in places]
    used = {var for each in indices for index in each for var in index.variables()}
    known = {axis.var.name: axis.var for axis in term.block.axes}
    if not order:
        return [var for var in known.values() if var in used]
    if not {var.name for var in used} <= {*order} <= known.keys() or len({*order}) < len(order):
        raise ScheduleError(f"gather: {order} are not the axes that {term.block.name} reads by")
    return [known[name] for name in order]
