"""cache_read and cache_write: go through a small copy of a buffer inside a loop."""

from __future__ import annotations

from dataclasses import replace

from edgec.errors import ScheduleError
from edgec.loop.access import Region, accesses, reads, region, writes
from edgec.loop.ir import Axis, Block, Buffer, For, If, Load, PrimFunc, Scope, Seq, Stmt, Store
from edgec.loop.primitives.lookup import (
    blocks_inside,
    find_buffer,
    find_loop,
    fresh,
    loops_on,
    reduce_vars,
    with_changes,
)
from edgec.loop.primitives.nests import require_box
from edgec.loop.rewrite import ReplaceBuffer, sequence, statements
from edgec.numerics.term import Term, Var, as_term


def cache_read(
    func: PrimFunc, buffer: str, loop: str, scope: Scope = "register"
) -> tuple[PrimFunc, str]:
    """Copy the elements of a buffer that one iteration of a loop reads, and read the copy.

        for k in 0..9 {                      for k in 0..9 {
          for i in 0..4 {                      block x_cache(d0: spatial = k) {
            block a(i: .. = i, k: .. = k) {      x_cache[d0] = x[d0]
              y[i] = y[i] + x[k]       ->      }
        } } }                                  for i in 0..4 {
                                                 block a(i: .. = i, k: .. = k) {
                                                   y[i] = y[i] + x_cache[k]
                                             } } }

    Requires: the loop does not write the buffer, and reads it at indices that are known.
    Returns the name of the copy, which is also the name of the copying block.
    """
    source = find_buffer(func, buffer)
    target, above = find_loop(func, loop)
    used = [a for a in accesses(target.body, of=(source,))]
    if not used:
        raise ScheduleError(f"cache_read: loop {loop} does not read {buffer}")
    if any(a.is_write for a in used):
        raise ScheduleError(f"cache_read: loop {loop} writes {buffer}")
    if any(a.indices is None for a in used):
        raise ScheduleError(f"cache_read: loop {loop} reads {buffer} at indices that data choose")
    box = region(source, target.body, outer=loops_on(*above, target))
    assert box is not None
    cache = Buffer(fresh(func, f"{buffer}_cache"), source.shape, source.dtype, scope)
    copy = _copy(cache.name, box, into=cache, out_of=source)
    body = sequence(copy, ReplaceBuffer({source: cache}).stmt(target.body))
    func = with_changes(func, [(target, replace(target, body=body))])
    return _declare(func, cache), cache.name


def cache_write(
    func: PrimFunc, buffer: str, loop: str, scope: Scope = "register"
) -> tuple[PrimFunc, str]:
    """Write to a copy of a buffer's part in each iteration of a loop, and copy it out at the end.

        for i in 0..4 {                      for i in 0..4 {
          for k in 0..9 {                      for k in 0..9 {
            block a(i: .. = i, k: .. = k) {      block a(i: .. = i, k: .. = k) {
              init { y[i] = 0 }                    init { y_cache[i] = 0 }
              y[i] = y[i] + x[k]       ->          y_cache[i] = y_cache[i] + x[k]
        } } }                                  } }
                                               block y_cache(d0: spatial = i) {
                                                 y[d0] = y_cache[d0]
                                             } }

    Requires: a step of the loop writes every element it reads before reading it, and writes a box
    of the buffer without gaps, under no condition. Returns the name of the copy, which is also the
    block's name.
    """
    out = find_buffer(func, buffer)
    target, above = find_loop(func, loop)
    used = [a for a in accesses(target.body, of=(out,))]
    if not any(a.is_write for a in used):
        raise ScheduleError(f"cache_write: loop {loop} does not write {buffer}")
    if any(a.indices is None for a in used):
        raise ScheduleError(f"cache_write: loop {loop} uses {buffer} at indices that data choose")
    if not used[0].is_write:
        raise ScheduleError(f"cache_write: loop {loop} reads {buffer} before it writes it")
    if any(isinstance(stmt, If) and out in writes(stmt) for stmt in statements(target.body)):
        raise ScheduleError(f"cache_write: loop {loop} writes {buffer} under a condition")
    outside = {s.var for s in loops_on(*above, target)}
    for block in blocks_inside(target.body):
        if out in reads(block) and reduce_vars(block) & outside:
            raise ScheduleError(
                f"cache_write: block {block.name} accumulates in {buffer} over several steps of "
                f"loop {loop} or of loops around it"
            )
    for access in used:
        if access.is_write:
            require_box(access)
    box = region(out, target.body, outer=loops_on(*above, target), only="writes")
    assert box is not None
    cache = Buffer(fresh(func, f"{buffer}_cache"), out.shape, out.dtype, scope)
    copy = _copy(cache.name, box, into=out, out_of=cache)
    body = sequence(ReplaceBuffer({out: cache}).stmt(target.body), copy)
    func = with_changes(func, [(target, replace(target, body=body))])
    return _declare(func, cache), cache.name


def _declare(func: PrimFunc, buffer: Buffer) -> PrimFunc:
    if buffer.scope == "register":
        return replace(func, allocs=(*func.allocs, buffer))
    return replace(func, params=(*func.params, buffer))


def _copy(name: str, box: Region, *, into: Buffer, out_of: Buffer) -> Stmt:
    """The nest of a block that copies a box, one loop per dimension that has several elements."""
    axes: list[Axis] = []
    loops: list[For] = []
    for d, (start, extent) in enumerate(zip(box.starts, box.extents(), strict=True)):
        position: Term = start
        if extent.constant != 1:
            var = Var(f"{name}_d{d}", 0, max(extent.bounds()[1], 1))
            loops.append(For(var, as_term(0), extent, "serial", Seq(())))
            position = start + as_term(var)
        axes.append(Axis(Var(f"d{d}", 0, into.shape[d]), "spatial", position))
    indices = tuple(as_term(a.var) for a in axes)
    stmt: Stmt = Block(name, tuple(axes), None, Store(into, indices, Load(out_of, indices)))
    for loop in reversed(loops):
        stmt = replace(loop, body=stmt)
    return stmt
