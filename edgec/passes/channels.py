"""Which input channels (indices of the last axis) an output channel of a node depends on."""

from __future__ import annotations

from edgec.graph.ir import Node
from edgec.graph.traits import Channels


def channels_of(node: Node) -> Channels:
    """The operator's trait; SAME only if all operands have the output's channels."""
    if len(node.outputs) != 1 or not node.output.type.shape:
        return Channels.UNKNOWN
    found = node.op.channels(node.attrs, node.input_types, node.output.type)
    if found is not Channels.SAME:
        return found
    last = node.output.type.shape[-1:]
    is_same = all(value.type.shape[-1:] == last for value in node.activations)
    return found if is_same else Channels.UNKNOWN
