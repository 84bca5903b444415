"""Primitives on loops alone: split, fuse, reorder, and how a loop runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from edgec.errors import ScheduleError
from edgec.loop.access import reads, writes
from edgec.loop.bound import BOUND
from edgec.loop.ir import For, ForKind, If, PrimFunc, Stmt
from edgec.loop.lanes import AT_ONCE, private_buffers, why_not_apart
from edgec.loop.primitives.lookup import (
    blocks_inside,
    find_loop,
    reduce_vars,
    require_unused,
    spatial_vars,
    with_changes,
)
from edgec.loop.rewrite import Substitute
from edgec.numerics.term import Term, Var, as_term, floor_div, floor_mod, minimum

Tail = Literal["guard", "exact", "shift"]


def split(
    func: PrimFunc, loop: str, factor: int, tail: Tail = "guard"
) -> tuple[PrimFunc, tuple[str, str]]:
    """Split one loop in two. Also called strip-mine, or tile in one dimension.

        for i in 0..30 {               for i_o in 0..8 {
          S[i]                           for i_i in 0..4 {
        }                      ->          if i_o*4 + i_i < 30 {
                                             S[i_o*4 + i_i]
                                       } } }

    No guard is needed if `factor` divides the extent; `tail="exact"` demands that. With
    `tail="shift"` the last step starts earlier instead, `min(i_o*4, 26) + i_i`, and computes some
    elements again: then no block inside may read another's output, and output and inputs must not
    share memory. Returns the names of the two loops, `i_o` and `i_i`.
    """
    old, _ = find_loop(func, loop)
    if factor < 1:
        raise ScheduleError(f"split: factor {factor} of loop {loop} is not positive")
    extent = old.stop - old.start
    exact = extent.constant is not None and extent.constant % factor == 0
    if tail == "exact" and not exact:
        raise ScheduleError(f"split: {factor} does not divide the extent {extent} of loop {loop}")
    if tail == "shift" and not exact:
        _require_repeatable(old, factor)
    names = (f"{loop}_o", f"{loop}_i")
    require_unused(func, *names)
    steps = floor_div(extent + (factor - 1), factor)
    outer = Var(names[0], 0, max(steps.bounds()[1], 1))
    inner = Var(names[1], 0, factor)
    first = as_term(outer) * factor
    if tail == "shift":
        first = minimum(first, extent - factor)
    position = old.start + first + inner
    body = Substitute({old.var: position}).stmt(old.body)
    if not exact and tail != "shift":
        body = If(position, old.stop, body)
    nest = For(outer, as_term(0), steps, old.kind, _loop(inner, factor, body))
    return with_changes(func, [(old, nest)]), names


def _require_repeatable(loop: For, factor: int) -> None:
    extent = loop.extent
    if extent is None or extent < factor:
        raise ScheduleError(f"split: loop {loop.var.name} has fewer than {factor} steps")
    clash = reads(loop.body) & writes(loop.body)
    if clash:
        name = min(b.name for b in clash)
        raise ScheduleError(f"split: steps of {loop.var.name} run twice, but update {name}")


def _loop(var: Var, extent: int, body: Stmt) -> For:
    return For(var, as_term(0), as_term(extent), "serial", body)


def fuse(func: PrimFunc, outer: str, inner: str) -> tuple[PrimFunc, str]:
    """Make one loop of two that are directly nested.

        for i in 0..4 {                for i_j in 0..20 {
          for j in 0..5 {        ->      S[i_j // 5, i_j % 5]
            S[i, j]                    }
        } }

    Requires: the inner loop's extent is constant and its start does not depend on the outer; not
    one spatial and one reduce loop of a block that has its init inside (decompose it first).
    Returns the new loop's name.
    """
    a, _ = find_loop(func, outer)
    b = a.body
    if not isinstance(b, For) or b.var.name != inner:
        raise ScheduleError(f"fuse: loop {inner} is not directly inside loop {outer}")
    extent = b.extent
    if extent is None or a.var in b.start.variables():
        raise ScheduleError(f"fuse: the range of loop {inner} depends on other loops")
    for block in blocks_inside(b.body):
        if block.init is not None and (a.var in reduce_vars(block)) != (
            b.var in reduce_vars(block)
        ):
            raise ScheduleError(
                f"fuse: of {outer} and {inner}, one reduces in block {block.name}",
                hint=f"decompose_reduction of {block.name} first",
            )
    name = f"{outer}_{inner}"
    require_unused(func, name)
    steps = (a.stop - a.start) * extent
    var = Var(name, 0, max(steps.bounds()[1], 1))
    values = {
        a.var: a.start + floor_div(as_term(var), extent),
        b.var: b.start + floor_mod(as_term(var), extent),
    }
    body = Substitute(values).stmt(b.body)
    return with_changes(func, [(a, For(var, as_term(0), steps, a.kind, body))]), name


def reorder(func: PrimFunc, order: Sequence[str]) -> tuple[PrimFunc, None]:
    """Put directly nested loops in another order, the first name outermost.

        for i in 0..4 {                for k in 0..9 {
          for j in 0..5 {                for j in 0..5 {
            for k in 0..9 {      ->        for i in 0..4 {
              S[i, j, k]                     S[i, j, k]
        } } }                          } } }                     reorder("k", "j", "i")

    Loops between them that are not named keep their place; guards move inside. Requires: the
    range of no loop depends on one that comes to lie inside it; and where the nest holds several
    blocks, that only loops are moved that choose elements in all of them.
    """
    if len(set(order)) != len(order) or not order:
        raise ScheduleError(f"reorder: loops are named twice or none is: {', '.join(order)}")
    first = min((find_loop(func, name) for name in order), key=lambda found: len(found[1]))[0]
    chain: list[For] = []
    guards: list[tuple[Term, Term]] = []
    stmt: Stmt = first
    missing = set(order)
    while missing:
        if isinstance(stmt, For):
            chain.append(stmt)
            missing.discard(stmt.var.name)
            stmt = stmt.body
        elif isinstance(stmt, If) and stmt.otherwise is None:
            guards.append((stmt.left, stmt.right))
            stmt = stmt.body
        else:
            raise ScheduleError(
                f"reorder: {', '.join(sorted(missing))} is not directly nested in "
                f"{first.var.name}: other statements lie between"
            )
    _require_free_order(chain, set(order), stmt)
    by_name = {loop.var.name: loop for loop in chain}
    wanted = iter(order)
    placed = [by_name[next(wanted)] if c.var.name in order else c for c in chain]
    for position, loop in enumerate(placed):
        inside = {c.var for c in placed[position:]}
        clash = inside & (loop.start.variables() | loop.stop.variables())
        if clash:
            names = ", ".join(sorted(v.name for v in clash))
            raise ScheduleError(
                f"reorder: the range of loop {loop.var.name} depends on {names}, "
                "which would lie inside it"
            )
    for left, right in reversed(guards):
        stmt = If(left, right, stmt)
    for loop in reversed(placed):
        stmt = replace(loop, body=stmt)
    return with_changes(func, [(first, stmt)]), None


def _require_free_order(chain: list[For], named: set[str], inside: Stmt) -> None:
    blocks = blocks_inside(inside)
    if len(blocks) < 2:
        return
    for loop in chain:
        if loop.var.name not in named:
            continue
        for block in blocks:
            if loop.var not in spatial_vars(block) and loop.var.stop - loop.var.start > 1:
                raise ScheduleError(
                    f"reorder: loop {loop.var.name} runs block {block.name} several times for "
                    "the same elements, beside other blocks"
                )


def set_kind(func: PrimFunc, loop: str, kind: ForKind) -> tuple[PrimFunc, None]:
    """Say how a loop runs.

        for i in 0..4 { S[i] }    ->    unrolled for i in 0..4 { S[i] }

    All but serial and parallel loops need a constant extent. Vectorized and parallel loops, and
    those bound to a GPU's blocks or threads, need steps that may run at once, see
    `edgec.loop.lanes`: no block reduces over the loop.
    """
    old, _ = find_loop(func, loop)
    if kind in ("unrolled", "vectorized", *BOUND) and old.extent is None:
        raise ScheduleError(
            f"loop {loop} cannot be {kind}: its extent {old.stop - old.start} is not constant"
        )
    if kind in AT_ONCE:
        for block in blocks_inside(old.body):
            if old.var in reduce_vars(block):
                raise ScheduleError(
                    f"loop {loop} cannot be {kind}: block {block.name} reduces over it"
                )
    new = replace(old, kind=kind)
    if kind in BOUND:  # an iteration must not find the previous one's values in its registers
        why = why_not_apart(new, private_buffers(func, new))
        if why:
            raise ScheduleError(f"loop {loop} cannot be {kind}: {why}")
    return with_changes(func, [(old, new)]), None
