"""compute_at: compute a temporary inside the loop that uses it."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from edgec.errors import ScheduleError
from edgec.loop.access import Region, count_uses, reads, region, writes
from edgec.loop.ir import Buffer, Call, PrimFunc, Stmt, Store
from edgec.loop.primitives.lookup import find_block, find_loop, loops_on, with_changes
from edgec.loop.primitives.nests import (
    Nest,
    axis_positions,
    own_nest,
    ranges_of,
    restrict,
    store_indices,
    writers,
    written_buffer,
)
from edgec.loop.rewrite import ReplaceBuffer, sequence, statements, walk

# A temporary of at most this many elements becomes C locals by default.
MOST_REGISTER_ELEMENTS = 64


def compute_at(
    func: PrimFunc, block: str, loop: str, scope: Literal["register", "scratch"] | None = None
) -> tuple[PrimFunc, None]:
    """Compute a temporary inside the loop that uses it, only the part used there.

        for i in 0..64 {                         for j_o in 0..16 {
          block t(a: spatial = i) {                for i in 0..4 {
            t[a] = f(a)                              block t(a: spatial = j_o*4 + i) {
        } }                                            t[a] = f(a)
        for j_o in 0..16 {               ->        } }
          for j_i in 0..4 {                        for j_i in 0..4 {
            block u(a: spatial = j_o*4 + j_i) {      block u(a: spatial = j_o*4 + j_i) {
              u[a] = g(t[a])                           u[a] = g(t[a])
        } } }                                    } } }

    The nest keeps its loops' names. All blocks that write the temporary move together, and
    overlapping parts are computed again. The temporary keeps its shape here; `simplify` shrinks it
    to the part that one iteration needs, and `scope` is that part's memory (registers up to 64
    elements, else scratch). Requires: every use of the temporary is inside the loop; the block's
    own loops are not split, nor cut if it accumulates, since each part would add everything; the
    block's inputs are not written between the two.
    """
    _, _ = find_block(func, block)
    buffer = written_buffer(find_block(func, block)[0])
    require_temporary("compute_at", block, buffer)
    target, above = find_loop(func, loop)
    nests = [own_nest(func, b.name) for b in writers(func, buffer)]
    for nest in nests:
        if contains(target, nest.block):
            raise ScheduleError(f"compute_at: block {nest.block.name} is around or in loop {loop}")
    blocks = [nest.block for nest in nests if nest.block.init is None]
    if sum(buffer in reads(each.body) for each in blocks) > 1:
        raise ScheduleError(
            f"compute_at: several blocks accumulate in {buffer.name}",
            hint="move the block before its loops are cut",
        )
    inside = count_uses(target, buffer)
    own = sum(count_uses(nest.root, buffer) for nest in nests)
    if inside + own != count_uses(func.body, buffer):
        raise ScheduleError(f"compute_at: {buffer.name} is also used outside of loop {loop}")
    if not inside:
        raise ScheduleError(f"compute_at: {buffer.name} is not used in loop {loop}")
    needed: set[Buffer] = set()
    for nest in nests:
        needed |= reads(nest.root)
    require_stable("compute_at", func, nests, needed - {buffer}, target)
    box = region(
        buffer,
        target.body,
        outer=loops_on(*above, target),
        only="reads",
        shape=_computed(buffer, nests),
    )
    assert box is not None
    moved = [
        restrict(
            nest,
            ranges_of(axis_positions(nest.block, store_indices(nest.block, buffer), buffer), box),
        )
        for nest in nests
    ]
    changes: list[tuple[Stmt, Stmt | None]] = [(nest.root, None) for nest in nests]
    changes.append((target, replace(target, body=sequence(*moved, target.body))))
    return with_scope(with_changes(func, changes), buffer, box, scope), None


def _computed(buffer: Buffer, nests: list[Nest]) -> tuple[int, ...]:
    """The extents that the nests compute: the buffer may be larger, for the sake of alignment."""
    boxes = [region(buffer, nest.root, only="writes") for nest in nests]
    stops = [[stop.bounds()[1] for stop in box.stops] for box in boxes if box is not None]
    return tuple(max(each) for each in zip(*stops, strict=True))


def contains(stmt: Stmt, inner: Stmt) -> bool:
    """Whether `inner`, this very object, is inside the statement."""
    return any(s is inner for s in statements(stmt))


def require_temporary(primitive: str, block: str, buffer: Buffer) -> None:
    """ScheduleError unless the buffer is the function's own."""
    if buffer.scope not in ("scratch", "register"):
        raise ScheduleError(
            f"{primitive}: block {block} writes {buffer.name}, which is not a temporary"
        )


def require_stable(
    primitive: str,
    func: PrimFunc,
    nests: list[Nest],
    needed: frozenset[Buffer] | set[Buffer],
    user: Stmt | None = None,
) -> None:
    """ScheduleError if a needed buffer is written by a statement after the first of the nests.

    user: the nests will move to it; statements after it in the loops around both do not count,
    since they run after the user before and after the change.
    """
    last = None if user is None else _outermost_without(func, user, nests[0].root)
    started = ended = False
    for stmt, path in walk(func.body):
        around = (*path, stmt)
        if last is not None and any(s is last for s in around):
            ended = True
        elif ended:
            return
        if any(s is nest.root for s in around for nest in nests):
            started = True
        elif started and isinstance(stmt, (Store, Call)):
            clash = writes(stmt) & needed
            if clash:
                raise ScheduleError(
                    f"{primitive}: {min(b.name for b in clash)}, which {nests[0].block.name} "
                    "reads, is written after it"
                )


def _outermost_without(func: PrimFunc, stmt: Stmt, other: Stmt) -> Stmt:
    """The largest statement around `stmt`, or itself, that does not hold `other`."""
    path = next((*above, s) for s, above in walk(func.body) if s is stmt)
    return next(s for s in path if not contains(s, other))


def with_scope(
    func: PrimFunc, buffer: Buffer, box: Region, scope: Literal["register", "scratch"] | None
) -> PrimFunc:
    """The temporary moved to a scope; by default to registers if its box is small."""
    if scope is None:
        elements = 1
        for extent in box.largest_extents():
            elements *= extent
        scope = "register" if elements <= MOST_REGISTER_ELEMENTS else "scratch"
    if scope == buffer.scope:
        return func
    new = replace(buffer, scope=scope)
    params = tuple(p for p in func.params if p != buffer)
    allocs = tuple(a for a in func.allocs if a != buffer)
    if scope == "register":
        allocs = (*allocs, new)
    else:
        params = (*params, new)
    body = ReplaceBuffer({buffer: new}).stmt(func.body)
    return replace(func, params=params, allocs=allocs, body=body)
