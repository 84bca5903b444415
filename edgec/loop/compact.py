"""Shrink temporaries to the part that is live inside the loops around all their uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from edgec.loop.access import accesses, count_uses, reads, region
from edgec.loop.ir import Block, Buffer, Call, For, If, PrimFunc, Seq, Stmt
from edgec.loop.primitives.lookup import reduce_vars
from edgec.loop.rewrite import Reindex, children
from edgec.numerics.term import as_term


def private_buffers(func: PrimFunc) -> frozenset[str]:
    """The temporaries from which nothing flows from one step to the next of the loops around.

    Looks at blocks, so it is asked before they are lowered. In a step of the loops that hold all
    uses, the first use must write: a store, or a block that does not read the buffer, or a block
    with an init all of whose reduce loops lie inside.
    """
    found = set()
    for buffer in (*func.params, *func.allocs):
        if buffer.scope not in ("scratch", "register"):
            continue
        loops, home = _common_place(func.body, buffer)
        if home is not None and _writes_first(home, buffer, loops):
            found.add(buffer.name)
    return frozenset(found)


def _writes_first(home: Stmt, buffer: Buffer, loops: list[For]) -> bool:
    for leaf, _ in _leaves(home):
        used = [a for a in accesses(leaf, of=(buffer,))]
        if not used:
            continue
        if isinstance(leaf, Block) and leaf.init is not None and buffer not in reads(leaf.init):
            return not reduce_vars(leaf) & {loop.var for loop in loops}
        return not isinstance(leaf, Call) and all(a.is_write for a in used)
    return False


def _leaves(stmt: Stmt, path: tuple[Stmt, ...] = ()) -> Iterator[tuple[Stmt, tuple[Stmt, ...]]]:
    """Blocks, stores and calls in order, with the statements around them; blocks stay closed."""
    if isinstance(stmt, (For, If, Seq)):
        for child in children(stmt):
            yield from _leaves(child, (*path, stmt))
    else:
        yield stmt, path


def _common_place(body: Stmt, buffer: Buffer) -> tuple[list[For], Stmt | None]:
    """The loops around all uses of the buffer, and the smallest statement that holds all uses."""
    paths = [(*path, leaf) for leaf, path in _leaves(body) if count_uses(leaf, buffer)]
    if not paths:
        return [], None
    common: list[Stmt] = []
    for level in zip(*paths, strict=False):
        if any(s is not level[0] for s in level):
            break
        common.append(level[0])
    while isinstance(common[-1], For):  # the loop itself stays outside; its body is the place
        common.append(common[-1].body)
    return [s for s in common if isinstance(s, For)], common[-1]


def compact_buffers(func: PrimFunc, private: frozenset[str]) -> PrimFunc:
    """Shrink each private temporary to the box that one step of the loops around it uses.

        alloc acc: register int32[64]            alloc acc: register int32[4]
        for o in 0..16 {                         for o in 0..16 {
          for i in 0..4 { acc[o*4 + i] = ..  ->    for i in 0..4 { acc[i] = ..
        } }                                      } }

    Needs blocks lowered; `private` comes from `private_buffers`. Dimensions of extent 1 go.
    """
    for buffer in (*func.params, *func.allocs):
        if buffer.name in private:
            func = _compact(func, buffer)
    return func


def _compact(func: PrimFunc, buffer: Buffer) -> PrimFunc:
    loops, home = _common_place(func.body, buffer)
    if home is None:
        return func
    if any(a.indices is None for a in accesses(home, of=(buffer,))):
        return func
    box = region(buffer, home, outer=loops)
    assert box is not None
    sizes = box.largest_extents()
    kept = [d for d, size in enumerate(sizes) if size > 1]
    shape = tuple(sizes[d] for d in kept) or (1,)
    if shape == buffer.shape or (not loops and prod(shape) == buffer.elements):
        return func
    small = replace(buffer, shape=shape)
    starts = box.starts
    change = Reindex(
        buffer, small, lambda at: tuple(at[d] - starts[d] for d in kept) or (as_term(0),)
    )
    return replace(
        func,
        params=tuple(small if p == buffer else p for p in func.params),
        allocs=tuple(small if a == buffer else a for a in func.allocs),
        body=change.stmt(func.body),
    )
