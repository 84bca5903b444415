"""reverse_compute_at: run a consumer inside the loop of its producer."""

from __future__ import annotations

from dataclasses import replace

from edgec.errors import ScheduleError
from edgec.loop.access import accesses, count_uses, reads, region, writes
from edgec.loop.ir import Block, Buffer, Call, For, PrimFunc, Stmt, Store
from edgec.loop.primitives.compute_at import contains, with_scope
from edgec.loop.primitives.lookup import find_loop, loops_on, reduce_vars, with_changes
from edgec.loop.primitives.nests import (
    Nest,
    axis_positions,
    own_nest,
    ranges_of,
    require_box,
    restrict,
    writers,
    written_buffer,
)
from edgec.loop.rewrite import sequence, walk
from edgec.numerics.term import Term


def reverse_compute_at(func: PrimFunc, block: str, loop: str) -> tuple[PrimFunc, None]:
    """Run a consumer inside the loop of its producer, on the part that is ready there.

        for i in 0..16 {                           for i in 0..16 {
          block t(a: spatial = i) { t[a] = .. }      block t(a: spatial = i) { t[a] = .. }
        }                                    ->      block u(a: spatial = i) { u[a] = g(t[a]) }
        for j in 0..16 {                           }
          block u(a: spatial = j) { u[a] = g(t[a]) }
        }

    Requires: the consumer has only spatial axes and reads the temporary at its own axes; the loop
    holds every block that writes the temporary and does not reduce in them; the consumer's other
    inputs are written before the loop, and its output is not used in between.
    """
    consumer = own_nest(func, block)
    target, path = find_loop(func, loop)
    if contains(target, consumer.block):
        raise ScheduleError(f"reverse_compute_at: block {block} is in loop {loop} already")
    if any(a.kind == "reduce" for a in consumer.block.axes):
        raise ScheduleError(f"reverse_compute_at: block {block} reduces")
    written = written_buffer(consumer.block)
    candidates = sorted(reads(consumer.block) & writes(target), key=lambda b: b.name)
    if len(candidates) != 1 or written in reads(consumer.block):
        names = ", ".join(b.name for b in candidates) or "nothing"
        raise ScheduleError(f"reverse_compute_at: of loop {loop}, block {block} reads {names}")
    buffer = candidates[0]
    outer = {s.var for s in (*path, target) if isinstance(s, For)}
    for producer in writers(func, buffer):
        if not contains(target, producer) or outer & reduce_vars(producer):
            raise ScheduleError(
                f"reverse_compute_at: {buffer.name} is not complete after a step of loop {loop}"
            )
    for access in accesses(target.body):
        if access.buffer == buffer and access.is_write:
            require_box(access)
    _require_order(func, target, consumer, reads(consumer.block) - {buffer}, written)
    box = region(buffer, target.body, outer=loops_on(*path, target), only="writes")
    assert box is not None
    positions = axis_positions(consumer.block, _read_indices(consumer.block, buffer), buffer)
    moved = restrict(consumer, ranges_of(positions, box))
    outside = count_uses(func.body, buffer) - count_uses(target, buffer)
    changes: list[tuple[Stmt, Stmt | None]] = [
        (consumer.root, None),
        (target, replace(target, body=sequence(target.body, moved))),
    ]
    func = with_changes(func, changes)
    if buffer.scope == "scratch" and outside == count_uses(consumer.root, buffer):
        func = with_scope(func, buffer, box, None)
    return func, None


def _read_indices(block: Block, buffer: Buffer) -> tuple[Term, ...]:
    """Indices of the block's only read of the buffer, in terms of its axes."""
    unbound = replace(block, axes=())
    found = {a.indices for a in accesses(unbound, of=(buffer,))}
    indices = found.pop() if len(found) == 1 else None
    if indices is None:
        raise ScheduleError(f"block {block.name} reads several places of {buffer.name}")
    return indices


def _require_order(
    func: PrimFunc, target: For, consumer: Nest, others: frozenset[Buffer], written: Buffer
) -> None:
    """ScheduleError if a statement from the loop up to the consumer stands against the move."""
    started = False
    for stmt, path in walk(func.body):
        around = (*path, stmt)
        if stmt is target:
            started = True
        if stmt is consumer.root:
            return
        if (
            not started
            or not isinstance(stmt, (Store, Call))
            or any(s is consumer.root for s in around)
        ):
            continue
        if writes(stmt) & others:
            names = ", ".join(sorted(b.name for b in writes(stmt) & others))
            raise ScheduleError(
                f"reverse_compute_at: {names}, which {consumer.block.name} reads, is not ready"
            )
        if count_uses(stmt, written):
            raise ScheduleError(
                f"reverse_compute_at: {written.name} is used before {consumer.block.name}"
            )
    raise ScheduleError(f"reverse_compute_at: block {consumer.block.name} runs before the loop")
