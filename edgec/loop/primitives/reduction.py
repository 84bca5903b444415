"""decompose_reduction: move a block's init into a separate nest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from edgec.errors import ScheduleError
from edgec.loop.ir import Axis, Block, For, If, PrimFunc, Stmt
from edgec.loop.primitives.lookup import find_block, find_loop, reduce_vars, with_changes
from edgec.loop.rewrite import sequence
from edgec.numerics.term import TermLike, Var, as_term


def decompose_reduction(
    func: PrimFunc, block: str, loop: str | None = None
) -> tuple[PrimFunc, str]:
    """Run a block's init before its reduction instead of in its first step.

        for i in 0..4 {                          for i in 0..4 {
          for k in 0..9 {                          block s_init(a: spatial = i) {
            block s(a: .. = i, b: .. = k) {          s[a] = 0
              init { s[a] = 0 }            ->      }
              s[a] = s[a] + x[b]                   for k in 0..9 {
        } } }                                        block s(a: .. = i, b: .. = k) {
                                                       s[a] = s[a] + x[b]
                                                 } } }

    The init nest stands directly before `loop` (default: the outermost loop the block reduces
    over); loops inside it that choose elements are copied, their names with `_init` added.
    Requires: `loop` holds every loop that the block reduces over. Returns the new block's name.
    """
    found, path = find_block(func, block)
    if found.init is None:
        raise ScheduleError(f"decompose_reduction: block {block} has no init")
    steps = reduce_vars(found)
    reducing = [s.var.name for s in path if isinstance(s, For) and s.var in steps]
    if loop is None:
        if not reducing:
            raise ScheduleError(f"decompose_reduction: no loop around block {block} reduces")
        loop = reducing[0]
    target, above = find_loop(func, loop)
    if not any(s is target for s in path):
        raise ScheduleError(f"decompose_reduction: loop {loop} is not around block {block}")
    outside = [s.var.name for s in above if isinstance(s, For) and s.var in steps]
    if outside:
        raise ScheduleError(
            f"decompose_reduction: block {block} also reduces over {outside[0]}, outside of {loop}"
        )
    name = f"{block}_init"
    around, values = _kept_levels(path[len(above) :], steps, f"between {loop} and {block}")
    axes = tuple(
        Axis(a.var, a.kind, a.binding.substitute(values)) for a in found.axes if a.kind == "spatial"
    )
    init: Stmt = Block(name, axes, None, found.init)
    for level in reversed(around):
        init = replace(level, body=init)
    # The block inside the loop loses its init; then the loop gets the init nest before it.
    bare = with_changes(func, [(found, replace(found, init=None))])
    target, _ = find_loop(bare, loop)
    return with_changes(bare, [(target, sequence(init, target))]), name


def _kept_levels(
    path: Sequence[Stmt], steps: frozenset[Var], where: str
) -> tuple[list[For | If], dict[Var, TermLike]]:
    """Copies of the loops and guards that choose elements, and the variables of these loops."""
    values: dict[Var, TermLike] = {}
    kept: list[For | If] = []
    for stmt in path:
        if isinstance(stmt, If):
            kept += _kept_guard(stmt, steps, values)
        elif not isinstance(stmt, For):
            raise ScheduleError(f"decompose_reduction: other statements stand {where}")
        elif stmt.var not in steps:
            if (stmt.start.variables() | stmt.stop.variables()) & steps:
                raise ScheduleError(
                    f"decompose_reduction: the range of {stmt.var.name} depends on the reduction"
                )
            var = Var(f"{stmt.var.name}_init", stmt.var.start, stmt.var.stop)
            start, stop = stmt.start.substitute(values), stmt.stop.substitute(values)
            kept.append(replace(stmt, var=var, start=start, stop=stop))
            values[stmt.var] = as_term(var)
    return kept, values


def _kept_guard(guard: If, steps: frozenset[Var], values: Mapping[Var, TermLike]) -> Iterator[If]:
    """The guard, unless it chooses steps of the reduction alone."""
    used = guard.left.variables() | guard.right.variables()
    if not used & steps:
        yield If(guard.left.substitute(values), guard.right.substitute(values), guard.body)
    elif used - steps:
        raise ScheduleError(
            f"decompose_reduction: the guard {guard.left} < {guard.right} mixes elements and "
            "reduction"
        )
