"""Integer intervals of every channel of a quantized graph: the range of stored values.

For each value: the smallest and largest stored integer at each index of the last axis, over all
inputs; each operator computes its interval from its operands'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.traits import Interval, Operand
from edgec.graph.types import TensorType


def channel_intervals(function: Function) -> dict[Value, Interval]:
    """Intervals of all integer values with a last axis; others are absent."""
    return intervals_of(function.params, function.nodes)


def intervals_of(params: Sequence[Value], nodes: Sequence[Node]) -> dict[Value, Interval]:
    """Intervals of these nodes' outputs, in order, if parameters can be anything."""
    found: dict[Value, Interval] = {}
    for param in params:
        whole = _whole(param.type)
        if whole is not None:
            found[param] = whole
    for node in nodes:
        interval = node_interval(node, found)
        for output in node.outputs:
            known = interval or _whole(output.type)
            if known is not None:
                found[output] = known
    return found


def node_interval(node: Node, found: Mapping[Value, Interval]) -> Interval | None:
    """The interval of a node's result for inputs with these intervals; None if unknown."""
    if len(node.outputs) != 1:
        return None
    return node.op.interval(node.attrs, operands_of(node, found), node.output.type)


def operands_of(node: Node, found: Mapping[Value, Interval]) -> tuple[Operand, ...]:
    """The known intervals of a node's inputs."""
    return tuple(
        Operand(v.type, v.data if isinstance(v, Constant) else None, found.get(v))
        for v in node.inputs
    )


def _whole(type_: TensorType) -> Interval | None:
    """Return the whole range of the dtype."""
    if not type_.shape or type_.dtype not in ("int8", "uint8", "int16", "int32"):
        return None
    bounds = np.iinfo(type_.dtype)
    channels = type_.shape[-1]
    return np.full(channels, bounds.min, np.int64), np.full(channels, bounds.max, np.int64)
