"""Cross-layer equalization (arXiv:1906.04721, 4.1): channels of neighbouring layers alike in range.

relu(s * x) = s * relu(x) for s > 0. So channel c of a layer may be made smaller by s[c], and the
weights of the next layer that read it larger by as much, without changing what the two compute:

    s[c] = sqrt(r1[c] / r2[c])          r1, r2: largest weights of channel c in both layers

after which both are sqrt(r1 r2). Layers are taken in pairs, again and again until little changes;
between the two may be a ReLU without upper bound, and nothing else may read what is between.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.types import Array
from edgec.passes.rewriter import Rewriter
from edgec.quantize.calibrate import has_weights
from edgec.quantize.forms import WEIGHTED

#: Turns over all pairs, at most, and the factor below which they end.
MOST_TURNS = 20
LEAST_CHANGE = 1.01
#: Channels are not changed by more than this.
MOST_FACTOR = 1e4


@dataclass
class _Layer:
    """Weights and bias of a node, while they change."""

    node: Node
    weights: Array
    bias: Array

    def output_sizes(self) -> Array:
        """The largest weight of each output channel."""
        axis = WEIGHTED[self.node.op.name]
        others = tuple(a for a in range(self.weights.ndim) if a != axis)
        return np.asarray(np.abs(self.weights).max(axis=others))

    def input_sizes(self) -> Array:
        """The largest weight that reads each input channel."""
        others = tuple(range(self.weights.ndim - 1))
        return np.asarray(np.abs(self.weights).max(axis=others))

    def scale_outputs(self, factors: Array) -> None:
        """Multiply the output channels."""
        shape = [1] * self.weights.ndim
        shape[WEIGHTED[self.node.op.name]] = -1
        self.weights = self.weights * factors.reshape(shape)
        self.bias = self.bias * factors

    def scale_inputs(self, factors: Array) -> None:
        """Multiply the weights that read each input channel; they are the last axis."""
        self.weights = self.weights * factors


def equalize(function: Function) -> Function:
    """The same function with weights of neighbouring layers equalized."""
    layers = {
        node: _Layer(node, *(v.data.astype(np.float64) for v in _constants(node)))
        for node in function.nodes
        if has_weights(node)
    }
    pairs = _pairs(function, layers)
    for _ in range(MOST_TURNS if pairs else 0):
        if max(_balance(first, second) for first, second in pairs) < LEAST_CHANGE:
            break

    def visit(
        rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        layer = layers.get(node)
        if layer is None:
            return None
        builder = rewriter.builder
        constants = [
            builder.constant(old.name, data.astype(np.float32), origin=old.origin)
            for old, data in zip(_constants(node), (layer.weights, layer.bias), strict=True)
        ]
        return rewriter.keep(node, (inputs[0], *constants))

    return Rewriter(function).run(visit) if pairs else function


def _constants(node: Node) -> tuple[Constant, Constant]:
    weights, bias = node.inputs[1:]
    assert isinstance(weights, Constant) and isinstance(bias, Constant)
    return weights, bias


def _pairs(function: Function, layers: dict[Node, _Layer]) -> list[tuple[_Layer, _Layer]]:
    """Layers of which the second alone reads the first, channel by channel."""
    consumers = function.consumers()
    found = []
    for node, first in layers.items():
        value, reader = node.output, _only_reader(node.output, consumers, function)
        if reader is not None and reader.op.name == "clip":
            if reader.attrs.minimum != 0.0 or not np.isinf(reader.attrs.maximum):
                continue
            value, reader = reader.output, _only_reader(reader.output, consumers, function)
        if reader is None or reader not in layers or reader.inputs[0] is not value:
            continue
        if layers[reader].weights.shape[-1] == len(first.bias):
            found.append((first, layers[reader]))
    return found


def _only_reader(
    value: Value, consumers: dict[Value, list[Node]], function: Function
) -> Node | None:
    readers = consumers.get(value, [])
    return readers[0] if len(readers) == 1 and value not in function.results else None


def _balance(first: _Layer, second: _Layer) -> float:
    """Equalize two layers; returns the largest factor by which a channel changed."""
    outputs, inputs = first.output_sizes(), second.input_sizes()
    usable = (outputs > 0) & (inputs > 0)
    ratio = np.divide(inputs, outputs, out=np.ones_like(outputs), where=usable)
    factors = np.clip(np.sqrt(ratio), 1 / MOST_FACTOR, MOST_FACTOR)
    first.scale_outputs(factors)
    second.scale_inputs(1 / factors)
    return float(np.max(np.maximum(factors, 1 / factors)))
