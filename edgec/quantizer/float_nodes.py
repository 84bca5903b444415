"""Which nodes of a quantized model compute or read floats, and why: edges, layers that the user
keeps in float, and nodes without an integer form.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from edgec.graph.ir import Function, Node
from edgec.graph.traits import Storage
from edgec.quantizer.integer_nodes import EDGE, IDLE, IntegerNodes

#: Why a node that has an integer form is in float after the passes all the same.
BEYOND = "no integer form has its dtype, scales and attributes"
#: Why a function of elements of int16 is none.
UNTABLED = "no table of int16 is near enough to it"


@dataclass(frozen=True)
class FloatNode:
    """A node with a float operand or result, its operator, and why it is not in integers."""

    name: str
    operator: str
    reason: str


def float_nodes(
    integers: Function, integer_nodes: IntegerNodes, asked: Collection[Node] | None
) -> tuple[FloatNode, ...]:
    """The nodes of `integers` that read or make floats, in order; constant operands do not count.

    integer_nodes: of the float function that the integers were made of. asked: its nodes that the
    user keeps in float, None for all.
    """
    known = {node.name: node for node in integer_nodes.function.nodes}
    known |= {value.name: node for node in integer_nodes.function.nodes for value in node.outputs}
    return tuple(
        FloatNode(node.name, node.op.name, _reason(node, known, integers, integer_nodes, asked))
        for node in integers.nodes
        if any(value.type.is_float for value in (*node.activations, *node.outputs))
    )


def _reason(
    node: Node,
    known: dict[str, Node],
    integers: Function,
    integer_nodes: IntegerNodes,
    asked: Collection[Node] | None,
) -> str:
    if node.op.storage is Storage.QUANTIZE:
        return _stored(node, integers)
    if node.op.storage is Storage.DEQUANTIZE:
        return _restored(node, integers)
    if asked is None:
        return "values stay in float, as the options say"
    old = _first(known, node)
    refusal = None if old is None else _refusal(old, integer_nodes, asked)
    if node.op.movement is not None and refusal in (None, BEYOND):
        return EDGE
    return refusal or f"{node.op.name} has no integer form"


def _first(known: dict[str, Node], node: Node) -> Node | None:
    """A node's origin, found by the first of its names that is known."""
    return next((known[name] for name in _names(node) if name in known), None)


def _refusal(old: Node, integer_nodes: IntegerNodes, asked: Collection[Node]) -> str:
    """Return why a node of the float function has no integer form."""
    has_int8 = "int16" not in old.op.integer_dtypes
    if has_int8 and old in integer_nodes.kept and old not in asked:
        return "its integer form exists for int8 only"
    refusal = integer_nodes.refusal(old)
    is_needed = refusal == IDLE and integer_nodes.is_needed(old.output)
    return UNTABLED if is_needed else refusal or BEYOND


def _names(node: Node) -> Iterator[str]:
    yield node.name
    yield from (value.name for value in node.outputs)
    yield from node.sources


def _stored(node: Node, integers: Function) -> str:
    """Return where the floats come from that a quantize reads."""
    above = integers.producers().get(node.inputs[0])
    return f"it reads {'an input' if above is None else above.name} in float"


def _restored(node: Node, integers: Function) -> str:
    """Return the readers of a dequantize's floats."""
    if any(value in integers.results for value in node.outputs):
        return "it computes a float output of the model"
    readers = integers.consumers().get(node.outputs[0], [])
    names = list(dict.fromkeys(reader.name for reader in readers))
    return f"{', '.join(names)} read{'s' * (len(names) == 1)} floats"
