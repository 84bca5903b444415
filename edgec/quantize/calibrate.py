"""One streaming pass of samples through the float graph, counting what every value is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from edgec.errors import EdgecError
from edgec.graph.interpret import interpret
from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.types import Array
from edgec.quantize.forms import WEIGHTED
from edgec.quantize.histogram import Histogram
from edgec.quantize.moments import Moments
from edgec.quantize.recurrent import cells_of

#: Samples that are kept as they are, to try parameters on.
MOST_KEPT = 64
#: And to choose weights with.
MOST_FOLLOWED = 128


@dataclass(frozen=True)
class Statistics:
    """histograms: of every float value; that of an LSTM's last cell has the cells of all steps.

    moments: of the inputs of every node with weights. kept, followed: some of the samples, few and
    more. count: how many there were.
    """

    histograms: dict[Value, Histogram]
    moments: dict[Node, Moments]
    kept: tuple[Sequence[Array], ...]
    followed: tuple[Sequence[Array], ...]
    count: int


class _Some:
    """At most so many samples of a stream, each of them with the same chance."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.samples: list[Sequence[Array]] = []
        self._rng, self._count = np.random.default_rng(0), 0

    def add(self, sample: Sequence[Array]) -> None:
        """The next sample of the stream."""
        self._count += 1
        full = len(self.samples) == self.most
        place = int(self._rng.integers(self._count)) if full else len(self.samples)
        if place < self.most:
            self.samples[place : place + 1] = [sample]


def calibrate(
    function: Function,
    samples: Iterable[Sequence[Array]],
    progress: Callable[[], None] | None = None,
) -> Statistics:
    """What the values of a function without state are; samples are read once, one by one.

    samples: for each, the inputs as `interpret` takes them. progress: called after each sample.
    Raises EdgecError if there is no sample, or one that makes a NaN or an infinity.
    """
    histograms = {value: Histogram() for value in function.values() if value.type.is_float}
    readers: dict[Value, list[Moments]] = {}
    moments = {node: Moments(node) for node in function.nodes if has_weights(node)}
    for node, found in moments.items():
        readers.setdefault(node.inputs[0], []).append(found)

    sequences: dict[Value, list[Node]] = {}
    for node in function.nodes:
        if node.op.name == "lstm_float" and _has_fixed_states(node):
            sequences.setdefault(node.inputs[0], []).append(node)

    def observe(value: Value, array: Array) -> None:
        if value not in histograms:
            return
        for node in sequences.get(value, ()):
            histograms[node.outputs[2]].add(cells_of(node, array))
        try:
            histograms[value].add(array)
        except EdgecError as error:
            raise EdgecError(f"{value.name}: {error.message}", hint=error.hint) from None
        for found in readers.get(value, ()):
            found.add(array)

    kept, followed = _Some(MOST_KEPT), _Some(MOST_FOLLOWED)
    count = 0
    for sample in samples:
        interpret(function, sample, observe)
        count += 1
        kept.add(sample)
        followed.add(sample)
        if progress is not None:
            progress()
    if not count:
        raise EdgecError("there is no sample to calibrate with")
    return Statistics(histograms, moments, tuple(kept.samples), tuple(followed.samples), count)


def _has_fixed_states(node: Node) -> bool:
    return all(isinstance(value, Constant) for value in node.inputs[1:])


def has_weights(node: Node) -> bool:
    """Whether a float node multiplies with constant weights and adds a constant bias."""
    return (
        node.op.name in WEIGHTED
        and node.output.type.dtype == "float32"
        and not isinstance(node.inputs[0], Constant)
        and all(isinstance(value, Constant) for value in node.inputs[1:])
    )
