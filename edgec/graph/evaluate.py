"""Constants from nodes that compute with nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.graph.ir import Constant, Node, Value


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
