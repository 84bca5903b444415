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

    Where a step goes on with sums of earlier steps, whose init is in a nest of its own, the copy
    begins with these sums: a tile of sums stays in registers for the part `k_i` of its products.

        for k_o in 0..3 {                    for k_o in 0..3 {
          for i in 0..4 {                      for i in 0..4 {
            for k_i in 0..9 {                    block y_cache_start(d0: spatial = i) {
              block a(i: .. = i, ..) {             y_cache[d0] = y[d0]
                y[i] = y[i] + x[..]              }
        } } } }                          ->      for k_i in 0..9 {
                                                   block a(i: .. = i, ..) {
                                                     y_cache[i] = y_cache[i] + x[..]
                                                 } }
                                                 block y_cache(d0: spatial = i) {
                                                   y[d0] = y_cache[d0]
                                             } } }

    Requires: a step of the loop writes every element it reads, before reading it or to the same
    element of a sum, and writes a box of the buffer without gaps, under no condition. Returns the
    name of the copy, which is also the block's name.
    """
    out = find_buffer(func, buffer)
    target, above = find_loop(func, loop)
    used = [a for a in accesses(target.body, of=(out,))]
    if not any(a.is_write for a in used):
        raise ScheduleError(f"cache_write: loop {loop} does not write {buffer}")
    if any(a.indices is None for a in used):
        raise ScheduleError(f"cache_write: loop {loop} uses {buffer} at indices that data choose")
    outside = {s.var for s in loops_on(*above, target)}
    goes_on = _goes_on(target.body, out, outside, f"cache_write: loop {loop}")
    if not goes_on and not used[0].is_write:
        raise ScheduleError(f"cache_write: loop {loop} reads {buffer} before it writes it")
    if any(isinstance(stmt, If) and out in writes(stmt) for stmt in statements(target.body)):
        raise ScheduleError(f"cache_write: loop {loop} writes {buffer} under a condition")
    for access in used:
        if access.is_write:
            require_box(access)
    box = region(out, target.body, outer=loops_on(*above, target), only="writes")
    assert box is not None
    cache = Buffer(fresh(func, f"{buffer}_cache"), out.shape, out.dtype, scope)
    copy = _copy(cache.name, box, into=out, out_of=cache)
    body = sequence(ReplaceBuffer({out: cache}).stmt(target.body), copy)
    if goes_on:
        body = sequence(_copy(f"{cache.name}_start", box, into=cache, out_of=out), body)
    func = with_changes(func, [(target, replace(target, body=body))])
    return _declare(func, cache), cache.name


def _goes_on(body: Stmt, out: Buffer, outside: set[Var], where: str) -> bool:
    """Whether the only block that uses a buffer goes on with sums of other steps."""
    users = [block for block in blocks_inside(body) if out in reads(block) | writes(block)]
    summing = [b for b in users if out in reads(b) and reduce_vars(b) & outside]
    if not summing:
        return False
    block = summing[0]
    if len(users) > 1 or block.init is not None:
        raise ScheduleError(
            f"{where}: block {block.name} accumulates in {out.name} over several steps of it or of "
            "loops around it: its init must be in a nest outside, and no other block may use it"
        )
    places = {access.indices for access in accesses(block, of=(out,))}
    if len(places) > 1:
        raise ScheduleError(f"{where}: block {block.name} reads other elements than it writes")
    return True


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
