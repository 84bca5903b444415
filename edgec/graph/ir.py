"""Graph IR nodes: modules, functions, values and nodes.

    module   = Module(functions: {name: function})          the entry is `main`
    function = Function(name, params: value*, nodes: node*, results: value*, states: state*,
                        counts: count*)
    count    = Count(output, axis, number)
    state    = State(before: value, after: value, initial: Constant)
    node     = Node(op, attrs, inputs: value*, outputs: value*, name, sources, bodies: function*)
    value    = Value(name, type, origin?) | Constant(name, type, origin?, data)

A function is a straight line of SSA bindings and pure. State is functional: a `State` declares that
the result `after` of one run is the parameter `before` of the next. A function's last parameters
and last results belong to its states, in their order:

    main(x, s, t) -> (y, s', t')        states (s, s'), (t, t'), inputs (x), outputs (y)

Control flow is nodes with functions as bodies. A body is closed: it reads only its parameters and
constants, and has no states; a loop's carried values are parameters and results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from edgec.graph.operator import Operator, Signature
from edgec.graph.provenance import Origin
from edgec.graph.traits import IntegerForm
from edgec.graph.types import Array, TensorType


@dataclass(frozen=True, eq=False)
class Value:
    """An edge of the graph. Compared by identity; `name` is unique within a function."""

    name: str
    type: TensorType
    origin: Origin | None = None

    def __str__(self) -> str:
        return f"%{self.name}"


@dataclass(frozen=True, eq=False)
class Constant(Value):
    """A value known at compile time; `data` has exactly the type's shape and dtype."""

    data: Array = field(kw_only=True)

    def __post_init__(self) -> None:
        if self.data.shape != self.type.shape or self.data.dtype != self.type.dtype:
            raise ValueError(
                f"constant {self.name}: data {self.data.dtype}{list(self.data.shape)}"
                f" is not {self.type}"
            )

    def __str__(self) -> str:
        return f"@{self.name}"


@dataclass(frozen=True, eq=False)
class Node:
    """One use of an operator: outputs = op(inputs, attrs).

    name: the model's own name of the node. sources: all source nodes that this one stands for.
    bodies: the functions that control flow runs.
    """

    op: Operator[Any]
    attrs: Any
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    name: str
    sources: tuple[str, ...] = ()
    bodies: tuple[Function, ...] = ()

    @property
    def output(self) -> Value:
        """The only output; ValueError if there are several."""
        (value,) = self.outputs
        return value

    @property
    def integer_form(self) -> IntegerForm | None:
        """The quantizer's rule for the operator on integers."""
        return self.op.form_of(self.attrs)

    @property
    def activations(self) -> tuple[Value, ...]:
        """The inputs that are not constants."""
        return tuple(value for value in self.inputs if not isinstance(value, Constant))

    @property
    def operands(self) -> tuple[Value, ...]:
        """The inputs that are not constants and hold the elements of results."""
        steering = {self.inputs[n] for n in self.op.steering}
        return tuple(value for value in self.activations if value not in steering)

    @property
    def macs(self) -> int:
        """Number of products."""
        if self.bodies:
            macs = [body.macs for body in self.bodies]
            return self.op.macs_of_bodies(self.attrs, macs, self.input_types)
        return self.op.macs(self.attrs, self.input_types)

    @property
    def steps(self) -> int:
        """Number of computations in sequence in the reference."""
        if self.bodies:
            steps = [sum(node.steps for node in body.nodes) for body in self.bodies]
            return self.op.macs_of_bodies(self.attrs, steps, self.input_types)
        return self.op.steps(self.attrs, self.input_types)

    @property
    def input_types(self) -> tuple[TensorType, ...]:
        """Types of the inputs, in order."""
        return tuple(value.type for value in self.inputs)

    def evaluate(
        self, inputs: Sequence[Array], run: Callable[[Function, Sequence[Array]], Sequence[Array]]
    ) -> tuple[Array, ...]:
        """The outputs for these inputs; `run` computes the results of a body."""
        if self.bodies:
            runs = [partial(run, body) for body in self.bodies]
            return self.op.evaluate_bodies(self.attrs, runs, inputs)
        types = tuple(value.type for value in self.outputs)
        return self.op.evaluate(self.attrs, inputs, self.input_types, types)


@dataclass(frozen=True)
class State:
    """A value that lives from one run to the next: the result `after` is the next run's `before`.

    initial: `before` in the first run and after a reset. All three have one type.
    """

    before: Value
    after: Value
    initial: Constant


