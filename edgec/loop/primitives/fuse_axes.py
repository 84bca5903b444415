"""fuse_axes: two neighbouring axes of a block as one."""

from __future__ import annotations

from dataclasses import replace

from edgec.errors import ScheduleError
from edgec.loop.ir import Axis, Block, PrimFunc
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
    a, b = (_spatial(found, name) for name in (first, second))
    name = f"{first}_{second}"
    if a is b or any(axis.var.name == name for axis in found.axes):
        raise ScheduleError(f"fuse_axes: block {block} has one axis {first}, or one {name}")
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


def _spatial(block: Block, name: str) -> Axis:
    """The axis of this name, which has to be spatial and start at 0."""
    axis = next((each for each in block.axes if each.var.name == name), None)
    if axis is None:
        known = ", ".join(each.var.name for each in block.axes)
        raise ScheduleError(
            f"fuse_axes: block {block.name} has no axis {name}", details=(f"axes: {known}",)
        )
    if axis.kind != "spatial" or axis.var.start:
        raise ScheduleError(f"fuse_axes: axis {name} of {block.name} is not plainly spatial")
    return axis
