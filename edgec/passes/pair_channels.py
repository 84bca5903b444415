"""Order channels so that kernels can hold the weights of two in one word; every bit stays.

A DSP kernel takes two output channels a and b together, whose weights share words as a + 256 * b.
That has no place where b's weight is -128 and a's is negative (`can_share_words`). Quantizers that
use -128 leave about one such weight in every second channel, and one pair is enough to keep a
layer from the kernel. The order of channels inside a network is free, so they are paired anew.

1. Values whose channels must have the same order are a class: a depthwise convolution's input and
   output, the operands of an addition. Inputs and outputs of the function keep their order.
2. If a pair of channels does not fit in some layer of a class, the class takes the order of a
   matching whose pairs fit in all its layers; without a matching it stays.
3. Weights, biases and multipliers are reordered; each value's provenance has its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.provenance import Origin
from edgec.graph.traits import Channels, Products
from edgec.graph.types import Array, Quant
from edgec.passes.channels import channels_of
from edgec.passes.rewriter import Rewriter
from edgec.targets.dsp.kernels.matrix import can_share_words

Order = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def pair_channels(function: Function) -> Function:
    """The function with channels in another order where that lets weights share words."""
    orders = _orders(function)
    return Rewriter(function).run(_Reorder(orders)) if orders else function


def _orders(function: Function) -> dict[Value, Order]:
    """The new order of each value that gets one: channel order[i] of old becomes channel i."""
    classes = _classes(function)
    fitting: dict[Value, Flags] = {}
    for node in function.nodes:
        if _mixes(node) and _follows(node) and node.output in classes:
            root = classes[node.output]
            weights = node.inputs[1]
            assert isinstance(weights, Constant)
            fits = can_share_words(weights.data)
            fitting[root] = fitting[root] & fits if root in fitting else fits
    found = {}
    for root, fits in fitting.items():
        channels = np.arange(len(fits))
        if len(fits) % 2 or fits[channels[::2], channels[1::2]].all():
            continue
        order = pairing(fits)
        if order is not None:
            found[root] = order
    return {value: found[root] for value, root in classes.items() if root in found}


def pairing(fits: Flags) -> Order | None:
    """An order of an even number of channels in which every pair fits; None if none was found.

    fits: [first, second] whether the two can be a pair. The channel with the fewest partners
    left goes first, to the partner that has the fewest itself.
    """
    either = fits | fits.T
    np.fill_diagonal(either, False)
    left = np.ones(len(fits), bool)
    pairs: list[tuple[int, int]] = []
    while left.any():
        partners = np.where(left, (either & left).sum(axis=1), len(fits) + 1)
        a = int(partners.argmin())
        candidates = either[a] & left
        if not candidates.any():
            return None
        b = int(np.where(candidates, partners, len(fits) + 1).argmin())
        pairs.append((a, b) if fits[a, b] else (b, a))
        left[[a, b]] = False
    return np.array(sorted(pairs), np.int64).reshape(-1)


def _classes(function: Function) -> dict[Value, Value]:
    """Return the representative of its class, for each value that may be reordered."""
    roots: dict[Value, Value] = {value: value for value in function.values()}

    def find(value: Value) -> Value:
        while roots[value] is not value:
            value = roots[value]
        return value

    fixed = {*function.params, *function.results}
    for state in function.states:
        fixed |= {state.before, state.after}
    for node in function.nodes:
        data = node.activations
        if _mixes(node) and _follows(node):
            continue
        if _follows(node):
            for value in data:
                roots[find(value)] = find(node.output)
        else:
            fixed.update((*data, *node.outputs))
    kept = {find(value) for value in fixed}
    return {value: find(value) for value in roots if find(value) not in kept}


def _follows(node: Node) -> bool:
    """Whether the node computes the same with its channels in another order."""
    if len(node.outputs) != 1 or not node.output.type.shape:
        return False
    constants = [value for value in node.inputs if isinstance(value, Constant)]
    if node.op.dot_products is not None:
        is_plain = len(constants) == 2 and node.inputs[0].type.dtype in ("int8", "int16")
        return is_plain and channels_of(node) in (Channels.SAME, Channels.MIXED)
    if constants or node.inputs[0].type.shape[-1:] != node.output.type.shape[-1:]:
        return False
    return channels_of(node) in (Channels.SAME, Channels.REPEATED)


def _mixes(node: Node) -> bool:
    """Whether input and output channels have nothing to do with each other."""
    return channels_of(node) is Channels.MIXED


class _Reorder:
    """Rewrites every node one of whose values has a new order."""

    def __init__(self, orders: dict[Value, Order]) -> None:
        self.orders = orders

    def __call__(
        self, rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if not any(value in self.orders for value in (*node.inputs, *node.outputs)):
            return None
        attrs = node.attrs
        order = self.orders.get(node.output)
        if node.op.dot_products is not None:
            inputs = (inputs[0], *self._weights(rewriter, node, node.op.dot_products))
        elif order is not None:
            attrs = node.op.attrs_for_channels(attrs, [int(c) for c in order])
        origins = [_ordered_origin(node.output, order)]
        return rewriter.remake(node, inputs, attrs, origins=origins)

    def _weights(self, rewriter: Rewriter, node: Node, products: Products) -> tuple[Value, Value]:
        x, w, b = node.inputs
        assert isinstance(w, Constant) and isinstance(b, Constant)
        data, quant, bias = w.data, w.type.quant, b.data
        order = self.orders.get(node.output)
        if order is not None:
            data, bias = data.take(order, products.outputs), bias[order]
            quant = (
                None if quant is None else quant.taken(products.outputs, [int(c) for c in order])
            )
        if x in self.orders and products.inputs is not None:
            data = data.take(self.orders[x], products.inputs)
        return (_constant(rewriter, w, data, quant), _constant(rewriter, b, bias, b.type.quant))


def _ordered_origin(value: Value, order: Order | None) -> Origin | None:
    if value.origin is None or order is None:
        return value.origin
    before = value.origin.kept_channels or range(value.type.shape[-1])
    return replace(value.origin, kept_channels=tuple(before[c] for c in order))


def _constant(rewriter: Rewriter, old: Constant, data: Array, quant: Quant | None) -> Constant:
    return rewriter.builder.constant(f"{old.name}.paired", np.ascontiguousarray(data), quant)
