"""One streaming pass of samples through a float graph, with a histogram of every value.

Samples alternate between two halves, so that parameters fitted to one half can be tested on the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from edgec.errors import EdgecError
from edgec.graph.interpret import interpret
from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.operator import Fusion
from edgec.graph.traits import IntegerForm
from edgec.graph.types import Array
from edgec.quantizer.histogram import Histogram, joined
from edgec.quantizer.integer_nodes import IntegerNodes, has_infinity
from edgec.quantizer.moments import Moments
from edgec.quantizer.recurrent import cells_of

#: Number of samples kept in full, to try parameters on.
MOST_KEPT = 64
#: And to choose weights with, and between ways to quantize.
MOST_FOLLOWED = 128


@dataclass(frozen=True)
class Seen:
    """histograms: of every float value; for an LSTM's last cell, of the cells of all steps.

    kept, followed: a few of the samples, and more of them. count: how many there were.
    """

    histograms: dict[Value, Histogram]
    kept: tuple[Sequence[Array], ...]
    followed: tuple[Sequence[Array], ...]
    count: int


@dataclass(frozen=True)
class Statistics(Seen):
    """halves: of every other sample, and of the rest.

    moments: of the inputs of every node with weights.
    """

    halves: tuple[Seen, Seen]
    moments: dict[Node, Moments]


class _Some:
    """At most this many samples of a stream, each of them with the same chance."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.samples: list[Sequence[Array]] = []
        self._rng, self._count = np.random.default_rng(0), 0

    def add(self, sample: Sequence[Array]) -> None:
        self._count += 1
        full = len(self.samples) == self.most
        index = int(self._rng.integers(self._count)) if full else len(self.samples)
        if index < self.most:
            self.samples[index : index + 1] = [sample]


def calibrate(
    function: Function,
    samples: Iterable[Sequence[Array]],
    progress: Callable[[], None] | None = None,
) -> Statistics:
    """The statistics of the values of a function without state; see `calibrate_all`."""
    (statistics,) = calibrate_all([function], samples, progress)
    return statistics


def calibrate_all(
    functions: Sequence[Function],
    samples: Iterable[Sequence[Array]],
    progress: Callable[[], None] | None = None,
) -> list[Statistics]:
    """The statistics of the values of functions of the same inputs; samples are read once, one by
    one.

    samples: for each, the inputs as `interpret` takes them. progress: called after each sample.
    Raises EdgecError if there is no sample, or if a sample causes a NaN or an infinity.
    """
    collectors = [_Collector(function) for function in functions]
    kept, followed = ((_Some(most // 2), _Some(most // 2)) for most in (MOST_KEPT, MOST_FOLLOWED))
    count = 0
    for sample in samples:
        for collector in collectors:
            collector.add(sample, count % 2)
        kept[count % 2].add(sample)
        followed[count % 2].add(sample)
        count += 1
        if progress is not None:
            progress()
    if not count:
        raise EdgecError("there is no sample to calibrate with")
    return [collector.statistics(kept, followed, count) for collector in collectors]


def _both(halves: Sequence[_Some]) -> tuple[Sequence[Array], ...]:
    """The samples of two halves, in turn."""
    pairs = zip_longest(*(half.samples for half in halves))
    return tuple(sample for pair in pairs for sample in pair if sample is not None)


class _Collector:
    """The statistics of one function's values, for both halves of the samples."""

    def __init__(self, function: Function) -> None:
        self.function = function
        values = _with_ranges(function)
        self.histograms = tuple({value: Histogram() for value in values} for _ in range(2))
        self.moments = {node: Moments(node) for node in function.nodes if has_weights(node)}
        self._readers: dict[Value, list[Moments]] = {}
        for node, found in self.moments.items():
            self._readers.setdefault(node.inputs[0], []).append(found)
        #: An integer's least stands for minus infinity, which may fill them up.
        self._filled = {
            node.output for node in function.nodes if node.op.filled_axis(node.attrs) is not None
        }
        self._sequences: dict[Value, list[Node]] = {}
        for node in function.nodes:
            is_recurrent = node.integer_form is IntegerForm.RECURRENT and node.outputs[2:]
            if is_recurrent and _has_fixed_states(node):
                self._sequences.setdefault(node.inputs[0], []).append(node)

    def add(self, sample: Sequence[Array], half: int) -> None:
        histograms = self.histograms[half]

        def observe(value: Value, array: Array) -> None:
            if value not in histograms:
                return
            for node in self._sequences.get(value, ()):
                histograms[node.outputs[2]].add(cells_of(node, array))
            try:
                known = array[np.isfinite(array)] if value in self._filled else array
                histograms[value].add(known)
            except EdgecError as error:
                raise EdgecError(f"{value.name}: {error.message}", hint=error.hint) from None
            for found in self._readers.get(value, ()):
                found.add(array)

        interpret(self.function, sample, observe)

    def statistics(
        self, kept: tuple[_Some, _Some], followed: tuple[_Some, _Some], count: int
    ) -> Statistics:
        """The statistics of `count` samples; of some values for each half of the samples."""
        first, second = (
            Seen(
                histograms, tuple(kept[n].samples), tuple(followed[n].samples), (count + 1 - n) // 2
            )
            for n, histograms in enumerate(self.histograms)
        )
        whole = {v: joined(seen, second.histograms[v]) for v, seen in first.histograms.items()}
        return Statistics(whole, _both(kept), _both(followed), count, (first, second), self.moments)


def _with_ranges(function: Function) -> list[Value]:
    """The float values, except unstored values that infinite constants may have reached."""
    found: set[Value] = set()
    for node in function.nodes:
        moves = node.op.fusion in (Fusion.VIEW, Fusion.INJECTIVE) or node.op.is_elementwise
        if has_infinity(node) or (moves and not found.isdisjoint(node.inputs)):
            found.update(node.outputs)
    found.difference_update(IntegerNodes(function).stored_values())
    return [value for value in function.values() if value.type.is_float and value not in found]


def _has_fixed_states(node: Node) -> bool:
    return all(isinstance(value, Constant) for value in node.inputs[1:])


def has_weights(node: Node) -> bool:
    """Whether a float node multiplies with constant weights and adds a constant bias."""
    return (
        node.op.dot_products is not None
        and node.output.type.dtype == "float32"
        and not isinstance(node.inputs[0], Constant)
        and all(isinstance(value, Constant) for value in node.inputs[1:])
    )
