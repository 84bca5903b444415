"""What quantizing cost: each value's signal against the error that integers put into it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgec.graph.interpret import interpret
from edgec.graph.ir import Function, Node, Value
from edgec.graph.types import Array
from edgec.quantize.insert import Quantized
from edgec.quantize.scheme import Stored


@dataclass
class _Sums:
    """Sums over samples of one value: squares of the float form and of its error."""

    signal: float = 0.0
    noise: float = 0.0
    clipped: int = 0
    elements: int = 0


@dataclass(frozen=True)
class LayerRow:
    """One quantized value. low, high: its range; clipped: the share of elements outside of it.

    sqnr_db: signal to noise, 10 log10(sum x^2 / sum (x - x')^2) over all samples, errors of all
    layers before it included; infinite where nothing differs.
    """

    name: str
    operator: str
    low: float
    high: float
    scale: float
    zero_point: int
    clipped: float
    sqnr_db: float


@dataclass(frozen=True)
class Explanation:
    """rows: by layer, in order. output_sqnr_db: of all outputs together.

    agreement: the share of samples whose largest output is the same. Of labelled samples,
    float_accuracy and accuracy, else None.
    """

    rows: tuple[LayerRow, ...]
    output_sqnr_db: float
    samples: int
    agreement: float
    float_accuracy: float | None = None
    accuracy: float | None = None


@dataclass
class _Answers:
    reference: list[int] = field(default_factory=list)
    found: list[int] = field(default_factory=list)


def explain(
    function: Function,
    quantized: Quantized,
    samples: Iterable[Sequence[Array]],
    labels: Sequence[int] | None = None,
    progress: Callable[[], None] | None = None,
) -> Explanation:
    """Run both forms of a model and compare value by value.

    samples: the inputs of each as `interpret` takes them; labels: the right answer to each.
    """
    pairs = _pairs(quantized)
    sums = {value: _Sums() for value in quantized.stored}
    total, answers = _Sums(), _Answers()
    for sample in samples:
        floats: dict[Value, Array] = {}
        restored: dict[Value, Array] = {}
        expected = interpret(function, sample, floats.__setitem__)
        found = interpret(quantized.function, sample, restored.__setitem__)
        for new, old in pairs.items():
            _add(sums[old], floats[old], restored[new], quantized.stored[old])
        for x, y in zip(expected, found, strict=True):
            _add(total, x, y, None)
        answers.reference.append(int(np.argmax(expected[0])))
        answers.found.append(int(np.argmax(found[0])))
        if progress is not None:
            progress()
    producers = function.producers()
    rows = tuple(
        _row(value, producers.get(value), stored, sums[value])
        for value, stored in quantized.stored.items()
    )
    return Explanation(rows, _decibels(total), len(answers.found), *_shares(answers, labels))


def _pairs(quantized: Quantized) -> dict[Value, Value]:
    """From each dequantized value of the QDQ function to the float value it stands for."""
    known = {f"{old.name}.dq": old for old in quantized.stored}
    return {
        node.output: known[node.name]
        for node in quantized.function.nodes
        if node.op.name == "dequantize" and node.name in known
    }


def _add(sums: _Sums, x: Array, y: Array, stored: Stored | None) -> None:
    exact = x.astype(np.float64)
    sums.signal += float(np.sum(exact**2))
    sums.noise += float(np.sum((exact - y) ** 2))
    sums.elements += x.size
    if stored is not None:
        low, high = stored.bounds
        # Half a step beyond the range still rounds into it.
        margin = stored.quant.scale[0] / 2
        sums.clipped += int(np.count_nonzero((x < low - margin) | (x > high + margin)))


def _row(value: Value, above: Node | None, stored: Stored, sums: _Sums) -> LayerRow:
    low, high = stored.bounds
    return LayerRow(
        name=value.origin.tensor if value.origin else value.name,
        operator="input" if above is None else above.op.name,
        low=low,
        high=high,
        scale=stored.quant.scale[0],
        zero_point=stored.quant.zero_point[0],
        clipped=sums.clipped / max(sums.elements, 1),
        sqnr_db=_decibels(sums),
    )


def _decibels(sums: _Sums) -> float:
    if not sums.noise:
        return math.inf
    return 10 * math.log10(sums.signal / sums.noise) if sums.signal else -math.inf


def _shares(
    answers: _Answers, labels: Sequence[int] | None
) -> tuple[float, float | None, float | None]:
    reference, found = np.asarray(answers.reference), np.asarray(answers.found)
    agreement = float(np.mean(reference == found)) if len(found) else 1.0
    if labels is None:
        return agreement, None, None
    truth = np.asarray(labels)[: len(found)]
    return agreement, float(np.mean(reference == truth)), float(np.mean(found == truth))
