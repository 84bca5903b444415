"""The intervals of the stored integers of an operator's result, channel by channel.

Most operators are monotonic in each of their operands, up or down, so that the ends of a result's
interval are among the results of the operands' ends, exactly as the operator itself rounds.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.graph.operator import Operator
from edgec.graph.traits import Ends, Interval, Operand, Products, padded
from edgec.graph.types import TensorType
from edgec.numerics.fixed_point import INT32_MAX, INT32_MIN


def by_corners(
    op: Operator[Any], attrs: Any, operands: Sequence[Operand], output: TensorType
) -> Interval | None:
    """Run the operator itself on all combinations of the operands' ends.

    Correct for functions that are monotonic in each operand while the others stay fixed. This
    includes products, whose direction depends on the sign of the other operand.
    """
    channels = output.shape[-1] if output.shape else 0
    ends = [operand.ends(channels) for operand in operands]
    if not channels or any(each is None for each in ends):
        return None
    shape = (1, 1, 1, channels)
    types = [TensorType(shape, operand.type.dtype, operand.type.quant) for operand in operands]
    made = TensorType(shape, output.dtype, output.quant)
    results = []
    for corner in itertools.product(*(each for each in ends if each is not None)):
        arrays = [
            end.astype(type_.dtype).reshape(shape) for end, type_ in zip(corner, types, strict=True)
        ]
        (result,) = op.evaluate(attrs, arrays, types, (made,))
        results.append(result.astype(np.int64).reshape(channels))
    return np.min(results, axis=0), np.max(results, axis=0)


def centred_interval(attrs: Any, x: Operand) -> Interval | None:
    """The input's interval less its zero point, widened to 0 where padding can be read."""
    if x.interval is None or x.type.quant is None:
        return None
    zero_point = x.type.quant.zero_point[0]
    low, high = (end - zero_point for end in x.interval)
    if padded(attrs):
        low, high = np.minimum(low, 0), np.maximum(high, 0)
    return low, high


def accumulated_interval(
    products: Products | None, attrs: Any, operands: Sequence[Operand]
) -> Interval | None:
    """The interval of sums of products, before they wrap; None if unknown."""
    if products is None or products.scatters:
        return None
    ends, weights, bias = centred_interval(attrs, operands[0]), operands[1].data, operands[2].data
    if ends is None or weights is None or bias is None:
        return None
    if products.is_depthwise:
        count = weights.shape[products.outputs]
        shape: tuple[int, ...] = (-1, count)
        axes = "to,o->o"
        low, high = (np.repeat(end, count // len(end)) for end in ends)
    else:
        shape, axes = (len(weights), -1, weights.shape[-1]), "oti,i->o"
        low, high = (np.broadcast_to(end, shape[-1]) for end in ends)
    taps = weights.reshape(shape)
    positive, negative = np.maximum(taps, 0), np.minimum(taps, 0)

    def sums(of_positive: Ends, of_negative: Ends) -> Ends:
        """Not the weights in int64: a large layer's would take hundreds of megabytes."""
        total: Ends = bias.astype(np.int64)
        for part, end in ((positive, of_positive), (negative, of_negative)):
            total += np.einsum(axes, part, end, dtype=np.int64, casting="unsafe")
        return total

    return sums(low, high), sums(high, low)


def stored_sums(
    products: Products | None, attrs: Any, operands: Sequence[Operand], output: TensorType
) -> Interval | None:
    """The sums in int32, unless they may wrap: then nothing is known."""
    ends = accumulated_interval(products, attrs, operands)
    if ends is None or output.dtype != "int32":
        return None
    if ends[0].min() < INT32_MIN or ends[1].max() > INT32_MAX:
        return None
    return ends


def of_elements(x: Operand, output: TensorType) -> Interval | None:
    """Elements or means of the input's, channel by channel."""
    return x.interval if x.type.shape[-1:] == output.shape[-1:] else None


def clamped(x: Operand, output: TensorType, minimum: int, maximum: int) -> Interval | None:
    """A mean or maximum of values between two bounds lies between them; then the clamp."""
    if x.interval is None or output.is_float:
        return None
    low, high = (np.clip(end, minimum, maximum) for end in x.interval)
    return low, high
