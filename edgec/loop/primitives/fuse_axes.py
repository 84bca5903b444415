"""fuse_axes: neighbouring axes of a block as one."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from edgec.errors import ScheduleError
from edgec.loop.ir import Axis, Block, For, PrimFunc, Stmt
from edgec.loop.primitives.lookup import loops_on, require_unused, with_changes
from edgec.loop.primitives.nests import Nest, own_nest
from edgec.loop.rewrite import Substitute
from edgec.numerics.term import Var, as_term, floor_div, floor_mod


def fuse_axes(func: PrimFunc, block: str, axes: list[str], name: str) -> tuple[PrimFunc, str]:
    """Make one axis of several of a block, in the same order; all are spatial, or all reduce.

        for acc_i in 0..3 {                      for acc_k in 0..12 {
          for acc_j in 0..4 {                      block acc(c, k) {
            block acc(c, i, j) {          ->         acc[c] = acc[c] + x[k // 4, k % 4]
              acc[c] = acc[c] + x[i, j]          } }
        } } }

    `fuse` changes only loops, not the block's axes. Requires: the axes' loops are directly nested,
    each from 0 to a constant, run nothing but the block, and no loop inside depends on them.
    Returns the name of the new loop.
    """
    nest = own_nest(func, block)
    loops, inner = _around(nest, axes)
    chosen = _chosen(nest, loops, axes, name)
    sizes = [axis.var.stop for axis in chosen]
    step, loop = Var(name, 0, prod(sizes)), Var(f"{block}_{name}", 0, prod(sizes))
    if loop.name not in [each.var.name for each in loops]:
        require_unused(func, loop.name)
    values = {
        axis.var: floor_mod(floor_div(step, prod(sizes[at:])), size)
        for at, (axis, size) in enumerate(zip(chosen, sizes, strict=True), 1)
    }
    changed = Substitute(values).stmt(nest.block)
    assert isinstance(changed, Block)
    made = Axis(step, chosen[0].kind, as_term(loop))
    at = nest.block.axes.index(chosen[0])
    kept = (*changed.axes[:at], made, *changed.axes[at + len(chosen) :])
    body: Stmt = replace(changed, axes=kept)
    for stmt in reversed(inner):
        body = replace(stmt, body=body)
    fused = For(loop, as_term(0), as_term(loop.stop), "serial", body)
    return with_changes(func, [(loops[0], fused)]), loop.name


def _chosen(nest: Nest, loops: tuple[For, ...], axes: list[str], name: str) -> list[Axis]:
    """The block's axes of these names, which are these loops and follow each other."""
    block, known = nest.block.name, [axis.var.name for axis in nest.block.axes]
    if name in known and name not in axes:
        raise ScheduleError(f"fuse_axes: {block} has an axis {name} already")
    chosen = [axis for axis in nest.block.axes if axis.var.name in axes]
    are_loops = [(a.var.stop, a.binding) for a in chosen] == [
        (loop.stop.constant, as_term(loop.var)) for loop in loops
    ]
    are_run = f" {' '.join(axes)} " in f" {' '.join(known)} "
    if not are_loops or not are_run or len({axis.kind for axis in chosen}) > 1:
        raise ScheduleError(f"fuse_axes: {', '.join(axes)} of {block} are not loops of one kind")
    return chosen


def _around(nest: Nest, axes: list[str]) -> tuple[tuple[For, ...], tuple[For, ...]]:
    """The loops of these axes, which are nested directly, and the loops inside."""
    names = [f"{nest.block.name}_{axis}" for axis in axes]
    around = loops_on(*nest.around)
    first = next((at for at, loop in enumerate(around) if loop.var.name in names), 0)
    loops, inner = around[first : first + len(axes)], around[first + len(axes) :]
    if [s.var.name for s in loops] != names or len(around) < len(nest.around):
        raise ScheduleError(f"fuse_axes: {', '.join(names)} are not directly nested")
    own = {loop.var for loop in loops}
    moves = any((s.start.variables() | s.stop.variables()) & own for s in inner)
    if moves or any(s.start.constant != 0 or s.stop.constant is None for s in loops):
        raise ScheduleError(f"fuse_axes: loops {', '.join(names)} have open bounds")
    return loops, inner
