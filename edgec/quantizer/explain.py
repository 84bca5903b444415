"""The loss of quantizing: each value's signal against its error, and the layers that cause it.

The integers equal the device's: the passes' integer form runs beside the float function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgec.errors import EdgecError
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function, Value
from edgec.graph.types import Array
from edgec.quantizer.histogram import Histogram
from edgec.quantizer.scheme import Scheme, Stored

#: Bars of a row's histogram.
BARS = 48


@dataclass
class _Sums:
    """Sums over samples of one value: squares of the float form and of its error."""

    signal: float = 0.0
    noise: float = 0.0
    clipped: int = 0
    elements: int = 0

    def add(self, exact: Array, found: Array) -> None:
        x = exact.astype(np.float64)
        self.signal += float(np.sum(x * x))
        self.noise += float(np.sum((x - found) ** 2))
        self.elements += x.size

    @property
    def decibels(self) -> float:
        """10 log10(signal / noise); infinite where nothing differs."""
        if not self.noise:
            return math.inf
        return 10 * math.log10(self.signal / self.noise) if self.signal else -math.inf


@dataclass(frozen=True)
class Bars:
    """A histogram of a value in calibration, in equal bars from `low` to `high`."""

    low: float
    high: float
    counts: tuple[int, ...]


@dataclass(frozen=True)
class LayerRow:
    """One quantized value. low, high: its range; clipped: the share of elements outside of it.

    sqnr_db: signal to noise, 10 log10(sum x^2 / sum (x - x')^2) over all samples, errors of all
    layers before it included; infinite where nothing differs. blame: the part of the outputs' error
    (sum of squares) that goes away when this value and the weights that make it stay in float;
    negative where that makes the error larger; None for views, and where it was not asked for.
    """

    name: str
    operator: str
    dtype: str
    low: float
    high: float
    scale: float
    zero_point: int
    clipped: float
    sqnr_db: float
    blame: float | None
    histogram: Bars


@dataclass(frozen=True)
class OutputRow:
    """An output by its name, and its signal to noise as in `LayerRow`."""

    name: str
    sqnr_db: float


@dataclass(frozen=True)
class Explanation:
    """rows: by layer, in order. output_sqnr_db: of all outputs together; outputs: of each.

    agreement: the share of samples whose largest output is the same. Of labelled samples,
    float_accuracy and accuracy, else None.
    """

    rows: tuple[LayerRow, ...]
    output_sqnr_db: float
    outputs: tuple[OutputRow, ...]
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
    integers: Function,
    scheme: Scheme,
    histograms: dict[Value, Histogram],
    samples: Iterable[Sequence[Array]],
    *,
    labels: Sequence[int] | None = None,
    blames: dict[Value, float] | None = None,
    progress: Callable[[], None] | None = None,
) -> Explanation:
    """Run both forms of a model and compare value by value.

    integers: the passes' form of the quantized function. samples: the inputs of each as `interpret`
    takes them; labels: the right class of each. Raises EdgecError without samples.
    """
    names = {value.name: value for value in integers.values() if value.type.is_quantized}
    pairs = {
        names[f"{old.name}.q"]: old for old in function.values() if f"{old.name}.q" in names
    }  # fmt: skip
    sums = {old: _Sums() for old in pairs.values()}
    total, answers = _Sums(), _Answers()
    each = [_Sums() for _ in function.results]
    for sample in samples:
        floats: dict[Value, Array] = {}
        expected = interpret(function, sample, floats.__setitem__)

        def compare(value: Value, array: Array, floats: dict[Value, Array] = floats) -> None:
            old = pairs.get(value)
            if old is None or value.type.shape != old.type.shape:
                return
            (scale,), (zero_point,) = _parameters(value)
            sums[old].add(floats[old], (array.astype(np.float64) - zero_point) * scale)
            low, high = scheme.values[old].bounds
            # Half a step beyond the range still rounds into it.
            outside = (floats[old] < low - scale / 2) | (floats[old] > high + scale / 2)
            sums[old].clipped += int(np.count_nonzero(outside))

        found = interpret(integers, sample, compare)
        for x, y, one in zip(expected, found, each, strict=True):
            total.add(x, y)
            one.add(x, y)
        answers.reference.append(int(np.argmax(expected[0])))
        answers.found.append(int(np.argmax(found[0])))
        if progress is not None:
            progress()
    if not answers.found:
        raise EdgecError("there is no sample to compare with")
    producers = function.producers()
    rows = tuple(
        _row(
            old,
            "input" if old not in producers else producers[old].op.name,
            scheme.values[old],
            seen,
            (blames or {}).get(old),
            histograms[old],
        )
        for old, seen in sums.items()
        if seen.elements
    )
    outputs = tuple(
        OutputRow(_name(value), one.decibels)
        for value, one in zip(function.results, each, strict=True)
    )
    count = len(answers.found)
    return Explanation(rows, total.decibels, outputs, count, *_shares(answers, labels))


def _name(value: Value) -> str:
    return value.origin.tensor if value.origin else value.name


def _parameters(value: Value) -> tuple[tuple[float, ...], tuple[int, ...]]:
    assert value.type.quant is not None
    return value.type.quant.scale, value.type.quant.zero_point


def _row(
    value: Value, operator: str, stored: Stored, sums: _Sums, blame: float | None, seen: Histogram
) -> LayerRow:
    low, high = stored.bounds
    return LayerRow(
        name=_name(value),
        operator=operator,
        dtype=stored.dtype,
        low=low,
        high=high,
        scale=stored.quant.scale[0],
        zero_point=stored.quant.zero_point[0],
        clipped=sums.clipped / sums.elements,
        sqnr_db=sums.decibels,
        blame=blame,
        histogram=_bars(seen),
    )


def _bars(seen: Histogram) -> Bars:
    """All that was seen, in few bars."""
    low, high = seen.lowest, seen.highest
    if high <= low:
        return Bars(low, high, (seen.total,))
    bar = (seen.centres - low) / (high - low) * BARS
    bars = np.clip(bar.astype(np.int64), 0, BARS - 1)
    counts = np.bincount(bars, weights=seen.counts, minlength=BARS)
    return Bars(low, high, tuple(int(n) for n in counts))


def _shares(
    answers: _Answers, labels: Sequence[int] | None
) -> tuple[float, float | None, float | None]:
    reference, found = np.asarray(answers.reference), np.asarray(answers.found)
    agreement = float(np.mean(reference == found))
    if labels is None:
        return agreement, None, None
    truth = np.asarray(labels)[: len(found)]
    return agreement, float(np.mean(reference == truth)), float(np.mean(found == truth))
