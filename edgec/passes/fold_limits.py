"""Limits of stored integers go into the operator that makes them.

A file may use fewer numbers than a dtype has, as 0..127 of uint8 or six bits of int8: its
QuantizeLinear then has a Clip behind it, which import makes a requantize to the same parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.traits import Storage
from edgec.passes.channel_intervals import channel_intervals
from edgec.passes.rewriter import Rewriter


def fold_limits(function: Function) -> Function:
    """The function without limits that nothing reaches, or that an operator can have itself.

    Between the operator and its limit may be other shapes and orders of the same elements.
    """
    intervals = channel_intervals(function)
    producers, readers = function.producers(), function.consumers()

    def is_read_once(value: Value) -> bool:
        return len(readers.get(value, [])) == 1 and value not in function.results

    def visit(rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]) -> Sequence[Value] | None:
        if not is_limit(node):
            return None
        low, high = node.attrs.minimum, node.attrs.maximum
        (value,) = node.inputs
        if value in intervals:
            lows, highs = intervals[value]
            if lows.min() >= low and highs.max() <= high:
                return inputs
        chain: list[Node] = []
        while is_read_once(value) and value in producers:
            chain.append(producers[value])
            if not chain[-1].op.rearranges:
                break
            value = chain[-1].inputs[0]
        attrs = chain[-1].op.attrs_within(chain[-1].attrs, low, high) if chain else None
        if attrs is None:
            return None
        above, *views = reversed(chain)
        made = _made(rewriter, above, [rewriter.new(v) for v in above.inputs], attrs, views or node)
        for position, view in enumerate(views, 1):
            made = _made(rewriter, view, [made], view.attrs, views[position:] or node)
        return (made,)

    return Rewriter(function).run(visit)


def is_limit(node: Node) -> bool:
    """Whether a node bounds stored integers and does nothing else to them."""
    if node.op.storage is not Storage.REQUANTIZE or isinstance(node.inputs[0], Constant):
        return False
    given, made = node.inputs[0].type, node.output.type
    is_same = (given.dtype, given.quant) == (made.dtype, made.quant)
    return is_same and node.attrs.multiplier == (1.0,)


def _made(
    rewriter: Rewriter, node: Node, inputs: list[Value], attrs: Any, behind: Node | list[Node]
) -> Value:
    """The node with these inputs and attributes; behind: the limit, if it stands for its result."""
    last = behind if isinstance(behind, Node) else None
    return rewriter.builder.op(
        node.op, inputs, attrs, name=node.name, sources=node.sources,
        output_names=[last.output.name] if last else None,
        origins=[last.output.origin] if last else None,
    )  # fmt: skip
