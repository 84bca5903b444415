"""Cross-layer equalization (after arXiv:1906.04721, 4.1): channels of a value alike in range.

relu(t x) = t relu(x) for t > 0. So channel c of a value may be made larger by t[c], in the weights
of the layer that makes it, and the weights of the layer that reads it smaller by as much, without
changing what the two compute. The paper makes weights alike, for weights with one scale in all.
Here each output channel of weights has its own scale, so weights that are multiplied by channel
lose nothing, and it is the value, with one scale in all, that gains:

    t[c] = max r / r[c]             r: largest magnitude of channel c in some samples

A layer that reads all channels in each output would lose by it, because its weights become less
alike along its inputs; a depthwise one reads each channel by weights of one scale. So the values
that depthwise convolutions read are equalized. Before them may be a ReLU without upper bound, and
nothing else may read what is between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgec.graph.interpret import interpret
from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.types import Array
from edgec.passes.rewriter import Rewriter
from edgec.quantize.calibrate import has_weights
from edgec.quantize.forms import WEIGHTED

#: Channels are not changed by more than this: what is small in some samples may be large in others.
MOST_FACTOR = 4.0


@dataclass
class _Layer:
    """Weights and bias of a node, while they change."""

    node: Node
    weights: Array
    bias: Array

    def scale_outputs(self, factors: Array) -> None:
        """Multiply the output channels."""
        shape = [1] * self.weights.ndim
        shape[WEIGHTED[self.node.op.name]] = -1
        self.weights = self.weights * factors.reshape(shape)
        self.bias = self.bias * factors

    def scale_inputs(self, factors: Array) -> None:
        """Multiply the weights that read each input channel; they are the last axis."""
        self.weights = self.weights * factors


def equalize(function: Function, samples: Sequence[Sequence[Array]]) -> Function:
    """The same function with channels equalized of what depthwise convolutions read.

    samples: some inputs as `interpret` takes them; without any the function stays as it is.
    """
    layers = {
        node: _Layer(node, *(v.data.astype(np.float64) for v in _constants(node)))
        for node in function.nodes
        if has_weights(node)
    }
    pairs = _pairs(function, layers)
    sizes = {second.node.inputs[0]: np.zeros(len(first.bias)) for first, second in pairs}
    if not sizes or not samples:
        return function

    def observe(value: Value, array: Array) -> None:
        if value in sizes:
            rows = np.abs(array.reshape(-1, array.shape[-1])).astype(np.float64)
            sizes[value] = np.maximum(sizes[value], rows.max(axis=0))

    for sample in samples:
        interpret(function, sample, observe)
    changed = [_balance(first, second, sizes[second.node.inputs[0]]) for first, second in pairs]

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

    return Rewriter(function).run(visit) if any(changed) else function


def _constants(node: Node) -> tuple[Constant, Constant]:
    weights, bias = node.inputs[1:]
    assert isinstance(weights, Constant) and isinstance(bias, Constant)
    return weights, bias


def _pairs(function: Function, layers: dict[Node, _Layer]) -> list[tuple[_Layer, _Layer]]:
    """Layers of which the second, depthwise, alone reads the first."""
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
        # With a channel multiplier, weights of one input channel have several scales: free as well,
        # but they are not in the order that `scale_inputs` needs.
        is_depthwise = reader.op.name == "depthwise_conv2d"
        if is_depthwise and layers[reader].weights.shape[-1] == len(first.bias):
            found.append((first, layers[reader]))
    return found


def _only_reader(
    value: Value, consumers: dict[Value, list[Node]], function: Function
) -> Node | None:
    readers = consumers.get(value, [])
    return readers[0] if len(readers) == 1 and value not in function.results else None


def _balance(first: _Layer, second: _Layer, sizes: Array) -> bool:
    """Equalize what is between two layers; returns whether that changed anything.

    sizes: the largest magnitude of each channel. Channels that were never seen stay.
    """
    largest = float(sizes.max())
    if not largest or not np.isfinite(largest):
        return False
    ratios = np.divide(largest, sizes, out=np.ones_like(sizes), where=sizes > 0)
    factors = np.minimum(ratios, MOST_FACTOR)
    if np.all(factors == 1.0):
        return False
    first.scale_outputs(factors)
    second.scale_inputs(1 / factors)
    return True
