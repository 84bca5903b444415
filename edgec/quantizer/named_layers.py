"""Find the layers that a user wants otherwise, by the names that tables and pages show."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TypeVar

from edgec.errors import EdgecError
from edgec.graph.ir import Function, Node, Value
from edgec.quantizer.integer_nodes import IntegerNodes

#: Layers that an error names.
MOST_NAMED = 12

Found = TypeVar("Found", Node, Value)


def named_layers(function: Function, names: Collection[str]) -> frozenset[Node]:
    """The nodes of these names; a node has the name of its output, or of the output of the clip
    after it.

    Raises EdgecError for a name that no node with an integer form has.
    """
    integer_nodes = IntegerNodes(function)
    layers = [node for node in function.nodes if integer_nodes.is_integer(node)]
    known: dict[str, Node] = {}
    for node in layers:
        for name in _names(node, integer_nodes.stored_output(node) or node.outputs[0]):
            known.setdefault(name, node)
    shown = [node.name for node in layers]
    return frozenset(_find(names, known, shown, "to keep in float"))


def named_values(
    function: Function, names: Collection[str], kept: Collection[Node] = ()
) -> frozenset[Value]:
    """The values of these names: they are called like themselves, or like the layer they are of.

    kept: nodes that stay in float. Raises EdgecError for a name that no stored value has.
    """
    integer_nodes = IntegerNodes(function, kept)
    known: dict[str, Value] = {}
    shown: dict[str, None] = {}  # an input that is stored in two shapes is named once
    for value in integer_nodes.stored_values():
        for name in _words(value):
            known.setdefault(name, value)
        shown[name] = None
    for node in function.nodes:
        made = integer_nodes.stored_output(node) if integer_nodes.is_integer(node) else None
        if made is not None:
            for name in _names(node, made):
                known.setdefault(name, made)
    return frozenset(_find(names, known, shown, "to store in int16"))


def _find(
    names: Collection[str], known: Mapping[str, Found], shown: Collection[str], what: str
) -> Iterator[Found]:
    for name in names:
        if name not in known:
            raise EdgecError(
                f"there is no layer {name!r} {what}",
                details=tuple(f"layer {one}" for one in list(shown)[:MOST_NAMED]),
                hint="the table of `edgec quantize` names all layers",
            )
        yield known[name]


def _names(node: Node, made: Value) -> Iterator[str]:
    """made: the node's result, or the result of the clip that is part of it."""
    yield node.name
    yield from _words(node.outputs[0])
    yield from _words(made)


def _words(value: Value) -> Iterator[str]:
    yield value.name
    if value.origin is not None:
        yield value.origin.tensor
