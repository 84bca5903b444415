"""The growth of the outputs' error when only one layer has other weights.

One streaming pass over samples, many at once. In each part the quantized function runs once; then
for every layer only the nodes after it run again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from edgec.graph.ir import Function, Node, Value
from edgec.graph.types import Array
from edgec.quantizer.batches import Batch, parts_of, squared_error
from edgec.quantizer.insert import insert_qdq, nodes_by_name
from edgec.quantizer.scheme import Scheme, Weights


def losses(
    function: Function,
    scheme: Scheme,
    others: Mapping[Node, Weights],
    samples: Sequence[Sequence[Array]],
    progress: Callable[[], None] | None = None,
) -> dict[Node, float]:
    """Return the growth of the outputs' squared error for each node with other weights, 0 at least.

    Errors of the scheme with these weights and of the scheme as it is are both measured against the
    float function, relative to the sum of the outputs' squares. progress: called for each part.
    """
    quantized = insert_qdq(function, scheme).function
    exact, found = Batch(function), Batch(quantized)
    names = nodes_by_name(quantized)
    twins = {node: names[node.name] for node in others}
    errors, whole, power = dict.fromkeys(others, 0.0), 0.0, 0.0
    for inputs in parts_of(samples, min(exact.count, found.count)):
        wanted = exact.run(inputs)
        known: dict[Value, Array] = {}
        given = found.run(inputs, known.__setitem__)
        power += sum(float(np.sum(y.astype(np.float64) ** 2)) for y in wanted)
        whole += squared_error(wanted, given)
        for node, weights in others.items():
            errors[node] += squared_error(wanted, _rerun(found, known, twins[node], weights))
        if progress is not None:
            progress()
    return {node: max(error - whole, 0.0) / (power or 1.0) for node, error in errors.items()}


def _rerun(batch: Batch, known: Mapping[Value, Array], node: Node, weights: Weights) -> list[Array]:
    """Results with other weights of one node, from all values with the old weights."""
    arrays = {**known, node.inputs[1]: weights.real(), node.inputs[2]: weights.bias}
    count = len(known[batch.function.params[0]])
    changed: set[Value] = set()
    for step in batch.function.nodes:
        if step is node or any(value in changed for value in step.inputs):
            arrays.update(zip(step.outputs, batch.step(step, arrays, count), strict=True))
            changed.update(step.outputs)
    return [arrays[value] for value in batch.function.results]
