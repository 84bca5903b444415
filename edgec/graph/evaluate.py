"""Constants from nodes that compute with nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.graph.interpret import interpret
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.types import Array
from edgec.numerics.work import now_at

#: A value with more elements is not a shape.
MOST_ELEMENTS = 64


def constant_value(nodes: Sequence[Node], value: Value) -> Array | None:
    """The elements of a small value (a shape) if it depends only on small constants, else None.

    nodes: the nodes before it, in order.
    """
    needed, path = {value}, []
    for node in reversed(nodes):
        if not needed.isdisjoint(node.outputs):
            path.append(node)
            needed.update(node.inputs)
    known: dict[Value, Constant] = {each: each for each in needed if isinstance(each, Constant)}
    made = {output for node in path for output in node.outputs}
    if needed - made - set(known) or any(e.type.elements > MOST_ELEMENTS for e in needed | made):
        return None
    for node in reversed(path):
        known.update(
            zip(node.outputs, evaluate_constant(node, [known[v] for v in node.inputs]), strict=True)
        )
    return known[value].data


def ends(node: Node) -> bool:
    """Whether the node and the nodes in its bodies certainly terminate."""
    inner = (node for body in node.bodies for node in body.nodes)
    return node.op.ends(node.attrs) and all(map(ends, inner))


def evaluate_constant(node: Node, inputs: Sequence[Value]) -> tuple[Constant, ...]:
    """The outputs of a node on constant inputs, with the outputs' own names and provenance."""
    arrays = [value.data for value in inputs if isinstance(value, Constant)]
    types = tuple(value.type for value in node.outputs)
    now_at(node.name)
    if node.bodies:
        results = node.evaluate(arrays, interpret)
    else:
        results = node.op.evaluate(node.attrs, arrays, [value.type for value in inputs], types)
    return tuple(
        Constant(value.name, value.type, value.origin, data=np.asarray(result, order="C"))
        for value, result in zip(node.outputs, results, strict=True)
    )
