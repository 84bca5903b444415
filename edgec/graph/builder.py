"""Build a function node by node, with types inferred and names made unique."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from edgec.errors import TooLarge, TypeMismatch
from edgec.graph.extents import infer_types
from edgec.graph.ir import Constant, Count, Function, Node, State, Value
from edgec.graph.open_axes import OpenAxes, axes_after
from edgec.graph.operator import NoAttrs, Operator, get_op
from edgec.graph.provenance import Origin
from edgec.graph.types import Array, Quant, TensorType

#: Bodies that may lie in each other; each takes some twenty calls of Python to read.
MOST_NESTED = 24


class GraphBuilder:
    """Collects parameters, constants and nodes, then makes a `Function`."""

    def __init__(self, name: str = "main") -> None:
        self.name = name
        self.params: list[Value] = []
        self.nodes: list[Node] = []
        self._states: dict[Value, State] = {}
        #: Values that the source's framework leaves partly undefined: they have no provenance.
        self.undefined: set[Value] = set()
        #: By value: axes whose used length depends on data, with the value that holds the length.
        self.open_axes: OpenAxes = {}
        #: Values of open axes that the operator which is imported now has filled or counted.
        self.filled: set[Value] = set()
        #: Places among the nodes where a run may end, and the conditions by which it goes on.
        self.pauses: list[tuple[int, Value]] = []
        self._taken: set[str] = set()
        self._depth = 0

    def inner(self, name: str) -> GraphBuilder:
        """One for a body of a node. Raises TooLarge where it lies in too many others."""
        if self._depth == MOST_NESTED:
            raise TooLarge(
                f"the model is too large: more than {MOST_NESTED} bodies lie in each other at"
                f" {name!r}",
                hint="the file may be damaged: no model nests its branches and loops so deeply",
            )
        found = GraphBuilder(name)
        found._depth = self._depth + 1
        return found

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
        """Set a state's value in the next run; the last call counts. ValueError if it is not a
        state.
        """
        if before not in self._states:
            raise ValueError(f"{before} is not a state")
        self._states[before] = replace(self._states[before], after=after)

    def rename_next(self, value: Value, fresh: Value) -> None:
        """Replace a value by another one in the states' next values."""
        for before, state in self._states.items():
            if state.after is value:
                self._states[before] = replace(state, after=fresh)

    def next_of(self, before: Value) -> Value:
        """A state's value in the next run, as far as it is set."""
        return self._states[before].after

    def next_values(self) -> list[tuple[Value, Value]]:
        """Every state, and its value in the next run."""
        return [(state.before, state.after) for state in self._states.values()]

    def adopt(self, value: Value) -> None:
        """Take over another function's parameter."""
        self._taken.add(value.name)
        self.params.append(value)

    def adopt_node(self, node: Node) -> None:
        """Take over a node of another function whose inputs are values of this one."""
        self._taken.update(value.name for value in node.outputs)
        self.nodes.append(node)

    def constant(
        self, name: str, data: Array, quant: Quant | None = None, origin: Origin | None = None
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
        if self.open_axes:
            self._open_outputs(node)
        self.nodes.append(node)
        return node

    def _open_outputs(self, node: Node) -> None:
        """Find the axes of its outputs whose size depends on data. TypeMismatch names the node."""
        try:
            found = axes_after(node, self.open_axes)
        except TypeMismatch as mismatch:
            raise TypeMismatch(
                f"{node.op.name} node {node.name!r}: {mismatch.message}", hint=mismatch.hint
            ) from None
        for axis, number in found.items():
            for value in node.outputs:
                self.open(value, axis, number)

    def finish(
        self,
        results: Sequence[Value],
        states: tuple[State, ...] = (),
        counts: tuple[Count, ...] = (),
    ) -> Function:
        """The function built so far; states made by `state` are appended to all three.

        states: with adopted parameters; their results are among `results`, and so are the results
        that `counts` names. Results whose size depends on data get their own counts.
        """
        own = tuple(self._states.values())
        params = [*self.params, *(state.before for state in own)]
        results, found = list(results), list(counts)
        numbers: dict[Value, int] = {}
        for output, value in enumerate(tuple(results)):
            for axis, number in self.open_axes.get(value, {}).items():
                if number not in numbers:
                    numbers[number] = len(results)
                    results.append(number)
                found.append(Count(output, axis, numbers[number]))
        results += [state.after for state in own]
        states = (*states, *own)
        return Function(
            self.name, tuple(params), tuple(self.nodes), tuple(results), states, tuple(found)
        )

    def open(self, value: Value, axis: int, number: Value) -> None:
        """Declare that `number` is the used length of a value's axis.

        number: one int32. Elements after it are undefined.
        """
        self.open_axes.setdefault(value, {})[axis] = number
        self.undefined.add(value)
