"""store_over: store a value over the temporary that it is made of."""

from __future__ import annotations

import re
from dataclasses import replace

from edgec.errors import ScheduleError
from edgec.loop.access import accesses
from edgec.loop.ir import Buffer, PrimFunc, Stmt
from edgec.loop.primitives.compute_at import require_temporary
from edgec.loop.primitives.lookup import Path, find_buffer, loops_on
from edgec.loop.primitives.nests import own_nest, writers, written_buffer
from edgec.loop.rewrite import ReplaceBuffer, walk
from edgec.numerics.term import as_term


def store_over(func: PrimFunc, block: str, buffer: str) -> tuple[PrimFunc, None]:
    """Store a block's input in the buffer of its output, which replaces it element by element.

        for i in 0..8 { part[i] = f(a[i]) }              for i in 0..8 { out[i] = f(a[i]) }
        for j in 0..8 {                           ->     for j in 0..8 {
          out[j] = part[j] + g(b[j])                       out[j] = out[j] + g(b[j])
        }                                                }

    A kernel that adds to its output can then compute the block. Requires: both are temporaries of
    one shape and dtype; only the block reads the input and writes the output, each element once and
    at its own index; it stands beside the input's producer and before all readers of the output.
    """
    old, nest = find_buffer(func, buffer), own_nest(func, block)
    new = written_buffer(nest.block)
    require_temporary("store_over", block, old)
    require_temporary("store_over", block, new)
    if new != replace(old, name=new.name) or new == old:
        raise ScheduleError(f"store_over: {new.name} is not like {buffer}")
    own, order = (_order(stmt, old, new) for stmt in (nest.root, func.body))
    in_turn = re.fullmatch("w+r+WR*", order) and own == order.strip("wR")
    place = tuple(as_term(loop.var) for loop in loops_on(*nest.around))
    is_own = all(a.indices == place for a in accesses(nest.root, of=(old, new)))
    roots = [own_nest(func, each.name).root for each in writers(func, old)]
    above = _above(func, nest.root)
    if not in_turn or not is_own or any(_above(func, root) != above for root in roots):
        raise ScheduleError(f"store_over: {block} does not make {new.name} of {buffer} alone")
    params, allocs = (tuple(b for b in each if b != old) for each in (func.params, func.allocs))
    body = ReplaceBuffer({old: new}).stmt(func.body)
    return replace(func, params=params, allocs=allocs, body=body), None


def _order(stmt: Stmt, old: Buffer, new: Buffer) -> str:
    """Each access in turn: w and r to write and read the one buffer, W and R the other."""
    signs = {(old, True): "w", (old, False): "r", (new, True): "W", (new, False): "R"}
    return "".join(signs[a.buffer, a.is_write] for a in accesses(stmt, of=(old, new)))


def _above(func: PrimFunc, root: Stmt) -> Path:
    return next(path for stmt, path in walk(func.body) if stmt is root)
