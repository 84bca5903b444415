"""Constants from nodes that compute with nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.graph.ir import Constant, Node, Value
from edgec.graph.types import Array


def constant_value(nodes: Sequence[Node], value: Value) -> Array | None:
    """What a value holds if it depends on constants alone, else None.

    nodes: those before it, in order.
    """
    if isinstance(value, Constant):
        return value.data
    for position in range(len(nodes) - 1, -1, -1):
        node = nodes[position]
        if value in node.outputs:
            arrays = [constant_value(nodes[:position], each) for each in node.inputs]
            if not arrays or any(array is None for array in arrays):
                return None
            known = [
                Constant(each.name, each.type, data=array)
                for each, array in zip(node.inputs, arrays, strict=True)
                if array is not None
            ]
            return evaluate_constant(node, known)[node.outputs.index(value)].data
    return None


def evaluate_constant(node: Node, inputs: Sequence[Value]) -> tuple[Constant, ...]:
    """The outputs of a node on constant inputs, with the outputs' own names and provenance."""
    arrays = [value.data for value in inputs if isinstance(value, Constant)]
    results = node.op.evaluate(
        node.attrs,
        arrays,
        [value.type for value in inputs],
        tuple(value.type for value in node.outputs),
    )
    return tuple(
        Constant(value.name, value.type, value.origin, data=np.asarray(result, order="C"))
        for value, result in zip(node.outputs, results, strict=True)
    )
