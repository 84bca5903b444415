"""Axes whose used length depends on data: every value has its largest size.

Elements after the used length are undefined. So only operators whose results keep the axis may read
such a value: each index depends on the same index of the input (`Operator.axis_after`).
`Operator.filled_axis` defines all elements of the axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgec.errors import TypeMismatch
from edgec.graph.ir import Node, Value
from edgec.graph.operator import Operator

#: By value and axis the value, one int32, that says how many first indices are in use.
OpenAxes = dict[Value, dict[int, Value]]


def axes_after(node: Node, known: Mapping[Value, Mapping[int, Value]]) -> dict[int, Value]:
    """The axes of a node's results whose size depends on data.

    known: of its inputs. Raises TypeMismatch for a node that needs all of such an axis, or whose
    inputs share an axis with possibly different sizes.
    """
    if any(body.counts for body in node.bodies):
        raise TypeMismatch("a body makes values whose sizes data decide")
    found: dict[int, Value] = {}
    for position, value in enumerate(node.inputs):
        for axis, number in known.get(value, {}).items():
            if position == 0 and node.op.filled_axis(node.attrs) == axis:
                continue
            after = _axis_after(node, position, axis)
            if found.setdefault(after, number) is not number:
                raise TypeMismatch(f"data decide two sizes of axis {after} of its result")
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
                    f"axis {axis} of {value} has {extent} elements, and data decide how many that"
                    " of another input has"
                )


def _after(node: Node, position: int, axis: int) -> int | None:
    op: Operator[Any] = node.op
    if node.bodies:
        return None
    result = node.outputs[0].type
    return op.axis_after(node.attrs, node.input_types, position, axis, result)
