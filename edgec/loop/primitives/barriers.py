"""place_barriers: barriers where threads need other threads' results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product

from edgec.errors import ScheduleError
from edgec.loop.access import Access, accesses, flat_address
from edgec.loop.bound import BLOCKS, BOUND, THREADS, launch_of, why_not_bound
from edgec.loop.ir import Block, Branch, For, If, PrimFunc, Seq, Stmt, Sync, SyncScope
from edgec.loop.lanes import are_told_apart
from edgec.loop.rewrite import children, sequence, statements
from edgec.numerics.term import Term, as_term


def place_barriers(func: PrimFunc) -> tuple[PrimFunc, None]:
    """Put a barrier between two statements that touch one element in different threads.

        thread_x for i in 0..9 { t[i] = x[i] }          thread_x for i in 0..9 { t[i] = x[i] }
        thread_x for j in 0..9 { y[j] = t[8 - j] }  ->  sync block
                                                        thread_x for j in 0..9 { y[j] = t[8 - j] }

    One of the two accesses writes. Blocks that need other blocks' results wait for the grid.
    Iterations of an outer serial loop wait for each other at its end. Requires a simplified
    function; raises ScheduleError where threads would have to wait under a condition that not all
    of them meet.
    """
    if any(isinstance(stmt, Block) for stmt in statements(func.body)):
        raise ScheduleError("place_barriers: simplify first")
    if launch_of(func) is None:
        return func, None
    placed = replace(func, body=_visit(func.body, ()).stmt)
    for why in why_not_bound(placed):
        raise ScheduleError(f"place_barriers: {why}")
    return placed, None


@dataclass(frozen=True)
class _Part:
    """A statement with its barriers, its accesses before the first one and after the last one."""

    stmt: Stmt
    head: tuple[Access, ...]
    tail: tuple[Access, ...]
    waits: bool


def _visit(stmt: Stmt, loops: tuple[For, ...]) -> _Part:
    if isinstance(stmt, Seq):
        return _joined(_visit(child, loops) for child in stmt.stmts)
    if isinstance(stmt, For):
        return _visit_loop(stmt, loops)
    if isinstance(stmt, Sync):
        return _Part(stmt, (), (), True)
    parts = [_visit(part, loops) for part in children(stmt)]
    if any(part.waits for part in parts):
        return _joined_branches(stmt, parts, loops)
    touched = tuple(
        access
        for access in accesses(stmt, loops)
        if access.buffer.scope not in ("register", "constant")
    )
    return _Part(stmt, touched, touched, False)


def _visit_loop(loop: For, loops: tuple[For, ...]) -> _Part:
    inside = _visit(loop.body, (*loops, loop))
    scope = None if loop.kind in BOUND else _needed(inside.tail, inside.head)
    if scope is not None:
        inside = _joined((inside, _Part(Sync(scope), (), (), True)))
    return replace(inside, stmt=replace(loop, body=inside.stmt))


def _joined_branches(stmt: Stmt, parts: list[_Part], loops: tuple[For, ...]) -> _Part:
    """Both branches, after which the next barrier still covers the accesses of either."""
    if not isinstance(stmt, (If, Branch)):
        raise ScheduleError("place_barriers: threads would wait in a loop that data end")
    otherwise = parts[1].stmt if len(parts) > 1 else None
    new = replace(stmt, body=parts[0].stmt, otherwise=otherwise)
    every = tuple(accesses(stmt, loops))
    return _Part(new, every, every, False)


def _joined(parts: Iterable[_Part]) -> _Part:
    """Statements one after the other, with barriers between them where they are needed."""
    done = _Part(Seq(()), (), (), False)
    for part in parts:
        scope = _needed(done.tail, part.head)
        waits = done.waits or scope is not None
        barrier = () if scope is None else (Sync(scope),)
        done = _Part(
            sequence(done.stmt, *barrier, part.stmt),
            done.head if waits else (*done.head, *part.head),
            part.tail if part.waits or scope is not None else (*done.tail, *part.tail),
            waits or part.waits,
        )
    return done


def _needed(before: Iterable[Access], after: Iterable[Access]) -> SyncScope | None:
    """The barrier between two statements; None if no thread waits for another."""
    scopes = {
        _scope(a, b)
        for a, b in product(before, after)
        if a.buffer == b.buffer and (a.is_write or b.is_write)
    }
    widest: tuple[SyncScope, ...] = ("grid", "block")
    return next((scope for scope in widest if scope in scopes), None)


def _scope(a: Access, b: Access) -> SyncScope | None:
    """Scope of the barrier between two accesses."""
    if a.buffer.scope != "shared" and not _is_own(a, b, BLOCKS):
        return "grid"
    return None if _is_own(a, b, THREADS) else "block"


def _is_own(a: Access, b: Access, kinds: tuple[str, ...]) -> bool:
    """Whether every element that both access is accessed by only one block (or thread).

    True if both addresses have the same strides over the bound loops, and iterations have different
    addresses.
    """
    bound = [{loop.kind for loop in access.loops if loop.kind in kinds} for access in (a, b)]
    if not any(bound):
        return True
    if bound[0] != bound[1]:  # one of them is done by all
        return False
    steps = _common_parts(a, b, kinds)
    if steps is None:
        return False
    if kinds == THREADS and a.buffer.scope != "shared":  # of one block, which has that alone
        if _common_parts(a, b, BLOCKS) is None:
            return False
        kinds = BOUND
    rests = [(_rest(access, kinds), access.loops, 1) for access in (a, b)]
    return are_told_apart([(step, extent) for _, step, extent in steps], rests)


#: Each kind with more than one step, how far the address moves by it, and its steps.
_Parts = tuple[tuple[str, int, int], ...]


def _common_parts(a: Access, b: Access, kinds: tuple[str, ...]) -> _Parts | None:
    """Steps of the bound loops in both addresses; None if they differ or are unknown."""
    parts = _parts(a, kinds)
    return parts if parts == _parts(b, kinds) else None


def _parts(access: Access, kinds: tuple[str, ...]) -> _Parts | None:
    if access.indices is None:
        return None
    address = dict(flat_address(access.buffer, access.indices).parts)
    found = []
    for loop in access.loops:
        extent = loop.extent
        if loop.kind in kinds and extent != 1:
            step = address.get(loop.var)
            if extent is None or step is None or loop.start.constant is None:
                return None
            found.append((f"{loop.kind} from {loop.start}", step, extent))
    return tuple(sorted(found))


def _rest(access: Access, kinds: tuple[str, ...]) -> Term:
    """The address without the bound loops' share."""
    assert access.indices is not None
    rest: Term = flat_address(access.buffer, access.indices)
    for loop in access.loops:
        if loop.kind in kinds:
            rest = rest.substitute({loop.var: as_term(0)})
    return rest
