"""Prove that accumulators stay within their integers, or say which do not and how far they can go.

An accumulator's extremes are bias + sum of the smallest and of the largest products, over the
intervals that the inputs can have. First with all that the input's dtype holds, which is quickly
found; where that is too much, with the intervals of every channel of every value before it. Sums in
another order, or with an offset folded into the bias, wrap on the way and come to the same number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgec.graph.ir import Function, Node, Value
from edgec.graph.traits import Interval, Movement
from edgec.graph.types import Array
from edgec.ops.intervals import accumulated_interval
from edgec.passes.channel_intervals import channel_intervals, operands_of
from edgec.passes.narrow_accumulators import accumulator_bound


@dataclass(frozen=True)
class Overflow:
    """Accumulators that some input may overflow. channel: with the largest range.

    low, high: its range without wrapping. source: the node's name in the model file.
    """

    node: str
    source: str
    dtype: str
    channel: int
    low: int
    high: int


def find_overflows(function: Function) -> tuple[Overflow, ...]:
    """Every node with weights whose accumulators are not proven to fit, in order.

    Convolutions, depthwise convolutions, dense layers and filters over time are proven; of
    transposed convolutions and of the two products of an LSTM only the quick bound is taken.
    """
    found = list(_of_products(function))
    producers = function.producers()
    for node in function.nodes:
        push = producers.get(node.inputs[0]) if node.inputs else None
        known = _remembered(function, push) if push is not None else {}
        for low, high in node.op.sums(node.attrs, operands_of(node, known)):
            found += _beyond(node, low, high)
    return tuple(found)


def _of_products(function: Function) -> tuple[Overflow, ...]:
    suspects = [node for node in function.nodes if _may_overflow(node)]
    if not suspects:
        return ()
    intervals = channel_intervals(function)
    found = []
    for node in suspects:
        dtype = node.output.type.dtype
        operands = operands_of(node, intervals)
        ends = accumulated_interval(node.op.products, node.attrs, operands)
        if ends is None:
            bound = accumulator_bound(node) or 0
            low, high = np.array([-bound], object), np.array([bound], object)
        else:
            low, high = ends
        info = np.iinfo(dtype)
        beyond = np.maximum(high - int(info.max), int(info.min) - low)
        if max(beyond) <= 0:
            continue
        channel = int(np.argmax(beyond))
        source = node.sources[0] if node.sources else node.name
        found.append(
            Overflow(node.name, source, dtype, channel, int(low[channel]), int(high[channel]))
        )
    return tuple(found)


def _remembered(function: Function, push: Node) -> dict[Value, Interval]:
    """The smallest and the largest stored number of each filter's memory, if it can be known."""
    state = next((s for s in function.states if s.before is push.inputs[0]), None)
    if push.op.movement is not Movement.PUSH or state is None or state.after is not push.output:
        return {}
    pushed = channel_intervals(function).get(push.inputs[1])
    if pushed is None:
        return {}
    type_ = push.output.type
    info, zero_point = np.iinfo(type_.dtype), type_.scalar_quant()[1]
    first = state.initial.data.reshape(len(pushed[0]), -1).astype(np.int64)
    low, high = (end + zero_point for end in pushed)
    if low.min() < info.min or high.max() > info.max:  # it wraps
        return {}
    return {push.output: (np.minimum(low, first.min(axis=1)), np.maximum(high, first.max(axis=1)))}


def _beyond(node: Node, low: Array, high: Array) -> list[Overflow]:
    """The channel whose int32 sums go furthest beyond, if one does."""
    info = np.iinfo(np.int32)
    beyond = np.maximum(high - int(info.max), int(info.min) - low)
    channel = int(np.argmax(beyond))
    if beyond[channel] <= 0:
        return []
    source = node.sources[0] if node.sources else node.name
    ends = int(low[channel]), int(high[channel])
    return [Overflow(node.name, source, "int32", channel, *ends)]


def _may_overflow(node: Node) -> bool:
    bound = accumulator_bound(node)
    return bound is not None and bound > np.iinfo(node.output.type.dtype).max
