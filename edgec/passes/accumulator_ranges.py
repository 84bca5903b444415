"""Prove that accumulators stay within their integers, or say which do not and how far they can go.

An accumulator's extremes are bias + sum of the smallest and of the largest products, over the
intervals that the inputs can have. First with all that the input's dtype holds, which is quickly
found; where that is too much, with the intervals of every channel of every value before it. Sums in
another order, or with an offset folded into the bias, wrap on the way and come to the same number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.types import Array
from edgec.passes.channel_intervals import accumulated_interval, channel_intervals
from edgec.passes.narrow_accumulators import accumulator_bound


@dataclass(frozen=True)
class Overflow:
    """Accumulators that some input may make leave their dtype. channel: the one that goes furthest.

    low, high: what it can be, before it wraps. source: the model's own name of the node.
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
    for node in function.nodes:
        if node.op.name == "lstm":
            found += _of_recurrent(node)
        elif node.op.name == "svdf_time":
            found += _of_filters(function, node)
    return tuple(found)


def _of_products(function: Function) -> tuple[Overflow, ...]:
    suspects = [node for node in function.nodes if _may_overflow(node)]
    if not suspects:
        return ()
    intervals = channel_intervals(function)
    found = []
    for node in suspects:
        dtype = node.output.type.dtype
        ends = accumulated_interval(node, intervals)
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


def _of_recurrent(node: Node) -> list[Overflow]:
    """The products with an LSTM's input and with its hidden state, each in int32."""
    x, hidden, _, weights, recurrent, bias = node.inputs
    found = []
    for value, factors, offset in ((x, weights, bias), (hidden, recurrent, None)):
        assert isinstance(factors, Constant) and (offset is None or isinstance(offset, Constant))
        zero_point = value.type.scalar_quant()[1]
        products = np.sort(
            [factors.data * (end - zero_point) for end in _int64_ends(value)], axis=0
        )
        start = 0 if offset is None else offset.data.astype(np.int64)
        low, high = (each.sum(axis=1) + start for each in products)
        found += _beyond(node, low, high)
    return found


def _of_filters(function: Function, node: Node) -> list[Overflow]:
    """The sums of an SVDF over what its filters remember: what was pushed, or was there first."""
    memory, time, bias = node.inputs
    assert isinstance(time, Constant) and isinstance(bias, Constant)
    weights = time.data.astype(np.int64)
    zero_point = memory.type.scalar_quant()[1]
    low, high = ((end - zero_point)[:, None] for end in _remembered(function, memory, len(weights)))
    ends = np.sort([weights * low, weights * high], axis=0)
    smallest, largest = (
        end.reshape(len(bias.data), -1).sum(axis=1) + bias.data.astype(np.int64) for end in ends
    )
    return _beyond(node, smallest, largest)


def _remembered(function: Function, memory: Value, filters: int) -> tuple[Array, Array]:
    """The smallest and the largest stored number of each filter's memory."""
    info = np.iinfo(memory.type.dtype)
    whole = np.full(filters, info.min, np.int64), np.full(filters, info.max, np.int64)
    push = function.producers().get(memory)
    state = next((s for s in function.states if push and s.before is push.inputs[0]), None)
    if push is None or push.op.name != "svdf_push" or state is None or state.after is not memory:
        return whole
    pushed = channel_intervals(function).get(push.inputs[1])
    if pushed is None:
        return whole
    zero_point = memory.type.scalar_quant()[1]
    first = state.initial.data.reshape(filters, -1).astype(np.int64)
    low, high = (end + zero_point for end in pushed)
    if low.min() < info.min or high.max() > info.max:  # it wraps
        return whole
    return np.minimum(low, first.min(axis=1)), np.maximum(high, first.max(axis=1))


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


def _int64_ends(value: Value) -> tuple[np.int64, np.int64]:
    info = np.iinfo(value.type.dtype)
    return np.int64(info.min), np.int64(info.max)


def _may_overflow(node: Node) -> bool:
    bound = accumulator_bound(node)
    return bound is not None and bound > np.iinfo(node.output.type.dtype).max
