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

#: Samples that are kept as they are, to try parameters on.
MOST_KEPT = 16


@dataclass(frozen=True)
class Statistics:
    """histograms: of every float value. moments: of the inputs of every node with weights.

    kept: some of the samples. count: how many there were.
    """

    histograms: dict[Value, Histogram]
    moments: dict[Node, Moments]
    kept: tuple[Sequence[Array], ...]
    count: int


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

    def observe(value: Value, array: Array) -> None:
        if value not in histograms:
            return
        try:
            histograms[value].add(array)
        except EdgecError as error:
            raise EdgecError(f"{value.name}: {error.message}", hint=error.hint) from None
        for found in readers.get(value, ()):
            found.add(array)

    kept: list[Sequence[Array]] = []
    rng, count = np.random.default_rng(0), 0
    for sample in samples:
        interpret(function, sample, observe)
        count += 1
        # Each sample so far is among the kept ones with the same chance.
        place = len(kept) if len(kept) < MOST_KEPT else int(rng.integers(count))
        if place < MOST_KEPT:
            kept[place : place + 1] = [sample]
        if progress is not None:
            progress()
    if not count:
        raise EdgecError("there is no sample to calibrate with")
    return Statistics(histograms, moments, tuple(kept), count)


def has_weights(node: Node) -> bool:
    """Whether a float node multiplies with constant weights and adds a constant bias."""
    return (
        node.op.name in WEIGHTED
        and node.output.type.dtype == "float32"
        and not isinstance(node.inputs[0], Constant)
        and all(isinstance(value, Constant) for value in node.inputs[1:])
    )
