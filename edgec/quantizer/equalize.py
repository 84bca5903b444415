"""Cross-layer equalization (after arXiv:1906.04721, 4.1): similar ranges for all
channels of a value.

Factors t[c] that `edgec.quantizer.channel_groups` leaves free cost nothing at the producer, since
each output channel of weights has its own scale. The paper equalizes weights that have one scale in
all; here the value, which has one scale in all, gains. Its readers may lose: 1 / t spreads the
ranges of their weights along the inputs. A depthwise layer does not lose, as each channel's weights
have one scale; weights that stand for integers already (dynamic range, or quantized in training)
do. So for every other group the factors

    t[c] = min((max r / r[c])^alpha, most)        r: largest magnitude of channel c in some samples

minimize the noise at the outputs of the layers that read the group, relative to these outputs. Few
samples may not show the largest magnitudes: if two halves of them have largest magnitudes a < b for
a channel, other samples may exceed b as much as b exceeds a. So r is b * b / a, but at most max r,
beyond which it is clipped without factors, too. Steps of size d make noise of variance d^2 / 12
(uniform errors); with W the weights of a reader and m[c] the mean square of its inputs, both before
scaling,

    values    (max t r / 255)^2 / 12 * sum W^2 / t^2
    weights   sum over outputs o of (max |W[o] / t| / 127)^2 / 12 * sum t^2 m     of eight bits
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

import numpy as np

from edgec.graph.interpret import interpret
from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.types import Array
from edgec.passes.rewriter import Rewriter
from edgec.quantizer.channel_groups import Group, channel_groups
from edgec.quantizer.moments import products_of
from edgec.quantizer.scheme import limits, own_steps

#: Exponents of the channels' inequality, and the largest factors, to try: a channel that is small
#: in these samples may be large in others.
POWERS = (0.25, 0.5, 0.75, 1.0)
MOST_FACTORS = (2.0, 4.0, 8.0)
#: Factor by which a channel stays below the bound of a clip.
MARGIN = 1.5
#: Steps from end to end of int8.
VALUE_STEPS = 255.0


class _Seen:
    """Over samples, for each value and channel: the largest magnitude and the mean square."""

    def __init__(self, function: Function, samples: Sequence[Sequence[Array]]) -> None:
        self.squares: dict[Value, Array] = {}
        self._halves: tuple[dict[Value, Array], dict[Value, Array]] = ({}, {})
        for index, sample in enumerate(samples):
            interpret(function, sample, partial(self._observe, self._halves[index % 2]))
        self.squares = {value: sums / len(samples) for value, sums in self.squares.items()}
        self.largest = {value: self._bound(value) for value in self.squares}

    def _observe(self, half: dict[Value, Array], value: Value, array: Array) -> None:
        if not value.type.is_float or not value.type.shape:
            return
        rows = np.abs(array.reshape(-1, array.shape[-1])).astype(np.float64)
        half[value] = np.maximum(half.get(value, 0.0), rows.max(axis=0))
        self.squares[value] = self.squares.get(value, 0.0) + np.mean(rows * rows, axis=0)

    def _bound(self, value: Value) -> Array:
        """The largest magnitudes of channels, with room where the halves differ."""
        sides = [half[value] for half in self._halves if value in half]
        low, high = np.minimum(sides[0], sides[-1]), np.maximum(sides[0], sides[-1])
        ratio = np.divide(high, low, out=np.full_like(high, np.inf), where=low > 0)
        room = np.multiply(high, ratio, out=np.zeros_like(high), where=high > 0)
        return np.asarray(np.minimum(room, high.max()))


def equalize(function: Function, samples: Sequence[Sequence[Array]], bits: int = 8) -> Function:
    """The same function with channels equalized where that makes less noise.

    samples: some inputs as `interpret` takes them; without any the function stays as it is. bits:
    of the weights to come.
    """
    groups = [g for g in channel_groups(function) if not any(map(_is_stored, g.readers))]
    if not groups or not samples:
        return function
    seen = _Seen(function, samples)
    factors = [(group, _best_factors(function, group, seen, limits(bits)[1])) for group in groups]
    factors = [(group, each) for group, each in factors if np.any(each != 1.0)]
    return with_factors(function, factors) if factors else function


def with_factors(function: Function, factors: Sequence[tuple[Group, Array]]) -> Function:
    """The same function with each channel of groups times a factor above 0, [channels] for each."""
    weights: dict[Node, Array] = {}
    biases: dict[Node, Array] = {}
    for group, given in factors:
        for node in group.makers:
            each = _repeated(given, node.output)
            shape = [1] * len(node.inputs[1].type.shape)
            shape[products_of(node).outputs] = -1
            weights[node] = weights.get(node, _data(node.inputs[1])) * each.reshape(shape)
            biases[node] = biases.get(node, _data(node.inputs[2])) * each
        for node in group.readers:
            before = weights.get(node, _data(node.inputs[1]))
            weights[node] = before / _along_inputs(node, given)

    def visit(
        rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        if node not in weights:
            return None
        operands = [inputs[0]]
        for old, made in zip(node.inputs[1:], (weights, biases), strict=True):
            assert isinstance(old, Constant)
            data = made[node].astype(np.float32) if node in made else old.data
            operands.append(rewriter.builder.constant(old.name, data, origin=old.origin))
        return rewriter.keep(node, tuple(operands))

    return Rewriter(function).run(visit)


def _is_stored(node: Node) -> bool:
    """Whether a layer's weights stand for integers, which other inputs would no longer be."""
    if products_of(node).is_depthwise:
        return False
    weights = _data(node.inputs[1])
    return bool(np.all(own_steps(weights.reshape(len(weights), -1), limits(8)[1]) > 0))


