"""flatten_steps: the reduce axes of a sum as one."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from edgec.errors import ScheduleError
from edgec.loop.ir import Axis, Block, For, PrimFunc
from edgec.loop.primitives.lookup import find_block, require_unused, with_changes
from edgec.loop.rewrite import Substitute
from edgec.numerics.term import Var, as_term, floor_div, floor_mod


def flatten_steps(func: PrimFunc, block: str) -> tuple[PrimFunc, str]:
    """Sum over one axis where a sum goes over several, in the same order.

        for acc_i in 0..3 {                      for acc_k in 0..12 {
          for acc_j in 0..4 {                      block acc(c, k) {
            block acc(c, i, j) {          ->         acc[c] = acc[c] + x[k // 4, k % 4]
              acc[c] = acc[c] + x[i, j]          } }
        } } }

    Requires: the innermost loops around the block are those of its reduce axes, from 0 to a
    constant. Returns the name of the loop.
    """
    found, above = find_block(func, block)
    axes = [axis for axis in found.axes if axis.kind == "reduce"]
    loops = [stmt for stmt in above[-len(axes) :] if isinstance(stmt, For)]
    extents = [loop.stop.constant for loop in loops if loop.start.constant == 0]
    are_steps = all(
        axis.binding in (as_term(loop.var), as_term(0))
        for axis, loop in zip(axes, loops, strict=False)
    )
    if not axes or len(extents) != len(axes) or None in extents or not are_steps:
        raise ScheduleError(f"flatten_steps: the innermost loops of {block} are not its steps")
    name = f"{block}_k"
    if loops[0].var.name != name:
        require_unused(func, name)
    sizes = [extent for extent in extents if extent is not None]
    step = Var("k", 0, prod(sizes))
    loop = Var(name, 0, prod(sizes))
    values, rest = {}, as_term(step)
    for at, axis in enumerate(axes, 1):
        inner = prod(sizes[at:])
        values[axis.var], rest = floor_div(rest, inner), floor_mod(rest, inner)
    kept = tuple(axis for axis in found.axes if axis.kind != "reduce")
    changed = Substitute(values).stmt(found)
    assert isinstance(changed, Block)
    made = replace(changed, axes=(*kept, Axis(step, "reduce", as_term(loop))))
    nest = For(loop, as_term(0), as_term(loop.stop), "serial", made)
    return with_changes(func, [(loops[0], nest)]), name
