"""Correct biases for what rounding weights does to the mean of every output channel.

Rounded weights give every output the error sum((w' - w) * x); its mean over samples and places is
known from one pass in float and is taken out of the bias (empirical bias correction, after
arXiv:1906.04721, 4.2, with float inputs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from edgec.graph.interpret import interpret
from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.types import Array
from edgec.quantize.insert import WEIGHTED
from edgec.quantize.parameters import quantize_weights


def corrected_biases(
    function: Function,
    samples: Iterable[Sequence[Array]],
    progress: Callable[[], None] | None = None,
) -> dict[Constant, Array]:
    """Float biases [O] that undo the mean error of int8 weights, by the old ones.

    samples: for each, the inputs as `interpret` takes them. progress: called after each sample.
    """
    nodes = [
        node
        for node in function.nodes
        if node.op.name in WEIGHTED
        and node.output.type.is_float
        and all(isinstance(value, Constant) for value in node.inputs[1:])
    ]
    errors = {node: _weight_errors(node) for node in nodes}
    readers: dict[Value, list[Node]] = {}
    for node in nodes:
        readers.setdefault(node.inputs[0], []).append(node)
    sums = {node: np.zeros(node.output.type.shape[-1]) for node in nodes}
    counts = dict.fromkeys(nodes, 0)

    def observe(value: Value, array: Array) -> None:
        for node in readers.get(value, ()):
            (products,) = node.op.evaluate(
                node.attrs, [array, *errors[node]], node.input_types, (node.output.type,)
            )
            rows = products.reshape(-1, products.shape[-1])
            sums[node] += rows.sum(axis=0, dtype=np.float64)
            counts[node] += len(rows)

    for sample in samples:
        interpret(function, sample, observe)
        if progress is not None:
            progress()
    result = {}
    for node in nodes:
        bias = node.inputs[2]
        assert isinstance(bias, Constant)
        mean = sums[node] / max(counts[node], 1)
        result[bias] = (bias.data.astype(np.float64) - mean).astype(np.float32)
    return result


def _weight_errors(node: Node) -> tuple[Array, Array]:
    """Weights that compute the error alone, and a bias of zeros."""
    weights, bias = node.inputs[1:]
    assert isinstance(weights, Constant) and isinstance(bias, Constant)
    axis = WEIGHTED[node.op.name]
    stored, quant = quantize_weights(weights.data, axis)
    shape = [-1 if a == axis else 1 for a in range(stored.ndim)]
    scales = np.asarray(quant.scale, np.float32).reshape(shape)
    error = stored.astype(np.float32) * scales - weights.data
    return error.astype(np.float32), np.zeros_like(bias.data)
