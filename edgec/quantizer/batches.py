"""Run a float function on many samples at once, with fast products: for measuring, not for bits.

Sums of products are taken in float64 by the machine's own matrix product and rounded once, which
hides its order of additions: that differs between cores and numbers of threads. Results differ in
their last bits from `edgec.graph.interpret`, which adds float32 as the generated code does. Nodes
that cannot take several samples at once run sample by sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.types import Array, TensorType
from edgec.quantizer.moments import as_rows, input_rows

#: Gets a value of the function, and its elements for all samples.
Observe = Callable[[Value, Array], None]
#: Samples that run at once.
COUNT = 16


class Batch:
    """A function of one sample, made to run `count` of them at once, or 1 where it cannot."""

    def __init__(self, function: Function, count: int = COUNT) -> None:
        self.function = function
        self.count = count if _can_widen(function) else 1
        self._wide: dict[int, dict[Node, Node]] = {}

    def run(self, inputs: Sequence[Array], observe: Observe | None = None) -> list[Array]:
        """The results [samples, ...] of inputs [samples, ...]."""
        known: dict[Value, Array] = dict(zip(self.function.params, inputs, strict=True))
        last_use = {v: i for i, node in enumerate(self.function.nodes) for v in node.inputs}
        keep = set(self.function.results)
        samples = len(inputs[0]) if self.count > 1 and inputs else 1
        if observe is not None:
            for value, array in known.items():
                observe(value, array)
        for index, node in enumerate(self.function.nodes):
            known.update(zip(node.outputs, self.step(node, known, samples), strict=True))
            if observe is not None:
                for value in node.outputs:
                    observe(value, known[value])
            for value in node.inputs:
                if last_use[value] == index and value not in keep:
                    known.pop(value, None)
        for value in self.function.results:
            if isinstance(value, Constant):
                # Of one sample it has its own shape, as in `interpret`.
                each = np.stack([value.data] * samples) if self.count > 1 else value.data
                known.setdefault(value, each)
        return [known[value] for value in self.function.results]

    def step(self, node: Node, known: Mapping[Value, Array], count: int) -> Sequence[Array]:
        """The results of one node for `count` samples."""
        if self.count == 1:
            wide = node
        else:
            if count not in self._wide:
                self._wide[count] = _widened(self.function, count)
            wide = self._wide[count][node]
        arrays = [
            v.data if isinstance(v, Constant) and v not in known else known[v] for v in node.inputs
        ]
        products = wide.op.dot_products
        mixes = products is not None and not products.is_depthwise
        if mixes and wide.outputs[0].type.dtype == "float32":
            return [_product(wide, arrays[0], arrays[1], arrays[2])]
        return wide.evaluate(arrays, interpret)


def squares(array: Array) -> float:
    """The sum of squares, in float64."""
    return float(np.sum(np.square(array, dtype=np.float64)))


def squared_error(wanted: Sequence[Array], found: Sequence[Array]) -> float:
    """The sum of squared differences over all results."""
    return sum(
        float(np.sum((x.astype(np.float64) - y) ** 2)) for x, y in zip(wanted, found, strict=True)
    )


def parts_of(samples: Sequence[Sequence[Array]], count: int) -> Iterator[list[Array]]:
    """The inputs of samples, `count` at once; the last part may hold fewer."""
    if count == 1:  # an input may have no axes
        yield from map(list, samples)
        return
    for first in range(0, len(samples), count):
        yield [
            np.concatenate(column) for column in zip(*samples[first : first + count], strict=True)
        ]


def _product(node: Node, x: Array, weights: Array, bias: Array) -> Array:
    rows = input_rows(node, x)[0]
    products = rows.astype(np.float64) @ as_rows(node, weights)[0].T + bias
    return np.asarray(products.reshape(node.output.type.shape), np.float32)


def _can_widen(function: Function) -> bool:
    try:
        # An extent that no model is likely to have: samples that change places would show.
        _widened(function, 7919)
    except TypeMismatch:
        return False
    return True


def _widened(function: Function, count: int) -> dict[Node, Node]:
    """Each node as one of `count` samples. Raises TypeMismatch if one mixes samples."""
    builder = GraphBuilder()
    made: dict[Value, Value] = {}
    nodes: dict[Node, Node] = {}
    for param in function.params:
        made[param] = builder.param(param.name, _with_samples(param, count))
    for node in function.nodes:
        if all(isinstance(value, Constant) for value in node.inputs):
            nodes[node] = node  # weights: the same for all samples
            continue
        inputs = [made.get(value, value) for value in node.inputs]
        attrs = node.op.attrs_for_samples(node.attrs, count)
        wide = builder.node(node.op, inputs, attrs, name=node.name)
        for new, old in zip(wide.outputs, node.outputs, strict=True):
            if new.type != _with_samples(old, count):
                raise TypeMismatch(f"{node.name} mixes samples")
            made[old] = new
        nodes[node] = wide
    return nodes


def _with_samples(value: Value, count: int) -> TensorType:
    shape = value.type.shape
    if len(shape) < 2 or shape[0] != 1:
        raise TypeMismatch(f"{value.name} has no axis of samples")
    return value.type.with_shape((count, *shape[1:]))
