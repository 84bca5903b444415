"""Each layer's contribution to the outputs' error: its decrease when only this layer stays in
float.

A layer is a quantized value that an operator computes, with its weights. Results that do not depend
on the layer are computed once for all layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgec.graph.interpret import interpret
from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.types import Array
from edgec.quantizer.batches import squared_error
from edgec.quantizer.insert import Quantized, insert_qdq
from edgec.quantizer.integer_nodes import shares_parameters
from edgec.quantizer.scheme import Scheme


def leave_one_out(
    function: Function,
    quantized: Quantized,
    scheme: Scheme,
    samples: Sequence[Sequence[Array]],
    progress: Callable[[], None] | None = None,
) -> dict[Value, float]:
    """Return for each layer the part of the outputs' squared error that this layer causes.

    samples: few will do. progress: called after each layer.
    """
    values = layers_of(function, quantized)
    expected = [interpret(function, sample) for sample in samples]
    known: list[dict[str, Array]] = []
    whole = 0.0
    for sample, wanted in zip(samples, expected, strict=True):
        seen: dict[str, Array] = {}
        found = interpret(quantized.function, sample, _keep(seen))
        known.append(seen)
        whole += squared_error(wanted, found)
    blames = {}
    nodes = {node.name: node for node in quantized.function.nodes}
    for value in values:
        other = insert_qdq(function, scheme, left_out=value).function
        error = sum(
            squared_error(wanted, _rerun(other, sample, nodes, seen))
            for sample, wanted, seen in zip(samples, expected, known, strict=True)
        )
        blames[value] = 1.0 - error / whole if whole else 0.0
        if progress is not None:
            progress()
    return blames


def layers_of(function: Function, quantized: Quantized) -> list[Value]:
    """The values that can be left in float: inputs, and computed (not only moved) values."""
    producers = function.producers()
    return [
        value
        for value in quantized.stored
        if value not in producers or not shares_parameters(producers[value])
    ]


def _keep(seen: dict[str, Array]) -> Callable[[Value, Array], None]:
    def observe(value: Value, array: Array) -> None:
        seen[value.name] = array

    return observe


def _rerun(
    function: Function, sample: Sequence[Array], nodes: dict[str, Node], known: dict[str, Array]
) -> list[Array]:
    """Results of a function; nodes that did the same in an earlier run are not run again."""
    arrays: dict[Value, Array] = dict(zip(function.params, sample, strict=True))
    same = set(function.params)

    def fetch(value: Value) -> Array:
        return value.data if isinstance(value, Constant) else arrays[value]

    for node in function.nodes:
        before = nodes.get(node.name)
        is_same = (
            before is not None
            and [v.name for v in before.inputs] == [v.name for v in node.inputs]
            and before.attrs == node.attrs
            and [v.name for v in before.outputs] == [v.name for v in node.outputs]
            and all(v in same or isinstance(v, Constant) for v in node.inputs)
        )
        if is_same:
            same.update(node.outputs)
            arrays.update((value, known[value.name]) for value in node.outputs)
            continue
        made = node.evaluate([fetch(v) for v in node.inputs], interpret)
        arrays.update(zip(node.outputs, made, strict=True))
    return [fetch(value) for value in function.results]
