"""Integer intervals of every channel of a quantized graph: what a stored value can be.

For each value the smallest and largest stored integer per index of the last axis, over all
inputs. Most operators used here are monotonic in each of their operands, up or down, so that the
ends of a result's interval are among the results of the operands' ends, exactly as the operator
itself rounds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.types import TensorType
from edgec.numerics.fixed_point import INT32_MAX, INT32_MIN
from edgec.ops.table import ByTable

Ends = npt.NDArray[np.int64]
#: Axis of the output channels in the weights of operators that accumulate.
_CHANNEL_AXIS = {"conv2d": 0, "dense": 0, "depthwise_conv2d": 2}
#: (low, high), each with one entry per channel.
Interval = tuple[Ends, Ends]


def channel_intervals(function: Function) -> dict[Value, Interval]:
    """Intervals of all integer values with a last axis; others are absent."""
    return intervals_of(function.params, function.nodes)


def intervals_of(params: Sequence[Value], nodes: Sequence[Node]) -> dict[Value, Interval]:
    """Intervals of what these nodes make, in order, of parameters that can be anything."""
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


def node_interval(node: Node, found: dict[Value, Interval]) -> Interval | None:
    """What one node makes of values with these intervals; None if no rule knows."""
    rule = _RULES.get(node.op.name)
    return rule(node, found) if rule is not None else None


def _whole(type_: TensorType) -> Interval | None:
    """Everything that the dtype can hold."""
    if not type_.shape or type_.dtype not in ("int8", "uint8", "int16", "int32"):
        return None
    bounds = np.iinfo(type_.dtype)
    channels = type_.shape[-1]
    return np.full(channels, bounds.min, np.int64), np.full(channels, bounds.max, np.int64)


def centred(node: Node, found: dict[Value, Interval]) -> Interval | None:
    """The input's interval less its zero point, widened to 0 where padding can be read."""
    x = node.inputs[0]
    if x not in found or x.type.quant is None:
        return None
    zero_point = x.type.quant.zero_point[0]
    low, high = (end - zero_point for end in found[x])
    if any(any(pair) for pair in getattr(node.attrs, "padding", ())):
        low, high = np.minimum(low, 0), np.maximum(high, 0)
    return low, high


def accumulated_interval(node: Node, found: dict[Value, Interval]) -> Interval | None:
    """What the sums of a convolution or dense layer can be, before they wrap; None if unknown."""
    ends, axis = centred(node, found), _CHANNEL_AXIS.get(node.op.name)
    if ends is None or axis is None:
        return None
    w, bias = node.inputs[1:3]
    if not isinstance(w, Constant) or not isinstance(bias, Constant):
        return None
    low, high = ends
    weights = w.data.astype(np.int64)
    if node.op.name == "depthwise_conv2d":
        each = weights.shape[2] // len(low)
        taps = weights.reshape(-1, weights.shape[2], 1).transpose(1, 0, 2)
        low, high = (np.repeat(end, each)[:, None, None] for end in ends)
    else:
        taps = weights.reshape(len(weights), -1, weights.shape[-1])
    positive, negative = np.maximum(taps, 0), np.minimum(taps, 0)
    start = bias.data.astype(np.int64)
    smallest = (positive * low + negative * high).sum(axis=(1, 2)) + start
    largest = (positive * high + negative * low).sum(axis=(1, 2)) + start
    return smallest, largest


def _accumulated(node: Node, found: dict[Value, Interval]) -> Interval | None:
    """The sums in int32, unless they may wrap: then nothing is known."""
    ends = accumulated_interval(node, found)
    if ends is None or node.output.type.dtype != "int32":
        return None
    if ends[0].min() < INT32_MIN or ends[1].max() > INT32_MAX:
        return None
    return ends


def _operand(value: Value, found: dict[Value, Interval], channels: int) -> Interval | None:
    """The interval of each output channel's operand; one that is broadcast serves them all."""
    if not value.type.shape:
        return None
    known = found.get(value)
    if isinstance(value, Constant):
        rows = value.data.reshape(-1, value.type.shape[-1]).astype(np.int64)
        known = rows.min(axis=0), rows.max(axis=0)
    if known is None or len(known[0]) not in (1, channels):
        return None
    low, high = (np.broadcast_to(end, channels) for end in known)
    return low, high


def _by_corners(node: Node, found: dict[Value, Interval]) -> Interval | None:
    """Run the operator itself on all combinations of the operands' ends.

    Right for what is monotonic in each operand while the others stay, also for products, where
    the direction depends on the sign of the other operand.
    """
    channels = node.output.type.shape[-1] if node.output.type.shape else 0
    operands = [_operand(value, found, channels) for value in node.inputs]
    if not channels or any(operand is None for operand in operands):
        return None
    shape = (1, 1, 1, channels)
    types = [TensorType(shape, value.type.dtype, value.type.quant) for value in node.inputs]
    output = TensorType(shape, node.output.type.dtype, node.output.type.quant)
    results = []
    for corner in itertools.product(*(operand for operand in operands if operand is not None)):
        arrays = [
            end.astype(type_.dtype).reshape(shape) for end, type_ in zip(corner, types, strict=True)
        ]
        (result,) = node.op.evaluate(node.attrs, arrays, types, (output,))
        results.append(result.astype(np.int64).reshape(channels))
    return np.min(results, axis=0), np.max(results, axis=0)


