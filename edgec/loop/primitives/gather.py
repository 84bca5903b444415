"""gather: what a sum of products reads, one element after the other in the order of use."""

from __future__ import annotations

from edgec.loop.ir import Axis, Block, Buffer, For, IndexValue, Load, PrimFunc, Stmt, Store
from edgec.loop.primitives.lookup import find_block, fresh, with_changes
from edgec.loop.primitives.sum_term import declare_before, find_term
from edgec.loop.rewrite import subexpressions
from edgec.numerics.term import Var, as_term


def gather(func: PrimFunc, block: str, buffer: str, name: str) -> tuple[PrimFunc, str]:
    """Read the elements of a buffer that a sum of products takes before it, in the order of use.

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

    The copy has a dimension for each axis of the block on which the place depends. Requires: these
    are loops from 0 to a constant. Returns the name of the copy, which is also that of its block.
    """
    term = find_term("gather", func, block, buffer)
    name = fresh(func, name)
    places = [p for p in subexpressions(term.read) if isinstance(p, (Load, IndexValue))]
    used: set[Var] = set()
    for place in places:
        for index in place.indices if isinstance(place, Load) else (place.term,):
            used |= index.variables()
    axes = [axis.var for axis in term.block.axes if axis.var in used]
    extents = [term.extent(var) for var in axes]
    copy = Buffer(name, tuple(extents), term.source.dtype, "scratch")
    loops = [Var(f"{name}_{v.name}", 0, e) for v, e in zip(axes, extents, strict=True)]
    bound = tuple(Axis(v, "spatial", as_term(w)) for v, w in zip(axes, loops, strict=True))
    at = tuple(as_term(var) for var in axes)
    nest: Stmt = Block(name, bound, None, Store(copy, at, term.read))
    for loop in reversed(loops):
        nest = For(loop, as_term(0), as_term(loop.stop), "serial", nest)
    func = with_changes(func, [(term.block, term.with_read(Load(copy, at), term.offset))])
    _, above = find_block(func, block)
    store = term.block.body
    assert isinstance(store, Store)
    return declare_before(func, copy, store.buffer, nest, above), name
