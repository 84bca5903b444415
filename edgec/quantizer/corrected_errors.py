"""The error of a scheme's outputs with corrected biases, on samples held out.

Bias correction (`edgec.quantizer.bias_correction`) may decide which scheme is best: it removes an
error that all positions share. So schemes are compared with corrected biases. The means of the
float function are computed once. NumPy computes the products (`edgec.quantizer.batches`): accurate
enough for a choice, but not the bits of the generated code.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.types import Array
from edgec.quantizer.batches import Batch
from edgec.quantizer.bias_correction import LEAST_COUNT
from edgec.quantizer.calibrate import Seen, Statistics, has_weights
from edgec.quantizer.held_out import (
    ABOUT_SAME,
    Deviation,
    before_softmax,
    deviation_of_runs,
    fitted_to,
    held_out,
)
from edgec.quantizer.insert import insert_qdq
from edgec.quantizer.scheme import Scheme, Weights

#: The most samples that biases are corrected on. Fewer lose accuracy: a text recogniser in int16
#: has 30.8 dB with the means of 16 pictures of words, and 33.9 dB with 24 pictures.
CORRECTION_SAMPLES = 32


@dataclass(frozen=True)
class _Fold:
    seen: Seen
    samples: Sequence[Sequence[Array]]
    means: Mapping[Node, Array]


class CorrectedErrors:
    """Measures schemes of one function.

    tests: the samples held out from each part that ranges are fitted to. function: up to softmax.
    """

    def __init__(self, function: Function, statistics: Statistics) -> None:
        self.function = before_softmax(function)
        self.tests = held_out(function, statistics)
        self._folds = [self._fold(seen) for seen in fitted_to(statistics)]

    def schemes(self, scheme_of: Callable[[Seen], Scheme], *, correct: bool = True) -> list[Scheme]:
        """The scheme of each test, made from the other samples, with corrected biases."""
        schemes = [scheme_of(fold.seen) for fold in self._folds]
        if not correct:
            return schemes
        return [self._corrected(*pair) for pair in zip(schemes, self._folds, strict=True)]

    def deviation(self, schemes: Sequence[Scheme]) -> Deviation:
        """The errors of the outputs, estimated by rounding values in a float model."""
        batches = [Batch(insert_qdq(self.function, one).function, 1) for one in schemes]
        return deviation_of_runs(self.tests, [batch.run for batch in batches])

    def error(self, schemes: Sequence[Scheme]) -> float:
        """The error e of `edgec.quantizer.held_out.Candidate`, estimated in the same way."""
        return self.deviation(schemes).error

    def choose_biases(self, scheme_of: Callable[[Seen], Scheme]) -> tuple[Deviation, bool]:
        """The errors on samples held out, and whether biases should be corrected.

        Means of few samples are off by chance, and a correction adds that to right biases. So
        biases stay unless the correction clearly helps.
        """
        plain, corrected = (
            self.deviation(self.schemes(scheme_of, correct=correct)) for correct in (False, True)
        )
        is_worth = ABOUT_SAME * corrected.error < plain.error
        return (corrected if is_worth else plain), is_worth

    def _fold(self, seen: Seen) -> _Fold:
        samples = seen.followed[:CORRECTION_SAMPLES]
        sums: dict[Node, Array] = {}
        counts: dict[Node, int] = {}
        producers = self.function.producers()

        def observe(value: Value, array: Array) -> None:
            node = producers.get(value)
            if node is None or not has_weights(node):
                return
            rows = _rows(array)
            sums[node] = sums.get(node, np.float64(0)) + rows.sum(axis=0)
            counts[node] = counts.get(node, 0) + len(rows)

        batch = Batch(self.function, 1)
        for sample in samples:
            batch.run(sample, observe)
        kept = {n: sums[n] / counts[n] for n in sums if counts[n] >= LEAST_COUNT}
        return _Fold(seen, samples, kept)

    def _corrected(self, scheme: Scheme, fold: _Fold) -> Scheme:
        """Correct biases layer by layer, as `corrected_biases` does."""
        quantized = insert_qdq(self.function, scheme).function
        batch = Batch(quantized, 1)
        layers = {node.name: node for node in fold.means if node in scheme.weights}
        weights: dict[Node, Weights] = dict(scheme.weights)
        last = {value: i for i, node in enumerate(quantized.nodes) for value in node.inputs}
        known: list[dict[Value, Array]] = [
            dict(zip(quantized.params, sample, strict=True)) for sample in fold.samples
        ]
        fixed: dict[Value, Array] = {}
        for index, node in enumerate(quantized.nodes):
            if all(isinstance(value, Constant) or value in fixed for value in node.inputs):
                fixed.update(zip(node.outputs, batch.step(node, fixed, 1), strict=True))
                continue
            for arrays in known:
                arrays.update(zip(node.outputs, batch.step(node, ChainMap(arrays, fixed), 1),
                                  strict=True))  # fmt: skip
            layer = layers.get(node.name)
            if layer is not None and node.op is layer.op:  # one name may stand for several nodes
                rows = np.concatenate([_rows(arrays[node.outputs[0]]) for arrays in known])
                shift = rows.mean(axis=0) - fold.means[layer]
                for arrays in known:
                    arrays[node.outputs[0]] = arrays[node.outputs[0]] - shift.astype(np.float32)
                bias = weights[layer].bias.astype(np.float64) - shift
                weights[layer] = replace(weights[layer], bias=bias.astype(np.float32))
            for value in node.inputs:
                if last[value] == index:
                    for arrays in known:
                        arrays.pop(value, None)
        return replace(scheme, weights=weights)


def _rows(array: Array) -> Array:
    """[positions, channels] float64."""
    return array.reshape(-1, array.shape[-1]).astype(np.float64)
