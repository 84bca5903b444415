"""Which inputs of a function are indices, and below which number: test inputs must stay there."""

from __future__ import annotations

from edgec.graph.ir import Function, Node, Value


def index_limits(function: Function) -> list[int | None]:
    """Return the length of the axis that each input indexes, the least of several; None: no axis.

    An input is followed through operators that only rearrange or convert it. A framework refuses
    indices beyond these limits, while the C takes the last element.
    """
    return [_limit(function, value) for value in function.inputs]


def _limit(function: Function, value: Value) -> int | None:
    same, limits = {value}, []
    for node in function.nodes:
        if len(node.inputs) > 1 and node.inputs[1] in same:
            limits.append(node.op.index_limit(node.attrs, [each.type for each in node.inputs]))
        if len(node.inputs) == 1 and node.inputs[0] in same and _keeps(node):
            same.add(node.output)
    return min((limit for limit in limits if limit is not None), default=None)


def _keeps(node: Node) -> bool:
    return node.op.rearranges or node.op.is_elementwise
