"""Read only one of several channels that always hold the same integer.

1. Each channel of a value has a key: channels with equal keys are equal for every input. Filters
   with equal weights, bias and multiplier make equal channels, and operators that compute channel
   by channel keep them equal.
2. A convolution or dense layer that reads several equal channels reads only the first, with the sum
   of their weights, if all sums can be stored. The sums that it accumulates are the same integers,
   also after padding, where all channels read as the zero point.

The others are then read by nobody, and `shrink_channels` removes them and the filters that make
them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.traits import Channels, Products
from edgec.graph.types import Array
from edgec.passes.channels import channels_of
from edgec.passes.rewriter import Rewriter

#: A key for each index of a value's last axis that distinguishes its channels.
Keys = tuple[Hashable, ...]
#: Name of a value -> channel -> the first one that always holds the same.
Equal = dict[str, dict[int, int]]
#: Range of stored weights; without -128, for which many kernels have no room.
LARGEST_WEIGHT = 127
#: A value with more channels is not searched for equal ones: each takes 100 bytes.
MOST_CHANNELS = 1 << 20


def merge_duplicates(function: Function) -> tuple[Function, Equal]:
    """The function that reads fewer channels, and which are equal; nothing if none can go."""
    if not any(_sums_channels(node) for node in function.nodes) or any(
        value.type.shape[-1:] > (MOST_CHANNELS,) for value in function.values()
    ):
        return function, {}
    keys = _keys(function)
    merges = False

    def visit(rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]) -> Sequence[Value] | None:
        if not _sums_channels(node):
            return None
        x, w = node.inputs[:2]
        if x not in keys or not isinstance(w, Constant) or w.type.dtype != "int8":
            return None
        weights = _merged(w.data, keys[x])
        if weights is w.data:
            return None
        nonlocal merges
        merges = True
        constant = rewriter.builder.constant(f"{w.name}.merged", weights, w.type.quant)
        return rewriter.keep(node, (inputs[0], constant, *inputs[2:]))

    merged = Rewriter(function).run(visit)
    if not merges:
        return function, {}
    equal = {
        value.name: {c: keys.index(key) for c, key in enumerate(keys) if keys.index(key) < c}
        for value, keys in keys.items()
        if len(set(keys)) < len(keys)
    }
    return merged, equal


def _sums_channels(node: Node) -> bool:
    return channels_of(node) is Channels.MIXED and node.outputs[0].type.dtype == "int32"


def _merged(weights: Array, keys: Keys) -> Array:
    """Weights whose last axis is zero at channels that an earlier one stands for."""
    first: dict[Hashable, int] = {}
    result = weights
    for channel, key in enumerate(keys):
        kept = first.setdefault(key, channel)
        if kept == channel or not result[..., channel].any():
            continue
        total = result[..., kept].astype(np.int32) + result[..., channel]
        if np.abs(total).max(initial=0) > LARGEST_WEIGHT:
            continue
        result = result.copy() if result is weights else result
        result[..., kept], result[..., channel] = total, 0
    return result


def _keys(function: Function) -> dict[Value, Keys]:
    """Keys of all values with a last axis."""
    found: dict[Value, Keys] = {}
    for param in function.params:
        found[param] = _own(param)
    for node in function.nodes:
        for output in node.outputs:
            found[output] = _own(output)
        if len(node.outputs) == 1 and node.output.type.shape:
            keys = _equal(node, found)
            if keys is not None:
                found[node.output] = _numbered(keys)
    return found


def _own(value: Value) -> Keys:
    """Every channel is another."""
    return tuple(range(value.type.shape[-1])) if value.type.shape else ()


def _numbered(keys: Iterable[Hashable]) -> Keys:
    """Short keys that are equal where these are."""
    numbers: dict[Hashable, int] = {}
    return tuple(numbers.setdefault(key, len(numbers)) for key in keys)


def _equal(node: Node, found: dict[Value, Keys]) -> list[Hashable] | None:
    """Keys of the output's channels; None if unknown."""
    channels = node.output.type.shape[-1]
    relation = channels_of(node)
    if node.op.products is not None and relation in (Channels.MIXED, Channels.SAME):
        return _equal_products(node, found, node.op.products)
    if relation is Channels.REPEATED:
        each = found[node.inputs[0]]
        return [(c // len(each), each[c % len(each)]) for c in range(channels)]
    if relation is not Channels.SAME:
        return None
    parts = [_operand(value, found, channels) for value in node.inputs]
    if any(part is None for part in parts):
        return None
    facts = node.op.channel_facts(node.attrs, channels)
    if facts is not None:
        parts.append(facts)
    return list(zip(*(part for part in parts if part is not None), strict=True))


def _equal_products(
    node: Node, found: dict[Value, Keys], products: Products
) -> list[Hashable] | None:
    """Keys of each output channel: its weights and bias and, if depthwise, its input channel."""
    x, w, bias = node.inputs
    if not isinstance(w, Constant) or not isinstance(bias, Constant):
        return None
    rows = np.moveaxis(w.data, products.outputs, 0)
    read = found[x] if products.is_depthwise else (None,) * len(rows)
    return [
        (each, row.tobytes(), start.tobytes())
        for each, row, start in zip(read, rows, bias.data, strict=True)
    ]


def _operand(value: Value, found: dict[Value, Keys], channels: int) -> Sequence[Hashable] | None:
    """The part of an operand that each channel reads; all of it if it is broadcast."""
    if not isinstance(value, Constant):
        return found[value] if len(found[value]) == channels else None
    if value.type.shape[-1:] == (channels,):
        return [value.data[..., c].tobytes() for c in range(channels)]
    return [None] * channels if value.type.shape[-1:] in ((), (1,)) else None
