"""Operators after which a run may end: what follows them becomes the body of an `if`.

    y, s' = rest(x, s)      becomes      y, s' = if (goes on) rest(x, s) else (last y, s)

A run that ends early returns the results of the last complete run, as TFLite Micro leaves
them: they are a state, and at first 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.types import Array, TensorType
from edgec.ops.control import If


def with_pauses(builder: GraphBuilder, results: Sequence[Value]) -> list[Value]:
    """The results of a graph whose rests after `builder.pauses` run only where they go on."""
    results = list(results)
    for first, goes_on in reversed(builder.pauses):
        rest = builder.nodes[first:]
        made = {value for node in rest for value in node.outputs}
        changed = [(state, after) for state, after in builder.next_values() if after in made]
        for value in dict.fromkeys(results):
            if value in made and value not in dict(changed).values():
                state = builder.state(f"{value.name}.last", value.type, _zeros(value.type))
                changed.append((state, value))
        if not changed:
            continue
        del builder.nodes[first:]
        fresh = {}
        for (state, value), chosen in zip(
            changed, _chosen(builder, goes_on, rest, changed), strict=True
        ):
            builder.become(state, chosen)
            fresh[value] = chosen
        results = [fresh.get(value, value) for value in results]
    return results


def _zeros(type_: TensorType) -> Array:
    zero_point = 0 if type_.quant is None else type_.quant.zero_point[0]
    return np.full(type_.shape, zero_point, type_.dtype)


def _chosen(
    builder: GraphBuilder,
    goes_on: Value,
    rest: Sequence[Node],
    changed: Sequence[tuple[Value, Value]],
) -> tuple[Value, ...]:
    """Append an `if`; returns its outputs.

    changed: a state and its new value; if the run ends here, the state stays.
    """
    made = {value for node in rest for value in node.outputs}
    read = [*(value for node in rest for value in node.inputs), *(state for state, _ in changed)]
    given = [v for v in dict.fromkeys(read) if v not in made and not isinstance(v, Constant)]
    bodies = []
    for is_rest in (True, False):
        body = GraphBuilder(f"{goes_on.name}.{'rest' if is_rest else 'end'}")
        inner = {value: body.param(value.name, value.type) for value in given}
        for node in rest if is_rest else ():
            body.adopt_node(replace(node, inputs=tuple(inner.get(v, v) for v in node.inputs)))
        ends = [after if is_rest else inner[state] for state, after in changed]
        bodies.append(body.finish(ends))
    return builder.node(
        If, [goes_on, *given], name=goes_on.name, bodies=tuple(bodies),
        output_names=[value.name for _, value in changed],
        origins=[value.origin for _, value in changed],
    ).outputs  # fmt: skip
