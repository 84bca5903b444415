"""Rewrite a function node by node into a new one; every pass stands on this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function, Node, State, Value
from edgec.graph.operator import Operator
from edgec.graph.provenance import Origin

#: Gets the old node and its new inputs; returns the new outputs, or None to keep the node.
Visit = Callable[["Rewriter", Node, tuple[Value, ...]], "Sequence[Value] | None"]


class Rewriter:
    """Builds the new function while mapping old values to new ones.

    Unchanged values keep their names and provenance. A visitor appends nodes through `builder` and
    finds the new nodes through `producer`.
    """

    def __init__(self, function: Function) -> None:
        self.old = function
        self.builder = GraphBuilder(function.name)
        for param in function.params:
            self.builder.adopt(param)
        self._new: dict[Value, Value] = {}
        self._producers: dict[Value, Node] = {}
        self._indexed = 0

    def run(self, visit: Visit) -> Function:
        """Visit every node in order and return the rewritten function, dead nodes removed."""
        for node in self.old.nodes:
            inputs = tuple(self.new(value) for value in node.inputs)
            outputs = visit(self, node, inputs)
            if outputs is None:
                outputs = self.keep(node, inputs)
            for before, after in zip(node.outputs, outputs, strict=True):
                self._new[before] = after
        results = tuple(self.new(value) for value in self.old.results)
        states = tuple(
            State(state.before, self.new(state.after), state.initial) for state in self.old.states
        )
        return eliminate_dead(self.builder.finish(results, states, self.old.counts))

    def new(self, value: Value) -> Value:
        """The value of the new function that replaces an old one."""
        return self._new.get(value, value)

    def producer(self, value: Value) -> Node | None:
        """The new node that makes a new value; None for parameters and constants."""
        for node in self.builder.nodes[self._indexed :]:
            for output in node.outputs:
                self._producers[output] = node
        self._indexed = len(self.builder.nodes)
        return self._producers.get(value)

    def keep(self, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
        """Append the same node on new inputs."""
        if inputs == node.inputs:
            self.builder.adopt_node(node)
            return node.outputs
        return self.remake(node, inputs)

    def remake(
        self,
        node: Node,
        inputs: Sequence[Value],
        attrs: Any = None,
        *,
        op: Operator[Any] | type[Operator[Any]] | None = None,
        name: str = "",
        origins: Sequence[Origin | None] | None = None,
        sources: tuple[str, ...] | None = None,
    ) -> tuple[Value, ...]:
        """Append a node that stands for this one: its outputs keep their names and provenance.

        attrs, op, name, origins, sources: replacements of the node's own.
        """
        made = self.builder.node(
            op or node.op,
            inputs,
            node.attrs if op is None and attrs is None else attrs,
            name=name or node.name,
            output_names=[value.name for value in node.outputs],
            origins=[value.origin for value in node.outputs] if origins is None else origins,
            sources=node.sources if sources is None else sources,
            bodies=node.bodies if op is None else (),
        )
        return made.outputs


def eliminate_dead(function: Function) -> Function:
    """Remove nodes whose outputs nobody reads."""
    live = set(function.results)
    kept: list[Node] = []
    for node in reversed(function.nodes):
        if any(value in live for value in node.outputs):
            kept.append(node)
            live.update(node.activations)
    return function.with_nodes(tuple(reversed(kept)), function.results)
