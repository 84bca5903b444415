"""A function of the largest sizes as one whose inputs have open sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import starmap

from edgec.errors import EdgecError, ImportFailed
from edgec.graph.extents import infer_types, opened
from edgec.graph.ir import Function, Node, Value
from edgec.graph.types import Types
from edgec.numerics.term import Term

HINT = "give the sizes as numbers, and build the model once for each of them"


def opened_function(
    function: Function, extents: Mapping[str, tuple[Term, ...]], other: Function | None = None
) -> Function:
    """A function of the largest sizes with open inputs; every type follows.

    other: the same function at smaller sizes, to find attributes that depend on sizes.
    """
    if other is not None:
        function = _compared(function, other)
    types = []
    for param in function.params:
        terms = extents.get(param.origin.tensor if param.origin else param.name)
        types.append(opened(param.type, terms) if terms else param.type)
    return _on_types(function, types)


def _on_types(function: Function, types: Types) -> Function:
    """The function whose parameters have these types; the other types are inferred."""
    known = {p: replace(p, type=t) for p, t in zip(function.params, types, strict=True)}
    nodes = [_opened(node, known) for node in function.nodes]
    results = tuple(known.get(value, value) for value in function.results)
    states = tuple(
        replace(s, before=known[s.before], after=known.get(s.after, s.after))
        for s in function.states
    )
    for state in states:
        if state.after.type.extents is not None:
            raise ImportFailed(f"the state {state.before.name!r} would have an open size",
                               hint=HINT)  # fmt: skip
    params = tuple(known[param] for param in function.params)
    return replace(function, params=params, nodes=tuple(nodes), results=results, states=states)


def _compared(function: Function, other: Function) -> Function:
    """The function with attributes that mark which of their numbers depend on sizes."""
    if [node.op.name for node in function.nodes] != [node.op.name for node in other.nodes]:
        return function
    nodes = []
    for node, smaller in zip(function.nodes, other.nodes, strict=True):
        attrs = node.op.attrs_of_two(
            node.attrs, smaller.attrs, node.input_types, smaller.input_types
        )
        bodies = tuple(starmap(_compared, zip(node.bodies, smaller.bodies, strict=True)))
        nodes.append(replace(node, attrs=attrs, bodies=bodies))
    return replace(function, nodes=tuple(nodes))


def _opened(node: Node, known: dict[Value, Value]) -> Node:
    """The node on opened inputs; its outputs are added to `known`."""
    inputs = tuple(known.get(value, value) for value in node.inputs)
    types = [value.type for value in inputs]
    try:
        given = node.op.given_to_bodies(node.attrs, types) if node.bodies else ()
        bodies = tuple(_on_types(body, given) for body in node.bodies)
        made = infer_types(node.op, node.attrs, [body.signature for body in bodies], types)
    except EdgecError as error:
        raise ImportFailed(
            f"node {node.name!r} has no open sizes: {error.message}", hint=HINT
        ) from None
    outputs = tuple(replace(v, type=t) for v, t in zip(node.outputs, made, strict=True))
    known.update(zip(node.outputs, outputs, strict=True))
    return replace(node, inputs=inputs, outputs=outputs, bodies=bodies)


def input_extents(function: Function) -> dict[str, tuple[Term, ...]]:
    """The extents of inputs with open sizes, by name as `opened_function` takes them."""
    return {
        value.origin.tensor if value.origin else value.name: value.type.extents
        for value in function.inputs
        if value.type.extents is not None
    }
