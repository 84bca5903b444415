"""Find the layers that a user wants to stay in float, by the names that tables and pages show."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from edgec.errors import EdgecError
from edgec.graph.ir import Function, Node, Value
from edgec.quantize.forms import Forms

#: Layers that an error names.
MOST_NAMED = 12


def named_layers(function: Function, names: Collection[str]) -> frozenset[Node]:
    """The nodes of these names; a node is called like its output, or that of the clip behind it.

    Raises EdgecError for a name that no node with an integer form has.
    """
    forms = Forms(function)
    known: dict[str, Node] = {}
    layers = [node for node in function.nodes if forms.has_integer_form(node)]
    for node in layers:
        for name in _names(node, forms):
            known.setdefault(name, node)
    for name in names:
        if name not in known:
            raise EdgecError(
                f"there is no layer {name!r} to keep in float",
                details=tuple(f"layer {node.name}" for node in layers[:MOST_NAMED]),
                hint="the table of `edgec quantize` names all layers",
            )
    return frozenset(known[name] for name in names)


def _names(node: Node, forms: Forms) -> Iterator[str]:
    yield node.name
    yield from _words(node.outputs[0])
    if forms.ends_in_clip(node):
        yield from _words(forms.consumers[node.output][0].output)


def _words(value: Value) -> Iterator[str]:
    yield value.name
    if value.origin is not None:
        yield value.origin.tensor
