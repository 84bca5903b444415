"""Values whose channels may be scaled together without changing the network's function.

relu(t x) = t relu(x) for t > 0, and sums, pools and views keep a factor, too. So channel c of a
value may be t[c] times as large, in the weights of the layers that make it, if the weights of the
layers that read it are 1 / t[c] times as large: values that such operators connect are one group.

A clip with an upper bound belongs to a group as long as no scaled channel reaches the bound: it
then clips only numbers that no sample reached (arXiv:1906.04721, 4.1, drops ReLU6 for that).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.traits import Arithmetic
from edgec.quantizer.calibrate import has_weights


@dataclass
class Group:
    """values: all of them, with a last axis of `channels` or a multiple, over which factors repeat.

    makers: layers that make one of them. readers: layers that read one. adds: sums within.
    bound: the least upper bound of clips within.
    """

    values: list[Value] = field(default_factory=list)
    makers: list[Node] = field(default_factory=list)
    readers: list[Node] = field(default_factory=list)
    adds: list[Node] = field(default_factory=list)
    bound: float = math.inf
    channels: int = 0


def channel_groups(function: Function) -> list[Group]:
    """All groups that some layer with weights reads and whose factors are free, in order."""
    links = _Links()
    for value in (*function.params, *function.results):
        links.fix(value)
    for node in function.nodes:
        _link(node, links)
    groups: dict[Value, Group] = {}
    for value in function.values():
        leader = links.leader(value)
        if not isinstance(value, Constant) and leader not in links.fixed:
            groups.setdefault(leader, Group()).values.append(value)
    for node in function.nodes:
        _enter(node, links, groups)
    for group in groups.values():
        group.channels = min(value.type.shape[-1] for value in group.values)
    return [
        group
        for group in groups.values()
        if group.readers
        and all(value.type.shape[-1] % group.channels == 0 for value in group.values)
    ]


class _Links:
    """Groups of values, by a leader for each group; groups of `fixed` leaders must not change."""

    def __init__(self) -> None:
        self._above: dict[Value, Value] = {}
        self.fixed: set[Value] = set()

    def leader(self, value: Value) -> Value:
        while value in self._above:
            value = self._above[value]
        return value

    def join(self, values: Sequence[Value]) -> None:
        first = self.leader(values[0])
        for value in values[1:]:
            other = self.leader(value)
            if other is first:
                continue
            self._above[other] = first
            if other in self.fixed:
                self.fixed.add(first)

    def fix(self, value: Value) -> None:
        self.fixed.add(self.leader(value))


def _link(node: Node, links: _Links) -> None:
    data = node.activations
    outputs = list(node.outputs)
    if has_weights(node):
        return
    is_float = all(v.type.dtype == "float32" and v.type.shape for v in (*data, *outputs))
    if is_float and data and _keeps_factors(node, data):
        links.join([*data, *outputs])
        return
    for value in (*data, *outputs):
        links.fix(value)


def _keeps_factors(node: Node, data: Sequence[Value]) -> bool:
    if node.op.is_limit:
        return node.attrs.minimum in (0.0, -math.inf) and node.attrs.maximum > 0.0
    if node.op.computes is Arithmetic.SUM:
        return len(data) == 2 and all(value.type.shape == node.output.type.shape for value in data)
    return node.op.keeps_factors and data == node.inputs[:1]


def _enter(node: Node, links: _Links, groups: dict[Value, Group]) -> None:
    made = groups.get(links.leader(node.outputs[0]))
    if has_weights(node):
        if made is not None:
            made.makers.append(node)
        read = groups.get(links.leader(node.inputs[0]))
        if read is not None:
            read.readers.append(node)
    elif made is not None and node.op.computes is Arithmetic.SUM:
        made.adds.append(node)
    elif made is not None and node.op.is_limit:
        made.bound = min(made.bound, node.attrs.maximum)