@dataclass(frozen=True)
class Count:
    """The used length of an output that depends on data; the output has its largest size.

    The result at position `number`, one int32, is the used length of `axis` of the output at this
    position.
    """

    output: int
    axis: int
    number: int


@dataclass(frozen=True, eq=False)
class Function:
    """A pure straight line of nodes from parameters to results.

    counts: how much of its outputs is in use, where data decide that. The results that say so are
    the last outputs.
    """

    name: str
    params: tuple[Value, ...]
    nodes: tuple[Node, ...]
    results: tuple[Value, ...]
    states: tuple[State, ...] = ()
    counts: tuple[Count, ...] = ()

    @property
    def signature(self) -> Signature:
        """The types of its parameters and results."""
        params, results = (tuple(v.type for v in each) for each in (self.params, self.results))
        return Signature(params, results)

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The parameters that the caller passes in each run."""
        return self.params[: len(self.params) - len(self.states)]

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The results that the caller gets from each run."""
        return self.results[: len(self.results) - len(self.states)]

    @property
    def answers(self) -> tuple[Value, ...]:
        """The outputs of the model without the counts, which state how much of others is in use."""
        return self.outputs[: len(self.outputs) - len({count.number for count in self.counts})]

    @property
    def macs(self) -> int:
        """Number of products in one run."""
        return sum(node.macs for node in self.nodes)

    def producers(self) -> dict[Value, Node]:
        """The node that makes each value (parameters and constants are absent)."""
        return {output: node for node in self.nodes for output in node.outputs}

    def consumers(self) -> dict[Value, list[Node]]:
        """The nodes that read each value, in order; results are not counted."""
        found: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(node.inputs):
                found.setdefault(value, []).append(node)
        return found

    def values(self) -> Iterator[Value]:
        """Parameters and all node outputs, in order; no constants."""
        yield from self.params
        for node in self.nodes:
            yield from node.outputs

    def inner_values(self) -> Iterator[tuple[str, Value]]:
        """The values in bodies of nodes, at any depth, each by its path: `node/body/value`."""
        for node in self.nodes:
            for body in node.bodies:
                path = f"{node.name}/{body.name}"
                for inner in body.nodes:
                    yield from ((f"{path}/{value.name}", value) for value in inner.outputs)
                yield from ((f"{path}/{name}", value) for name, value in body.inner_values())

    def constants(self) -> tuple[Constant, ...]:
        """All constants of nodes, results and states, in order of first use, each once."""
        seen: dict[Constant, None] = {}
        for node in self.nodes:
            for value in node.inputs:
                if isinstance(value, Constant):
                    seen[value] = None
        for value in self.results:
            if isinstance(value, Constant):
                seen[value] = None
        for state in self.states:
            seen[state.initial] = None
        return tuple(seen)

    def with_bodies(self, change: Callable[[Function], Function]) -> Function:
        """The same function with each body of its nodes changed; itself if there is none."""
        if not any(node.bodies for node in self.nodes):
            return self
        nodes = tuple(
            replace(node, bodies=tuple(map(change, node.bodies))) if node.bodies else node
            for node in self.nodes
        )
        return replace(self, nodes=nodes)

    def walk(self) -> Iterator[Function]:
        """This function and, at any depth, the bodies of its nodes, in order."""
        yield self
        for node in self.nodes:
            for body in node.bodies:
                yield from body.walk()

    def with_nodes(self, nodes: tuple[Node, ...], results: tuple[Value, ...]) -> Function:
        """The same function with another body."""
        return replace(self, nodes=nodes, results=results)


@dataclass(frozen=True, eq=False)
class Module:
    """All functions of a model; `main` is the entry.

    source: file name of the model (no folder). format: "tflite", "onnx", "torch" or "text".
    """

    functions: Mapping[str, Function]
    source: str = ""
    format: str = "text"

    @property
    def main(self) -> Function:
        """The entry function."""
        return self.functions["main"]

    def with_every(self, change: Callable[..., Function], *given: object) -> Module:
        """The module with main and, at any depth, the bodies of its nodes changed, innermost first.

        given: further arguments of `change`. A body that several nodes share stays one.
        """
        done: dict[Function, Function] = {}

        def changed(function: Function) -> Function:
            if function not in done:
                done[function] = change(function.with_bodies(changed), *given)
            return done[function]

        return self.with_main(changed(self.main))

    def with_main(self, function: Function) -> Module:
        """The same module with another entry function."""
        return replace(self, functions={**self.functions, "main": function})
