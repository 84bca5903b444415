"""Ranges of values; `local` chooses each among those of all observers, by the error it makes.

The error is measured where the value is used: at the output of each layer with weights that reads
it, with nothing but this value quantized, and relative to what the layer computes. A value that no
such layer reads is measured itself. Values that share parameters are measured together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from edgec.graph.interpret import interpret
from edgec.graph.ir import Function, Node, Value
from edgec.graph.types import Array
from edgec.quantize.calibrate import Seen, has_weights
from edgec.quantize.forms import Forms
from edgec.quantize.moments import as_rows, input_rows, weights_of
from edgec.quantize.observers import OBSERVERS
from edgec.quantize.scheme import LEVELS, Range, Stored, activation_quant, rounded

#: Rows of a layer's input that are measured, for each sample.
MOST_ROWS = 256


def observed_ranges(
    function: Function, seen: Seen, observer: str, *, symmetric: bool = False
) -> dict[Value, Range]:
    """The range of every float value by one observer's name, or by `local`.

    Inputs are never clipped: what a sample holds is what the device will see. Nor are cells of
    LSTMs, which have bits to spare.
    """
    by_name = {
        name: {value: observe(found, LEVELS) for value, found in seen.histograms.items()}
        for name, observe in OBSERVERS.items()
        if observer in (name, "local") or name == "minmax"
    }
    inputs = set(function.params) | _cells(function)
    if observer != "local":
        return {v: by_name["minmax" if v in inputs else observer][v] for v in seen.histograms}
    best = _best_observers(function, seen, by_name, symmetric)
    return {value: by_name[best.get(value, "minmax")][value] for value in seen.histograms}


def _cells(function: Function) -> set[Value]:
    return {node.outputs[2] for node in function.nodes if node.op.name == "lstm_float"}


def _best_observers(
    function: Function,
    seen: Seen,
    by_name: Mapping[str, Mapping[Value, Range]],
    symmetric: bool,
) -> dict[Value, str]:
    forms = Forms(function)
    groups: dict[Value, list[Value]] = {}
    for value in seen.histograms:
        groups.setdefault(forms.leader(value), []).append(value)
    candidates = {
        leader: {
            name: activation_quant(
                min(ranges[v][0] for v in members), max(ranges[v][1] for v in members), symmetric
            )
            for name, ranges in by_name.items()
        }
        for leader, members in groups.items()
        if not set(members) & {*function.params, *_cells(function)}
    }
    readers = function.consumers()
    errors = {leader: dict.fromkeys(by_name, 0.0) for leader in candidates}

    def observe(value: Value, array: Array) -> None:
        leader = forms.leader(value)
        if leader not in candidates or value not in seen.histograms:
            return
        measures = _measures(value, array, readers.get(value, []))
        for name, quant in candidates[leader].items():
            noise = rounded(array, Stored(quant)) - array
            errors[leader][name] += sum(measure(noise) for measure in measures)

    for sample in seen.kept:
        interpret(function, sample, observe)
    chosen = {leader: min(found, key=found.__getitem__) for leader, found in errors.items()}
    return {v: chosen[leader] for leader in chosen for v in groups[leader]}


def _measures(
    value: Value, array: Array, readers: Sequence[Node]
) -> list[Callable[[Array], float]]:
    """Functions from an error of the value to the relative error of what is made of it."""
    weighted = [node for node in readers if has_weights(node) and node.inputs[0] is value]
    return [_through(node, array) for node in weighted] or [_relative(array, lambda x: x)]


def _through(node: Node, array: Array) -> Callable[[Array], float]:
    rows = as_rows(node, weights_of(node)).transpose(0, 2, 1)

    def product(x: Array) -> Array:
        inputs = input_rows(node, x)
        step = -(-inputs.shape[1] // MOST_ROWS)
        return np.asarray(np.matmul(inputs[:, ::step], rows))

    return _relative(array, product)


def _relative(array: Array, function: Callable[[Array], Array]) -> Callable[[Array], float]:
    power = float(np.sum(function(array).astype(np.float64) ** 2)) or 1.0
    return lambda noise: float(np.sum(function(noise).astype(np.float64) ** 2)) / power
