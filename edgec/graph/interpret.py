"""The reference interpreter: runs any function at any stage, exactly as its operators define."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edgec.errors import ContractError, TypeMismatch
from edgec.graph.extents import function_at, sizes_of, symbols_of
from edgec.graph.ir import Constant, Count, Function, Value
from edgec.graph.types import Array
from edgec.numerics.work import now_at


def interpret(
    function: Function,
    inputs: Sequence[Array],
    observe: Callable[[Value, Array], None] | None = None,
) -> tuple[Array, ...]:
    """Run a function on arrays of its parameters' types and return its results.

    observe: called with every value as it is computed, including values of bodies. Open sizes are
    taken from the inputs' shapes. Raises TypeMismatch for an input of another shape or dtype.
    """
    if symbols_of(param.type for param in function.params):
        function = function_at(function, sizes_of(function, [array.shape for array in inputs]))
    if len(inputs) != len(function.params):
        raise TypeMismatch(f"{len(function.params)} inputs are needed, {len(inputs)} were given")
    known: dict[Value, Array] = {}
    for param, array in zip(function.params, inputs, strict=True):
        if array.shape != param.type.shape or array.dtype != param.type.dtype:
            raise TypeMismatch(
                f"input {param.name}: {param.type.dtype}{list(param.type.shape)} is needed,"
                f" {array.dtype}{list(array.shape)} was given"
            )
        known[param] = array
        if observe:
            observe(param, array)

    def fetch(value: Value) -> Array:
        return value.data if isinstance(value, Constant) else known[value]

    last_use = {v: i for i, node in enumerate(function.nodes) for v in node.inputs}
    keep = set(function.results)
    for index, node in enumerate(function.nodes):
        now_at(node.name)
        arrays = node.evaluate(
            [fetch(value) for value in node.inputs],
            lambda body, given: interpret(body, given, observe),
        )
        for value, array in zip(node.outputs, arrays, strict=True):
            if array.shape != value.type.shape or array.dtype != np.dtype(value.type.dtype):
                raise ContractError(
                    f"{node.op.name} node {node.name!r} gave {array.dtype}{list(array.shape)},"
                    f" not {value.type}"
                )
            known[value] = array
            if observe:
                observe(value, array)
        for value in node.inputs:  # free values without further readers
            if last_use[value] == index and value not in keep:
                known.pop(value, None)
    return tuple(fetch(value) for value in function.results)


class Interpretation:
    """Run after run of one function, its state kept from each to the next."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.state = initial_state(function)

    def run(
        self, inputs: Sequence[Array], observe: Callable[[Value, Array], None] | None = None
    ) -> tuple[Array, ...]:
        """The answers of one run; `inputs` and `observe` as `interpret` takes them."""
        return in_use(self.run_whole(inputs, observe), self.function.counts)

    def run_whole(
        self, inputs: Sequence[Array], observe: Callable[[Value, Array], None] | None = None
    ) -> tuple[Array, ...]:
        """All outputs of one run, each as large as it can be."""
        results = interpret(self.function, [*inputs, *self.state], observe)
        count = len(self.function.outputs)
        self.state = results[count:]
        return results[:count]

    def reset(self) -> None:
        """Go back to the initial state."""
        self.state = initial_state(self.function)


def in_use(outputs: Sequence[Array], counts: Sequence[Count]) -> tuple[Array, ...]:
    """The answers of a model from all of its outputs: of each the part that is in use."""
    answers = list(outputs[: len(outputs) - len({count.number for count in counts})])
    for count in counts:
        number = int(outputs[count.number].reshape(-1)[0])
        whole = (slice(None),) * count.axis
        answers[count.output] = answers[count.output][(*whole, slice(0, number))]
    return tuple(answers)


def initial_state(function: Function) -> tuple[Array, ...]:
    """The parameters of a function's states in the first run."""
    return tuple(state.initial.data for state in function.states)