def _best_factors(function: Function, group: Group, seen: _Seen, most: int) -> Array:
    """The factors [channels] of a group, all 1 where nothing else is better.

    most: the largest stored weight.
    """
    consumers = function.consumers()
    # A value that only a clip reads is not stored.
    stored = [
        value
        for value in group.values
        if [node.op.is_limit for node in consumers.get(value, [])] != [True]
    ]
    sizes = np.max(
        [seen.largest[value].reshape(-1, group.channels).max(axis=0) for value in stored], axis=0
    )
    largest = float(sizes.max())
    none = np.ones(group.channels)
    if not largest or not np.isfinite(largest):
        return none
    ratios = np.divide(largest, sizes, out=np.ones_like(sizes), where=sizes > 0)
    room = np.divide(group.bound, MARGIN * sizes, out=np.ones_like(sizes), where=sizes > 0)
    candidates = [none] + [
        np.minimum(np.minimum(ratios**power, factor), np.maximum(room, 1.0))
        for power, factor in itertools.product(POWERS, MOST_FACTORS)
    ]
    costs = [
        sum(_reader_noise(node, factors, seen, most) for node in group.readers)
        + sum(_sum_noise(node, factors, seen) for node in group.adds)
        for factors in candidates
    ]
    return np.asarray(candidates[int(np.argmin(costs))])


def _reader_noise(node: Node, factors: Array, seen: _Seen, most: int) -> float:
    """Noise at the outputs of a layer that reads the group, of its values and of its weights."""
    x = node.inputs[0]
    weights = _data(node.inputs[1]) / _along_inputs(node, factors)
    each = _repeated(factors, x)
    step = float((each * seen.largest[x]).max()) / VALUE_STEPS
    by_value = step**2 * float(np.sum(weights**2))
    products = products_of(node)
    rows = np.moveaxis(weights, products.outputs, 0)
    rows = rows.reshape(len(rows), -1)
    steps = np.abs(rows).max(axis=1) / most
    squares = each**2 * seen.squares[x]
    if products.is_depthwise:
        powers = np.repeat(squares, len(rows) // len(squares)) * rows.shape[1]
    else:
        powers = np.full(len(rows), squares.sum() * (rows.shape[1] // len(squares)))
    by_weights = float(np.sum(steps**2 * powers))
    signal = float(seen.squares[node.output].sum())
    return (by_value + by_weights) / signal if signal else 0.0


def _sum_noise(node: Node, factors: Array, seen: _Seen) -> float:
    """Noise of a sum within the group, of the values that it adds, in the units they had."""
    noise = 0.0
    for value in node.inputs:
        each = _repeated(factors, value)
        step = float((each * seen.largest[value]).max()) / VALUE_STEPS
        noise += step**2 * float(np.sum(each**-2.0))
    signal = float(seen.squares[node.output].sum())
    return noise / signal if signal else 0.0


def _repeated(factors: Array, value: Value) -> Array:
    """The factors along a value's last axis."""
    return np.tile(factors, value.type.shape[-1] // len(factors))


def _along_inputs(node: Node, factors: Array) -> Array:
    """The factors of a layer's input, along the last axis of its weights."""
    each = _repeated(factors, node.inputs[0])
    if products_of(node).is_depthwise:
        return np.repeat(each, node.inputs[1].type.shape[-1] // len(each))
    return each


def _data(value: Value) -> Array:
    assert isinstance(value, Constant)
    return value.data.astype(np.float64)
