"""Turn operators that keep all bytes into reshapes, and remove operators that do nothing.

1. A transpose that keeps the order of all axes longer than 1 is a reshape.
2. reshape(reshape(x)) is one reshape; a reshape to the same shape is removed.
3. A reshape of a constant is folded.
4. A slice of everything, a pad by nothing and a concat of one are removed.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.traits import Movement
from edgec.ops.reshape import Reshape, attrs_of_view
from edgec.passes.rewriter import Rewriter


def simplify_views(function: Function) -> Function:
    return Rewriter(function).run(_visit)


def _visit(rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]) -> Sequence[Value] | None:
    if _changes_nothing(node) and node.output not in rewriter.old.results:
        return inputs
    if node.op.movement is Movement.PERMUTE:
        if not _keeps_order(inputs[0].type.shape, node.attrs.permutation):
            return None
    elif node.op.movement is not Movement.RESHAPE:
        return None
    value, seen = inputs[0], node.output.type
    above = rewriter.producer(value)
    if above is not None and above.op.movement is Movement.RESHAPE:
        value = above.inputs[0]
    is_same = (value.type.shape, value.type.extents) == (seen.shape, seen.extents)
    if is_same and node.output not in rewriter.old.results:
        return (value,)
    if isinstance(value, Constant) and value.type.quant is None:
        data = value.data.reshape(seen.shape)
        return (rewriter.builder.constant(node.output.name, data, origin=node.output.origin),)
    return rewriter.remake(node, [value], attrs_of_view(seen.shape, seen.extents), op=Reshape)


def _changes_nothing(node: Node) -> bool:
    if len(node.inputs) != 1 or len(node.outputs) != 1:
        return False
    if node.input_types[0] != node.output.type:
        return False
    return node.op.does_nothing(node.attrs)


def _keeps_order(shape: tuple[int, ...], permutation: tuple[int, ...]) -> bool:
    moved = [axis for axis in permutation if shape[axis] != 1]
    return moved == sorted(moved)
