"""Graph IR nodes: modules, functions, values and nodes.

    module   = Module(functions: {name: function})          the entry is `main`
    function = Function(name, params: value*, nodes: node*, results: value*, states)
    node     = Node(op, attrs, inputs: value*, outputs: value*, name, sources)
    value    = Value(name, type, origin?) | Constant(name, type, origin?, data)

A function is a straight line of SSA bindings and pure. State is functional: a pair (s, s') in
`states` declares that the result s' is the parameter s of the next run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from edgec.graph.op import Op
from edgec.graph.provenance import Origin
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
    """

    op: Op[Any]
    attrs: Any
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    name: str
    sources: tuple[str, ...] = ()

    @property
    def output(self) -> Value:
        """The only output; ValueError if there are several."""
        (value,) = self.outputs
        return value

    @property
    def input_types(self) -> tuple[TensorType, ...]:
        """Types of the inputs, in order."""
        return tuple(value.type for value in self.inputs)


@dataclass(frozen=True, eq=False)
class Function:
    """A pure straight line of nodes from parameters to results."""

    name: str
    params: tuple[Value, ...]
    nodes: tuple[Node, ...]
    results: tuple[Value, ...]
    states: tuple[tuple[Value, Value], ...] = ()

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

    def constants(self) -> tuple[Constant, ...]:
        """All constants that nodes or results use, in order of first use, each once."""
        seen: dict[Constant, None] = {}
        for node in self.nodes:
            for value in node.inputs:
                if isinstance(value, Constant):
                    seen[value] = None
        for value in self.results:
            if isinstance(value, Constant):
                seen[value] = None
        return tuple(seen)

    def with_nodes(self, nodes: tuple[Node, ...], results: tuple[Value, ...]) -> Function:
        """The same function with another body."""
        return replace(self, nodes=nodes, results=results)


@dataclass(frozen=True, eq=False)
class Module:
    """All functions of a model; `main` is the entry.

    source: file name of the model (no folder). format: "tflite", "onnx" or "text".
    """

    functions: Mapping[str, Function]
    source: str = ""
    format: str = "text"

    @property
    def main(self) -> Function:
        """The entry function."""
        return self.functions["main"]

    def with_main(self, function: Function) -> Module:
        """The same module with another entry function."""
        return replace(self, functions={**self.functions, "main": function})
