"""Bodies of a source's control flow, on their way to functions of the IR.

A body in a model file may read values of the graph around it; a function of the IR may not. So the
importer appends those values to the function's parameters and to the node's inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function, Value
from edgec.graph.types import Array, TensorType


@dataclass
class Body:
    """A body after import.

    results: its results; more nodes may be appended through `builder`. captured: maps a value of
    the outer graph to the parameter that stands for it.
    """

    builder: GraphBuilder
    results: list[Value]
    captured: dict[Value, Value] = field(default_factory=dict)

    def reads(self, value: Value) -> bool:
        """Whether a node reads the value, or it is a result."""
        return value in self.results or any(value in node.inputs for node in self.builder.nodes)


#: Reads a body by its name; for each parameter: its type, or its value where it is constant.
ReadBody = Callable[[str, Sequence["TensorType | Array"]], Body]
#: Appends the nodes of a body, by its name, to the graph around it, on these values.
Inline = Callable[[str, Sequence[Value]], tuple[Value, ...]]


def closed(bodies: Sequence[Body]) -> tuple[tuple[Value, ...], tuple[Function, ...]]:
    """Functions of one node's bodies; captured outer values are their last parameters."""
    outside = tuple(dict.fromkeys(value for body in bodies for value in body.captured))
    functions = []
    for body in bodies:
        inner = set(body.captured.values())
        own = [param for param in body.builder.params if param not in inner]
        taken = [
            body.captured.get(value) or body.builder.param(value.name, value.type)
            for value in outside
        ]
        body.builder.params[:] = [*own, *taken]
        functions.append(body.builder.finish(body.results))
    return outside, tuple(functions)


def given_value(builder: GraphBuilder, name: str, given: TensorType | Array) -> Value:
    """A parameter of a body, or the constant that it always is."""
    if isinstance(given, np.ndarray):
        return builder.constant(name, given)
    return builder.param(name, given)
