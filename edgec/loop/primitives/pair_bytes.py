"""pair_bytes: two int8 of a temporary as one int16, the first of which has no sign."""

from __future__ import annotations

from dataclasses import replace

from edgec.errors import ScheduleError
from edgec.loop.access import accesses
from edgec.loop.gathered import input_of, offset_pair
from edgec.loop.ir import Buffer, Cast, Expr, Load, PrimFunc, Store
from edgec.loop.primitives.compute_at import require_temporary
from edgec.loop.primitives.lookup import find_block, find_buffer, loops_on, with_changes
from edgec.loop.rewrite import Rewriter, Substitute
from edgec.loop.values import ExprValue
from edgec.numerics.term import as_term


def pair_bytes(func: PrimFunc, buffer: str) -> tuple[PrimFunc, None]:
    """Store the two elements along a temporary's last dimension as one int16 (`offset_pair`).

        for col_q in 0..8 {                    for col_q in 0..8 {
          for col_s in 0..2 {                    block col(q) {
            block col(q, s) {             ->       col[q] = x[2 * q + 1] * 256 + x[2 * q] + 128
              col[q, s] = x[2 * q + s]         } }
        } } }
        .. = int32(col[q, s])                  .. = s < 1 ? (col[q] & 255) - 128 : col[q] >> 8

    as bytes lie in memory, but for the offset of every second one: an instruction that widens
    unsigned bytes then needs no other before it. Requires: a block of the buffer's name makes all
    of it, its last axis the innermost loop, and all reads widen to int32.
    """
    old, (block, above) = find_buffer(func, buffer), find_block(func, buffer)
    require_temporary("pair_bytes", buffer, old)
    store, loop, axis = block.body, loops_on(*above)[-1], block.axes[-1]
    own = tuple(as_term(each.var) for each in block.axes)
    is_own = isinstance(store, Store) and (store.buffer, store.indices) == (old, own)
    if not is_own or old.dtype != "int8" or (old.shape[-1], axis.binding) != (2, as_term(loop.var)):
        raise ScheduleError(f"pair_bytes: {buffer} does not end in the two steps of a loop")
    assert isinstance(store, Store)
    new = replace(old, shape=old.shape[:-1], dtype="int16")
    even, odd = (ExprValue(Substitute({axis.var: at}).expr(store.value)) for at in (0, 1))
    pair = offset_pair(even, odd)
    assert isinstance(pair, ExprValue)
    made = replace(block, axes=block.axes[:-1], body=Store(new, own[:-1], pair.expr))
    func = with_changes(func, [(loop, made)])
    body = _Unpaired(old, new).stmt(func.body)
    if any(access.buffer == old for access in accesses(body)):
        raise ScheduleError(f"pair_bytes: not all reads of {buffer} widen to int32")
    params, allocs = (
        tuple(new if b == old else b for b in buffers) for buffers in (func.params, func.allocs)
    )
    return replace(func, params=params, allocs=allocs, body=body), None


class _Unpaired(Rewriter):
    def __init__(self, old: Buffer, new: Buffer) -> None:
        self.old, self.new = old, new

    def expr(self, expr: Expr) -> Expr:
        read = expr.value if isinstance(expr, Cast) and expr.dtype == "int32" else None
        if isinstance(read, Load) and read.buffer == self.old:
            value = input_of(ExprValue(Load(self.new, read.indices[:-1])), read.indices[-1])
            assert isinstance(value, ExprValue)
            return value.expr
        return super().expr(expr)
