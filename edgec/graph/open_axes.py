"""Check axes whose used length depends on data. Memory is reserved for the longest length.

Elements after the used length are undefined. So an operator may read such a value only if each
index of its result depends on the same index of the input alone (`Operator.axis_after`), or if it
defines all elements of the axis (`Operator.filled_axis`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgec.errors import TypeMismatch
from edgec.graph.ir import Node, Value
from edgec.graph.operator import Operator

#: For each value and axis: the value, one int32, that counts the used indices from the first on.
OpenAxes = dict[Value, dict[int, Value]]


def axes_after(node: Node, known: Mapping[Value, Mapping[int, Value]]) -> dict[int, Value]:
    """Return the axes of a node's results whose size depends on data.

    known: such axes of all values before it. Raises TypeMismatch for a node that needs all
    elements of such an axis, or whose inputs may have different sizes of one axis.
    """
    if any(body.counts for body in node.bodies):
        raise TypeMismatch("a body computes values whose sizes depend on data")
    found: dict[int, Value] = {}
    for position, value in enumerate(node.inputs):
        for axis, number in known.get(value, {}).items():
            if position == 0 and node.op.filled_axis(node.attrs) == axis:
                continue
            after = _axis_after(node, position, axis)
            if found.setdefault(after, number) is not number:
                raise TypeMismatch(f"axis {after} of its result has two sizes that depend on data")
    if found:
        _require_met(node, known, found)
    return found


def _axis_after(node: Node, position: int, axis: int) -> int:
    after = _after(node, position, axis)
    if after is None:
        raise TypeMismatch(
            f"the number of valid elements of {node.inputs[position]} along axis {axis} depends on"
            f" the data, and {node.op.name} needs that number",
            hint="make it an output of the model, and compute the rest outside of it",
        )
    return after


def _require_met(
    node: Node, known: Mapping[Value, Mapping[int, Value]], found: Mapping[int, Value]
) -> None:
    """Raise TypeMismatch if an axis of fixed size meets one whose size depends on data."""
    for position, value in enumerate(node.inputs):
        for axis, extent in enumerate(value.type.shape):
            is_met = extent != 1 and axis not in known.get(value, {})
            if is_met and _after(node, position, axis) in found:
                raise TypeMismatch(
                    f"axis {axis} of {value} has {extent} elements, but another input has a number"
                    " that depends on data"
                )


def _after(node: Node, position: int, axis: int) -> int | None:
    op: Operator[Any] = node.op
    if node.bodies:
        return None
    result = node.outputs[0].type
    return op.axis_after(node.attrs, node.input_types, position, axis, result)
