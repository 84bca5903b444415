"""fuse_axes: two neighbouring axes of a block as one."""

from __future__ import annotations

from dataclasses import replace

from edgec.errors import ScheduleError
from edgec.loop.ir import Axis, PrimFunc
from edgec.loop.primitives.lookup import find_block, with_changes
from edgec.loop.rewrite import Substitute
from edgec.numerics.term import Var, as_term, floor_div, floor_mod


def fuse_axes(func: PrimFunc, block: str, first: str, second: str) -> tuple[PrimFunc, str]:
    """Make one axis of two spatial ones, after their loops were fused and their buffers flattened.

        for i_j in 0..20 {                                for i_j in 0..20 {
          block a(i: spatial = i_j // 5,                    block a(i_j: spatial = i_j) {
                  j: spatial = i_j % 5) {           ->        y[i_j] = f(x[i_j])
            y[i * 5 + j] = f(x[i * 5 + j])                } }
        } }

    So primitives that ask which axis an element is made by find one. Requires: both axes are
    spatial and start at 0. Returns the name of the new axis.
    """
    found, _ = find_block(func, block)
    axes = {axis.var.name: axis for axis in found.axes}
    if first not in axes or second not in axes or first == second:
        raise ScheduleError(
            f"fuse_axes: block {block} has no axes {first} and {second}",
            details=(f"axes: {', '.join(axes)}",),
        )
    a, b = axes[first], axes[second]
    if (a.kind, b.kind) != ("spatial", "spatial") or a.var.start or b.var.start:
        raise ScheduleError(f"fuse_axes: {first} and {second} of {block} are not plainly spatial")
    name = f"{first}_{second}"
    if name in axes:
        raise ScheduleError(f"fuse_axes: block {block} already has an axis {name}")
    width = b.var.stop
    var = Var(name, 0, a.var.stop * width)
    fused = Axis(var, "spatial", a.binding * width + b.binding)
    values = {a.var: floor_div(as_term(var), width), b.var: floor_mod(as_term(var), width)}
    replaced = Substitute(values)
    made = replace(
        found,
        axes=tuple(fused if axis is a else axis for axis in found.axes if axis is not b),
        init=None if found.init is None else replaced.stmt(found.init),
        body=replaced.stmt(found.body),
    )
    return with_changes(func, [(found, made)]), name
