"""Build a function node by node, with types inferred and names made unique."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from edgec.errors import TypeMismatch
from edgec.graph.extents import infer_types
from edgec.graph.ir import Constant, Function, Node, State, Value
from edgec.graph.operator import NoAttrs, Operator, get_op
from edgec.graph.provenance import Origin
from edgec.graph.types import Array, Quant, TensorType


class GraphBuilder:
    """Collects parameters, constants and nodes, then makes a `Function`."""

    def __init__(self, name: str = "main") -> None:
        self.name = name
        self.params: list[Value] = []
        self.nodes: list[Node] = []
        self._states: dict[Value, State] = {}
        #: Values of which the source's framework leaves parts undefined: they get no provenance.
        self.undefined: set[Value] = set()
        self._taken: set[str] = set()

    def unique(self, name: str) -> str:
        """`name`, or `name.1`, `name.2` … if it is taken."""
        candidate, number = name, 0
        while candidate in self._taken:
            number += 1
            candidate = f"{name}.{number}"
        self._taken.add(candidate)
        return candidate

    def param(self, name: str, type_: TensorType, origin: Origin | None = None) -> Value:
        """Add a parameter."""
        value = Value(self.unique(name), type_, origin)
        self.params.append(value)
        return value

    def state(
        self, name: str, type_: TensorType, initial: Array, origin: Origin | None = None
    ) -> Value:
        """Add a state and return its parameter; by default (`become`) it stays."""
        value = Value(self.unique(name), type_, origin)
        constant = self.constant(f"{value.name}.initial", initial, type_.quant)
        self._states[value] = State(value, value, constant)
        return value

    def become(self, before: Value, after: Value) -> None:
        """Say what a state is in the next run; the last word counts. ValueError if it is none."""
        if before not in self._states:
            raise ValueError(f"{before} is no state")
        self._states[before] = replace(self._states[before], after=after)

    def rename_next(self, value: Value, fresh: Value) -> None:
        """Take another value object for what states become."""
        for before, state in self._states.items():
            if state.after is value:
                self._states[before] = replace(state, after=fresh)

    def next_of(self, before: Value) -> Value:
        """What a state is in the next run, as far as is known."""
        return self._states[before].after

    def adopt(self, value: Value) -> None:
        """Take over another function's parameter as it is."""
        self._taken.add(value.name)
        self.params.append(value)

    def adopt_node(self, node: Node) -> None:
        """Take over a node of another function whose inputs are values of this one."""
        self._taken.update(value.name for value in node.outputs)
        self.nodes.append(node)

    def constant(
        self,
        name: str,
        data: Array,
        quant: Quant | None = None,
        origin: Origin | None = None,
    ) -> Constant:
        """Make a constant with the data's own shape and dtype."""
        type_ = TensorType(tuple(data.shape), data.dtype.name, quant)
        return Constant(self.unique(name), type_, origin, data=data)

    def op(
        self,
        op: str | Operator[Any] | type[Operator[Any]],
        inputs: Sequence[Value],
        attrs: Any = None,
        *,
        name: str,
        output_names: Sequence[str] | None = None,
        origins: Sequence[Origin | None] | None = None,
        sources: tuple[str, ...] | None = None,
    ) -> Value:
        """Append a node with one output and return that value; TypeMismatch names the node."""
        node = self.node(
            op, inputs, attrs, name=name, output_names=output_names, origins=origins,
            sources=sources,
        )  # fmt: skip
        return node.output

    def node(
        self,
        op: str | Operator[Any] | type[Operator[Any]],
        inputs: Sequence[Value],
        attrs: Any = None,
        *,
        name: str,
        output_names: Sequence[str] | None = None,
        origins: Sequence[Origin | None] | None = None,
        sources: tuple[str, ...] | None = None,
        bodies: tuple[Function, ...] = (),
    ) -> Node:
        """Append a node and return it."""
        chosen = get_op(op)
        attrs = NoAttrs() if attrs is None else attrs
        try:
            types = infer_types(
                chosen, attrs, [body.signature for body in bodies], [v.type for v in inputs]
            )
        except TypeMismatch as mismatch:
            raise TypeMismatch(
                f"{chosen.name} node {name!r}: {mismatch.message}",
                details=mismatch.details or tuple(f"{v}: {v.type}" for v in inputs),
                hint=mismatch.hint,
            ) from None
        names = output_names or [name] * len(types)
        found = origins or [None] * len(types)
        outputs = tuple(
            Value(self.unique(n), t, o) for n, t, o in zip(names, types, found, strict=True)
        )
        node = Node(
            chosen, attrs, tuple(inputs), outputs, name,
            (name,) if sources is None else sources, bodies,
        )  # fmt: skip
        self.nodes.append(node)
        return node

    def finish(self, results: Sequence[Value], states: tuple[State, ...] = ()) -> Function:
        """The function built so far; states made by `state` are appended to all three.

        `states` are those whose parameters were adopted; their results are among `results`.
        """
        own = tuple(self._states.values())
        params = [*self.params, *(state.before for state in own)]
        results = [*results, *(state.after for state in own)]
        states = (*states, *own)
        return Function(self.name, tuple(params), tuple(self.nodes), tuple(results), states)
