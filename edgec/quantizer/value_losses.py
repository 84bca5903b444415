"""Errors of the outputs when the values of one layer alone are stored in integers.

Values that must have one dtype, and values computed element by element from another one, are one
choice: after int8, int16 would hold no more information. Small noise of one choice hardly changes
the effect of another's on the outputs, so losses add up.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.types import Array
from edgec.quantizer.batches import Batch, squares
from edgec.quantizer.bias_correction import LEAST_COUNT
from edgec.quantizer.calibrate import has_weights
from edgec.quantizer.integer_nodes import IntegerNodes, is_mean
from edgec.quantizer.scheme import Stored, rounded


@dataclass(frozen=True)
class Choice:
    """values: stored, of one dtype. makers, readers: operators on integers beside them."""

    values: tuple[Value, ...]
    makers: tuple[Node, ...]
    readers: tuple[Node, ...]

    @property
    def elements(self) -> int:
        return sum(value.type.elements for value in self.values)

    @property
    def products(self) -> int:
        return sum(node.macs for node in self.readers)

    @property
    def weights(self) -> int:
        """Weights of the nodes that stay in float if these values do."""
        nodes = dict.fromkeys((*self.makers, *self.readers))
        return sum(n.inputs[1].type.elements for n in nodes if n.op.dot_products is not None)


def choices_of(integer_nodes: IntegerNodes) -> list[Choice]:
    """The choices, in order: each stored value belongs to one."""
    stored = integer_nodes.stored_values()
    above: dict[Value, Value] = {}

    def leader(value: Value) -> Value:
        value = integer_nodes.leader(value)
        while value in above:
            value = above[value]
        return value

    def join(one: Value, other: Value) -> None:
        if leader(one) is not leader(other):
            above[leader(other)] = leader(one)

    known = set(stored)
    nodes = [node for node in integer_nodes.function.nodes if integer_nodes.is_integer(node)]
    for value in stored:
        if integer_nodes.source(value) in known:
            join(integer_nodes.source(value), value)
    for node in nodes:
        made = integer_nodes.stored_output(node)
        if is_mean(node) and made is not None:
            join(node.inputs[0], made)
    members: dict[Value, list[Value]] = {}
    for value in stored:
        members.setdefault(leader(value), []).append(value)
    makers: dict[Value, list[Node]] = {one: [] for one in members}
    readers: dict[Value, list[Node]] = {one: [] for one in members}
    for node in nodes:
        made = integer_nodes.stored_output(node)
        if made is not None:
            makers[leader(made)].append(node)
        for one in dict.fromkeys(leader(value) for value in integer_nodes.stored_inputs(node)):
            readers[one].append(node)
    return [
        Choice(tuple(values), tuple(makers[one]), tuple(readers[one]))
        for one, values in members.items()
    ]


class Losses:
    """Measures how storing values changes a function's results, on some samples of its inputs."""

    def __init__(self, function: Function, samples: Sequence[Sequence[Array]]) -> None:
        self.function = function
        self.samples = samples

    def of(
        self,
        choices: Collection[Choice],
        stored: Mapping[Value, Stored],
        progress: Callable[[], None] | None = None,
    ) -> dict[Choice, float]:
        """Return, for each choice alone stored so, the mean over results of squared errors as a
        part of their squares. progress: called for each sample.
        """
        outputs = len(self.function.results)
        batch = Batch(self.function, 1)
        noises = {choice: np.zeros(outputs) for choice in choices}
        powers = np.zeros(outputs)
        for sample in self.samples:
            known: dict[Value, Array] = {}
            wanted = batch.run(sample, known.__setitem__)
            powers += [squares(array) for array in wanted]
            for choice in choices:
                found = self._rerun(batch, known, {value: stored[value] for value in choice.values})
                noises[choice] += [squares(x - y) for x, y in zip(wanted, found, strict=True)]
            if progress is not None:
                progress()
        powers = np.where(powers > 0, powers, 1.0)
        return {choice: float(np.mean(noise / powers)) for choice, noise in noises.items()}

    def _rerun(
        self, batch: Batch, known: dict[Value, Array], stored: Mapping[Value, Stored]
    ) -> Sequence[Array]:
        """The results with some values rounded, from all values without rounding.

        A layer's bias corrects the change of each channel's mean.
        """
        other: dict[Value, Array] = {}

        def fetch(value: Value) -> Array:
            if isinstance(value, Constant):
                return value.data
            return other[value] if value in other else known[value]

        def store(value: Value) -> None:
            if value in stored:
                other[value] = rounded(fetch(value), stored[value])

        for param in self.function.params:
            store(param)
        for node in self.function.nodes:
            if any(value in other for value in node.inputs):
                made = batch.step(node, ChainMap(other, known), 1)
                other.update(zip(node.outputs, made, strict=True))
                if has_weights(node):
                    other[node.output] = _with_means(other[node.output], known[node.output])
            for value in node.outputs:
                store(value)
        return [fetch(value) for value in self.function.results]


def _with_means(array: Array, wanted: Array) -> Array:
    """The array with the means of channels that are wanted, where there are enough to mean."""
    rows = (array - wanted).reshape(-1, array.shape[-1])
    if len(rows) < LEAST_COUNT:
        return array
    return np.asarray(array - rows.mean(axis=0, dtype=np.float64).astype(np.float32))