def _by_table(node: Node, found: dict[Value, Interval]) -> Interval | None:
    """The smallest and largest result of all stored values within the interval."""
    x = node.inputs[0]
    if x not in found or not isinstance(node.op, ByTable):
        return None
    results = node.op.table(node.attrs, x.type).astype(np.int64)
    parts = [results[low + 128 : high + 129] for low, high in zip(*found[x], strict=True)]
    return np.array([part.min() for part in parts]), np.array([part.max() for part in parts])


def _reduce(node: Node, found: dict[Value, Interval]) -> Interval | None:
    """A reduction of equal elements, all low or all high; not over the channels themselves."""
    x = node.inputs[0]
    if x not in found or len(x.type.shape) - 1 in node.attrs.axes:
        return None
    ends = []
    for end in found[x]:
        whole = np.broadcast_to(end.astype(x.type.dtype), x.type.shape)
        (result,) = node.op.evaluate(node.attrs, [whole], [x.type], (node.output.type,))
        ends.append(result.astype(np.int64).reshape(-1, len(end))[0])
    return ends[0], ends[1]


def _pad(node: Node, found: dict[Value, Interval]) -> Interval | None:
    """The padding's value as well, also in channels that are all padding."""
    x = node.inputs[0]
    if x not in found:
        return None
    value = int(node.attrs.value)
    low, high = (np.pad(end, node.attrs.padding[-1], constant_values=value) for end in found[x])
    if any(any(pair) for pair in node.attrs.padding[:-1]):
        low, high = np.minimum(low, value), np.maximum(high, value)
    return low, high


def _concat(node: Node, found: dict[Value, Interval]) -> Interval | None:
    """The parts' channels one behind the other, or what any part may hold in a channel."""
    parts = []
    for value in node.inputs:
        part = _operand(value, found, value.type.shape[-1])
        if part is None:
            return None
        parts.append(part)
    lows, highs = zip(*parts, strict=True)
    if node.attrs.axis == len(node.output.type.shape) - 1:
        return np.concatenate(lows), np.concatenate(highs)
    return np.min(lows, axis=0), np.max(highs, axis=0)


def _some_elements(node: Node, found: dict[Value, Interval]) -> Interval | None:
    """Elements or means of the input's, channel by channel."""
    x = node.inputs[0]
    if x not in found or x.type.shape[-1] != node.output.type.shape[-1]:
        return None
    return found[x]


def _pool(node: Node, found: dict[Value, Interval]) -> Interval | None:
    """A mean or maximum of values between two bounds lies between them; then the clamp."""
    x = node.inputs[0]
    if x not in found or node.output.type.is_float or _changes_scale(node):
        return None
    low, high = (np.clip(e, node.attrs.minimum, node.attrs.maximum) for e in found[x])
    return low, high


def _changes_scale(node: Node) -> bool:
    """An ONNX average pool rescales from the input's parameters to the output's."""
    return getattr(node.attrs, "rounding", "tflm") == "onnx"


def _requantize(node: Node, found: dict[Value, Interval]) -> Interval | None:
    (acc,) = node.inputs
    if any(multiplier < 0 for multiplier in node.attrs.multiplier) or acc not in found:
        return None
    largest = max(int(np.abs(end).max(initial=0)) for end in found[acc])
    if largest * max(node.attrs.multiplier) >= INT32_MAX:
        return None  # the product may wrap
    return _by_corners(node, found)


def _reshape(node: Node, found: dict[Value, Interval]) -> Interval | None:
    """Flattening repeats the channels; a shape with the same last axis keeps them."""
    x = node.inputs[0]
    if x not in found:
        return None
    channels, last = x.type.shape[-1], node.output.type.shape[-1] if node.output.type.shape else 0
    if not channels or last % channels:
        return None
    low, high = (np.tile(end, last // channels) for end in found[x])
    return low, high


_RULES: dict[str, Callable[[Node, dict[Value, Interval]], Interval | None]] = {
    "conv2d": _accumulated,
    "depthwise_conv2d": _accumulated,
    "dense": _accumulated,
    "requantize": _requantize,
    "max_pool2d": _pool,
    "avg_pool2d": _pool,
    "add": _by_corners,
    "mul": _by_corners,
    "maximum": _by_corners,
    "minimum": _by_corners,
    "logistic": _by_table,
    "tanh": _by_table,
    "leaky_relu": _by_table,
    "hard_swish": _by_table,
    "lookup": _by_table,
    "reduce": _reduce,
    "pad": _pad,
    "concat": _concat,
    "resize": _some_elements,
    "reinterpret": _some_elements,
    "reshape": _reshape,
}
