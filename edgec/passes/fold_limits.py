"""Moves limits of stored integers into the operator that computes them.

A file may use only part of a dtype's range, such as 0..127 of uint8 or six bits of int8: its
QuantizeLinear then has a Clip after it, which import makes a requantize to the same parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.traits import Storage
from edgec.passes.channel_intervals import channel_intervals
from edgec.passes.rewriter import Rewriter


def fold_limits(function: Function) -> Function:
    """The function without limits that nothing reaches, or that an operator can have itself.

    Between the operator and its limit may be other shapes and orders of the same elements.
    """
    return Rewriter(function).run(_Fold(function))


class _Fold:
    def __init__(self, function: Function) -> None:
        self.results = function.results
        self.intervals = channel_intervals(function)
        self.producers, self.readers = function.producers(), function.consumers()

    def __call__(
        self, rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if not is_limit(node):
            return None
        low, high = node.attrs.minimum, node.attrs.maximum
        if node.inputs[0] in self.intervals:
            lows, highs = self.intervals[node.inputs[0]]
            if lows.min() >= low and highs.max() <= high:
                return inputs
        chain = self._chain(node.inputs[0])
        attrs = chain[0].op.attrs_within(chain[0].attrs, low, high) if chain else None
        if attrs is None:
            return None
        steps = [replace(chain[0], attrs=attrs), *chain[1:]]
        made = [rewriter.new(value) for value in chain[0].inputs]
        for step in steps[:-1]:
            view = rewriter.builder.op(
                step.op, made, step.attrs, name=step.name, sources=step.sources
            )
            made = [view]
        last = steps[-1]
        return rewriter.remake(
            node, made, last.attrs, op=last.op, name=last.name, sources=last.sources
        )

    def _chain(self, value: Value) -> list[Node]:
        """The operator that makes a value and the views after it that nothing else reads."""
        chain: list[Node] = []
        while len(self.readers.get(value, [])) == 1 and value not in self.results:
            if value not in self.producers:
                break
            chain.insert(0, self.producers[value])
            if not chain[0].op.rearranges:
                break
            value = chain[0].inputs[0]
        return chain


def is_limit(node: Node) -> bool:
    """Whether a node bounds stored integers and does nothing else to them."""
    if node.op.storage is not Storage.REQUANTIZE or isinstance(node.inputs[0], Constant):
        return False
    given, made = node.inputs[0].type, node.output.type
    is_same = (given.dtype, given.quant) == (made.dtype, made.quant)
    return is_same and node.attrs.multiplier == (1.0,)
