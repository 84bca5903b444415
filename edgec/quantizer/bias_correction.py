"""Correct biases, so that quantization does not shift the mean of a layer's output.

Rounded weights shift means, and so do ranges that clip and errors that pass through ReLUs. So some
samples run through the float function and the quantized one, layer after layer. Where the mean of
an output channel differs, the bias is changed by the difference before the next layer runs
(empirical bias correction, arXiv:1906.04721, 4.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgec.graph.interpret import interpret
from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.types import Array
from edgec.quantizer.insert import insert_qdq, nodes_by_name
from edgec.quantizer.scheme import Scheme, Weights

#: Bytes that the largest value may take on all samples; otherwise fewer of them are taken.
MOST_BYTES = 64 << 20
LEAST_SAMPLES = 8
#: A mean of fewer numbers is not reliable.
LEAST_COUNT = 128


def corrected_biases(
    function: Function, scheme: Scheme, samples: Sequence[Sequence[Array]]
) -> Scheme:
    """The scheme with biases that keep the means of layers' outputs, on these samples."""
    quantized = insert_qdq(function, scheme).function
    largest = max(value.type.nbytes for value in function.values())
    samples = samples[: max(LEAST_SAMPLES, MOST_BYTES // max(largest, 1))]
    exact = _Side(function, samples)
    found = _Side(quantized, samples)
    outputs = nodes_by_name(quantized)
    weights: dict[Node, Weights] = dict(scheme.weights)
    for node in function.nodes:
        exact.run_to(node)
        if node not in weights:
            continue
        other = outputs[node.name]
        found.run_to(other)
        wanted, given = exact.rows(node.output), found.rows(other.output)
        if len(wanted) < LEAST_COUNT:
            continue
        shift = (given - wanted).mean(axis=0)
        found.shift(other.output, -shift)
        bias = weights[node].bias.astype(np.float64) - shift
        weights[node] = replace(weights[node], bias=bias.astype(np.float32))
    return replace(scheme, weights=weights)


class _Side:
    """One function on all samples at once, as far as it has been run."""

    def __init__(self, function: Function, samples: Sequence[Sequence[Array]]) -> None:
        self.nodes = function.nodes
        self.done = 0
        self.arrays: dict[Value, list[Array]] = {
            param: [sample[index] for sample in samples]
            for index, param in enumerate(function.params)
        }
        self.count = len(samples)
        self.last_use = {v: i for i, node in enumerate(self.nodes) for v in node.inputs}

    def run_to(self, node: Node) -> None:
        """Run all nodes up to this one; values that nothing reads again are forgotten."""
        while self.done <= self.nodes.index(node):
            step = self.nodes[self.done]
            columns = [
                [value.data] * self.count if isinstance(value, Constant) else self.arrays[value]
                for value in step.inputs
            ]
            results = [step.evaluate(list(row), interpret) for row in zip(*columns, strict=True)]
            for index, value in enumerate(step.outputs):
                self.arrays[value] = [result[index] for result in results]
            for value in step.inputs:
                if self.last_use[value] == self.done:
                    self.arrays.pop(value, None)
            self.done += 1

    def rows(self, value: Value) -> Array:
        """The value on all samples, [rows, channels] float64."""
        stacked = np.stack(self.arrays[value]).astype(np.float64)
        return stacked.reshape(-1, stacked.shape[-1])

    def shift(self, value: Value, by: Array) -> None:
        moved = by.astype(np.float32)
        self.arrays[value] = [array + moved for array in self.arrays[value]]
