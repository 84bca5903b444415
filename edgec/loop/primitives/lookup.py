"""Find loops and blocks by name, and facts that primitives need about them."""

from __future__ import annotations

from dataclasses import replace

from edgec.errors import ScheduleError
from edgec.loop.ir import Block, Buffer, For, PrimFunc, Stmt
from edgec.loop.rewrite import (
    ReplaceStmts,
    blocks_of,
    buffers_of,
    loops_of,
    prune,
    statements,
    walk,
)
from edgec.numerics.term import Var

Path = tuple[Stmt, ...]


def find_loop(func: PrimFunc, name: str) -> tuple[For, Path]:
    """The loop of this name and the statements around it, outermost first."""
    for stmt, path in walk(func.body):
        if isinstance(stmt, For) and stmt.var.name == name:
            return stmt, path
    raise ScheduleError(
        f"{func.name} has no loop {name!r}", details=(f"loops: {', '.join(loops_of(func.body))}",)
    )


def find_block(func: PrimFunc, name: str) -> tuple[Block, Path]:
    """The block of this name and the statements around it, outermost first."""
    for stmt, path in walk(func.body):
        if isinstance(stmt, Block) and stmt.name == name:
            return stmt, path
    raise ScheduleError(
        f"{func.name} has no block {name!r}",
        details=(f"blocks: {', '.join(blocks_of(func.body))}",),
    )


def find_buffer(func: PrimFunc, name: str) -> Buffer:
    known = buffers_of(func)
    if name not in known:
        raise ScheduleError(
            f"{func.name} has no buffer {name!r}", details=(f"buffers: {', '.join(known)}",)
        )
    return known[name]


def with_changes(func: PrimFunc, changes: list[tuple[Stmt, Stmt | None]]) -> PrimFunc:
    """The function with statements (found by identity) replaced, or removed for None."""
    return replace(func, body=prune(ReplaceStmts(changes).stmt(func.body)))


def fresh(func: PrimFunc, name: str) -> str:
    """The name, or the name with the first number that makes it unused."""
    used = {*loops_of(func.body), *blocks_of(func.body), *buffers_of(func)}
    if name not in used:
        return name
    number = 2
    while f"{name}_{number}" in used:
        number += 1
    return f"{name}_{number}"


def require_unused(func: PrimFunc, *names: str) -> None:
    """ScheduleError if a loop of one of these names exists."""
    used = loops_of(func.body)
    for name in names:
        if name in used:
            raise ScheduleError(f"{func.name} already has a loop {name!r}")


def spatial_vars(block: Block) -> frozenset[Var]:
    """The loop variables that choose which element the block computes."""
    return _vars(block, "spatial")


def reduce_vars(block: Block) -> frozenset[Var]:
    """The loop variables that only step through the block's reduction."""
    return _vars(block, "reduce") - _vars(block, "spatial")


def _vars(block: Block, kind: str) -> frozenset[Var]:
    found: frozenset[Var] = frozenset()
    for axis in block.axes:
        if axis.kind == kind:
            found |= axis.binding.variables()
    return found


def blocks_inside(stmt: Stmt) -> list[Block]:
    """The blocks of a subtree in order of execution."""
    return [s for s in statements(stmt) if isinstance(s, Block)]


def loops_on(*path: Stmt) -> tuple[For, ...]:
    """The loops among statements, in their order."""
    return tuple(s for s in path if isinstance(s, For))
