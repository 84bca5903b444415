"""Ranges of values; `local` chooses each among all observers' ranges, by its error.

The error is measured at the output of each layer with weights that reads the value, with only this
value quantized, relative to the layer's output. The error of a value without such a reader is its
own. Values that share parameters are measured together.

Samples run many at once in fast products (`edgec.quantizer.batches`): the errors of two observers
are far apart or it does not matter which is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from edgec.graph.ir import Function, Node, Value
from edgec.graph.traits import IntegerForm
from edgec.graph.types import Array, Quant
from edgec.quantizer.batches import Batch, parts_of
from edgec.quantizer.calibrate import Seen, has_weights
from edgec.quantizer.integer_nodes import IntegerNodes
from edgec.quantizer.moments import as_rows, some_input_rows, weights_of
from edgec.quantizer.observers import OBSERVERS, observe_minmax
from edgec.quantizer.scheme import LEVELS, Range, Stored, activation_quant, rounded

#: Rows of a layer's input that are measured, for each sample.
MOST_ROWS = 256


def observed_ranges(
    function: Function, seen: Seen, observer: str, *, symmetric: bool = False
) -> dict[Value, Range]:
    """The range of every float value by one observer's name, or by `local`; see `Ranges`."""
    return Ranges(function, symmetric=symmetric).of(seen, observer)


class Ranges:
    """Ranges of one function's values, each computed once from its statistics.

    Inputs are never clipped: the device will see what the samples hold. LSTM cells, which have
    unused bits, and values that no operator stores are not clipped either.
    """

    def __init__(self, function: Function, *, symmetric: bool = False) -> None:
        self.function, self.symmetric = function, symmetric
        integer_nodes = IntegerNodes(function)
        cells = {
            cell
            for node in function.nodes
            if node.integer_form is IntegerForm.RECURRENT
            for cell in node.outputs[2:]
        }
        whole = {*function.params, *cells}
        self._clipped = [value for value in integer_nodes.stored_values() if value not in whole]
        self._leaders = {
            value: integer_nodes.leader(value) for value in integer_nodes.stored_values()
        }
        # Statistics are kept by the identity of values.
        self._found: dict[tuple[int, str], tuple[Seen, dict[Value, Range]]] = {}

    def of(self, seen: Seen, observer: str) -> dict[Value, Range]:
        key = id(seen), observer
        if key not in self._found:
            found = {v: observe_minmax(counts, LEVELS) for v, counts in seen.histograms.items()}
            if observer == "local":
                found |= self._locally(seen)
            elif observer != "minmax":
                observe = OBSERVERS[observer]
                found |= {v: observe(seen.histograms[v], LEVELS) for v in self._clipped}
            self._found[key] = seen, found
        return dict(self._found[key][1])

    def _locally(self, seen: Seen) -> dict[Value, Range]:
        """The parameters from the observer with the least error, for values that share them."""
        by_name = {name: self.of(seen, name) for name in OBSERVERS}
        groups: dict[Value, list[Value]] = {}
        for value, leader in self._leaders.items():
            groups.setdefault(leader, []).append(value)
        free = set(self._clipped)
        errors = {
            leader: {name: 0.0 for name in OBSERVERS}
            for leader, members in groups.items()
            if free.issuperset(members)
        }
        quants = {
            leader: {name: self._quant(by_name[name], groups[leader]) for name in OBSERVERS}
            for leader in errors
        }
        readers = self.function.consumers()

        def observe(value: Value, array: Array) -> None:
            leader = self._leaders.get(value)
            if leader not in errors:
                return
            found = _errors(value, array, readers.get(value, []), set(quants[leader].values()))
            for name, quant in quants[leader].items():
                errors[leader][name] += found[quant]

        batch = Batch(self.function)
        for part in parts_of(seen.kept, batch.count):
            batch.run(part, observe)
        chosen = {leader: min(some, key=some.__getitem__) for leader, some in errors.items()}
        return {
            value: by_name[chosen[leader]][value]
            for value, leader in self._leaders.items()
            if leader in chosen
        }

    def _quant(self, ranges: Mapping[Value, Range], values: Sequence[Value]) -> Quant:
        low, high = min(ranges[v][0] for v in values), max(ranges[v][1] for v in values)
        return activation_quant(low, high, self.symmetric)


def _errors(
    value: Value, array: Array, readers: Sequence[Node], quants: set[Quant]
) -> dict[Quant, float]:
    """Return for each of the parameters the sum over samples of the relative errors at the value's
    readers. array: the value for one or more samples.
    """
    samples = array.size // value.type.elements
    noises = {quant: rounded(array, Stored(quant)) - array for quant in quants}
    layers: list[Node | None] = [n for n in readers if has_weights(n) and n.inputs[0] is value]
    errors = dict.fromkeys(quants, 0.0)
    for node in layers or [None]:
        power = _squares(node, array, samples)
        power = np.where(power > 0, power, 1.0)
        for quant, noise in noises.items():
            errors[quant] += float(np.sum(_squares(node, noise, samples) / power))
    return errors


def _squares(node: Node | None, x: Array, samples: int) -> Array:
    """The sums of squares [samples] of x, or of a layer's result from x without its bias."""
    if node is not None:
        rows = some_input_rows(node, x, samples, MOST_ROWS)
        weights = as_rows(node, weights_of(node))
        if len(weights) > 1:  # short products of many groups
            x = np.einsum("sgrk,gok->sgro", rows, weights)
        else:
            x = np.matmul(rows, weights.transpose(0, 2, 1))
    flat = x.reshape(samples, -1).astype(np.float64)
    return np.asarray(np.einsum("sn,sn->s", flat, flat))
