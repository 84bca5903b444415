"""The decisions of quantizing before it changes the graph: parameters, weights and biases.

A range [low, high] that holds 0 becomes scale = (high - low) / 255 and the zero point that makes 0
exact; weights are symmetric, one scale for each output channel (arXiv:1806.08342, 2.1 and 2.5).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.traits import IntegerForm
from edgec.graph.types import Array, Quant
from edgec.ops.requantize import WIDENING
from edgec.quantizer.calibrate import has_weights
from edgec.quantizer.group_scales import group_of, group_scales
from edgec.quantizer.integer_nodes import IntegerNodes
from edgec.quantizer.masks import masked_sums
from edgec.quantizer.moments import as_rows, from_rows
from edgec.quantizer.recurrent import gru_forms, operand_forms

Range = tuple[float, float]

LEVELS = 256
#: The dtype of values that are not quantized.
FLOAT = "float32"
#: Factor by which an int16 range exceeds the calibrated one: one bit of 16 is cheaper than
#: clipping.
ROOM = 2.0
#: The smallest scale: below it, products of scales leave float32's normal numbers.
LEAST_SCALE = 2.0**-40
#: The largest stored bias, and the largest sum of products: together they stay within int32, with
#: room for rounding.
MOST_PART = 2.0**30 - 2.0**26


@dataclass(frozen=True)
class Stored:
    """Quantization and integer dtype of a real value."""

    quant: Quant
    dtype: str = "int8"

    @property
    def bounds(self) -> Range:
        info = np.iinfo(self.dtype)
        scale, zero_point = self.quant.scale[0], self.quant.zero_point[0]
        return (int(info.min) - zero_point) * scale, (int(info.max) - zero_point) * scale

    def widened(self) -> Stored:
        """int16 for int8, with 128 steps for each step, so that it holds all numbers exactly; else
        itself.
        """
        if self.dtype != "int8":
            return self
        return Stored(Quant((self.quant.scale[0] / WIDENING,), (0,)), "int16")


@dataclass(frozen=True)
class Weights:
    """Stored weights, int8 within `limits(bits)`.

    bias: real numbers [O], to be stored in accumulators' scale. bits: 8, or 4 for two to a byte;
    then, if `group` is not 0, each group of this many inputs with a shift (`group_scales`).
    """

    data: Array
    quant: Quant
    bias: Array
    bits: int = 8
    group: int = 0

    def real(self) -> Array:
        """The stored weights as real numbers, float32."""
        shape = [-1 if a == self.quant.axis else 1 for a in range(self.data.ndim)]
        scales = np.asarray(self.quant.scale, np.float32).reshape(shape)
        return self.data.astype(np.float32) * scales


@dataclass(frozen=True)
class Scheme:
    """integer_nodes: of the function. values: for each float value and constant operand. weights:
    for each node that has some, also where its values stay in float."""

    integer_nodes: IntegerNodes
    values: Mapping[Value, Stored]
    weights: Mapping[Node, Weights]


def limits(bits: int) -> tuple[int, int]:
    """The least and the largest stored weight: symmetric in 8 bits, all that there are in fewer."""
    most = 2 ** (bits - 1) - 1
    return (-most if bits == 8 else -most - 1), most


def make_scheme(
    function: Function,
    ranges: Mapping[Value, Range],
    *,
    symmetric: bool = False,
    bits: Mapping[Node, int] | None = None,
    group: int = 0,
    dtype: str = "int8",
    kept: Collection[Node] = (),
    wide: Collection[Value] = (),
) -> Scheme:
    """Parameters from ranges, each of which includes 0; weights rounded to nearest, biases as
    passed.
    """
    if dtype == FLOAT:
        return _weights_alone(function, bits or {}, group, kept)
    integer_nodes = decide_integer_nodes(function, dtype, kept, wide)
    known = dict(ranges)
    for constant in function.constants():
        if constant.type.is_float and constant.data.size and np.isfinite(constant.data).all():
            known[constant] = (
                min(float(constant.data.min()), 0.0), max(float(constant.data.max()), 0.0)
            )  # fmt: skip
    shared: dict[Value, Range] = {}
    for value, (low, high) in known.items():
        leader = integer_nodes.leader(value)
        lowest, highest = shared.get(leader, (0.0, 0.0))
        shared[leader] = min(low, lowest), max(high, highest)
    stored = {}
    for leader, seen in shared.items():
        storage = "int16" if integer_nodes.is_wide(leader) else "int8"
        stored[leader] = Stored(activation_quant(*seen, symmetric, storage), storage)
    for node in function.nodes:
        if integer_nodes.is_integer(node):
            leader = integer_nodes.leader(node.outputs[0])
            fixed = node.op.fixed_quant(stored[leader].dtype) if leader in stored else None
            if fixed is not None and _holds(Stored(fixed, stored[leader].dtype), shared[leader]):
                stored[leader] = Stored(fixed, stored[leader].dtype)
    values = {value: stored[integer_nodes.leader(value)] for value in known}
    weights = {
        node: nearest_weights(node, values[node.inputs[0]], (bits or {}).get(node, 8), group)
        for node in function.nodes
        if node.op.products is not None and integer_nodes.is_integer(node)
    }
    for node in function.nodes:
        if node.integer_form is IntegerForm.RECURRENT and integer_nodes.is_integer(node):
            values.update(_recurrent_operands(node, values, known))
    return Scheme(integer_nodes, values, weights)


def _holds(stored: Stored, seen: Range) -> bool:
    """Whether the parameters reach to all of a range, but for their last step."""
    low, high = stored.bounds
    return low <= seen[0] and seen[1] <= high + stored.quant.scale[0]


def decide_integer_nodes(
    function: Function, dtype: str, kept: Collection[Node], wide: Collection[Value]
) -> IntegerNodes:
    """The integer nodes, with values int8, int16 or as passed; nodes without an int16 form stay in
    float.
    """
    if dtype == "int16":
        wide = (*function.values(), *function.constants())
    wide = (*wide, *masked_sums(function))
    integer_nodes = IntegerNodes(function, kept, wide)
    floats = {
        node
        for node in function.nodes
        if "int16" not in node.op.integer_dtypes
        and (integer_nodes.is_wide(node.inputs[0]) or integer_nodes.is_wide(node.outputs[0]))
    }
    return IntegerNodes(function, {*kept, *floats}, wide) if floats else integer_nodes


def _weights_alone(
    function: Function, bits: Mapping[Node, int], group: int, kept: Collection[Node]
) -> Scheme:
    """No value has an integer form; weights have scales of their own."""
    weights = {
        node: nearest_weights(node, None, bits.get(node, 8), group)
        for node in function.nodes
        if has_weights(node) and node not in kept
    }
    return Scheme(IntegerNodes(function, function.nodes), {}, weights)


def _recurrent_operands(
    node: Node, values: Mapping[Value, Stored], ranges: Mapping[Value, Range]
) -> dict[Value, Stored]:
    """The stored constants of an LSTM or GRU. A last cell has the range of all cells.

    If its input or output is int16, both are.
    """
    x, y = values[node.inputs[0]], values[node.outputs[0]]
    if "int16" in (x.dtype, y.dtype):
        x, y = x.widened(), y.widened()
    (x_scale,), (y_scale,) = x.quant.scale, y.quant.scale
    if node.outputs[2:]:
        largest = max(map(abs, ranges[node.outputs[2]]))
        found = operand_forms(node, x_scale, (y.quant, y.dtype), largest)
    else:
        found = gru_forms(node, x_scale, y_scale)
    return {value: Stored(*form) for value, form in found.items()}


def activation_quant(
    low: float, high: float, symmetric: bool = False, dtype: str = "int8"
) -> Quant:
    """Parameters of a range that holds 0; symmetric ones, and all of int16, have zero point 0."""
    if not low <= 0.0 <= high:
        raise ValueError(f"the range [{low}, {high}] does not hold 0")
    if symmetric or dtype != "int8":
        largest = max(-low, high) / float(np.iinfo(dtype).max)
        largest *= ROOM if dtype == "int16" else 1.0
        return Quant((max(float(np.float32(largest)), LEAST_SCALE),), (0,))
    scale = max(float(np.float32((high - low) / (LEVELS - 1))), LEAST_SCALE)
    zero_point = int(np.clip(round(-128 - low / scale), -128, 127))
    return Quant((scale,), (zero_point,))


def nearest_weights(node: Node, x: Stored | None, bits: int = 8, group: int = 0) -> Weights:
    """A node's own weights, rounded to nearest, and its own bias. x: None for float inputs."""
    weights, bias = node.inputs[1:]
    assert isinstance(weights, Constant) and isinstance(bias, Constant)
    assert node.op.products is not None
    axis = node.op.products.outputs
    least = least_scales(weights.data, bias.data, axis, x)
    size = group_of(node, group) if bits == 4 else 0
    if size:
        rows = as_rows(node, weights.data)[0]
        scales, steps = group_scales(rows, size, least)
        exact = rows / scales[:, None] / steps
        stored = (np.clip(np.rint(exact), *limits(bits)) * steps).astype(np.int8)
        quant = Quant(tuple(map(float, scales)), (0,) * len(scales), axis)
        return Weights(from_rows(node, stored[np.newaxis]), quant, bias.data, bits, size)
    data, quant = quantize_weights(weights.data, axis, least, bits)
    return Weights(data, quant, bias.data, bits)


def least_scales(weights: Array, bias: Array, axis: int, x: Stored | None) -> Array:
    """The smallest scale of each output channel with which its bias and its sums fit in int32.

    Sums of int16 values are taken in int64 where they may overflow; sums of floats have no limit.
    """
    if x is None:
        return np.zeros(bias.shape)
    least = np.abs(bias.astype(np.float64)) / x.quant.scale[0]
    if x.dtype == "int8":
        others = tuple(a for a in range(weights.ndim) if a != axis)
        products = np.abs(weights).sum(axis=others, dtype=np.float64) * (LEVELS - 1)
        least = np.maximum(least, products)
    return np.asarray(least / MOST_PART)


def quantize_weights(
    weights: Array, axis: int, least: Array | float = 0.0, bits: int = 8
) -> tuple[Array, Quant]:
    """Weights of this many bits with one scale for each index along `axis`, `least` or more.

    A channel of zeros has the scale of the largest channel: any would do. Weights that stand for
    integers (of dynamic range, or quantized while training) are these again. `least` keeps sums
    within int32 where weights are so small that the bias is large in their scale, or very many.
    """
    others = tuple(a for a in range(weights.ndim) if a != axis)
    largest = np.abs(weights).max(axis=others).astype(np.float64)
    fallback = largest.max() or 1.0
    low, high = limits(bits)
    scales = (np.where(largest > 0, largest, fallback) / float(high)).astype(np.float32)
    rows = np.moveaxis(weights, axis, 0).reshape(weights.shape[axis], -1)
    steps = own_steps(rows.astype(np.float64), high)
    scales = np.where(steps > 0, steps, scales).astype(np.float32)
    scales = np.maximum(scales, np.asarray(np.maximum(least, LEAST_SCALE), np.float32))
    shape = [-1 if a == axis else 1 for a in range(weights.ndim)]
    # Only weights that came as integers use the int8 number below the symmetric range.
    stored = np.clip(np.rint(weights / scales.reshape(shape)), min(low, -high - 1), high)
    stored = stored.astype(np.int8)
    return stored, Quant(tuple(map(float, scales)), (0,) * len(scales), axis)


def own_steps(rows: Array, most: int) -> Array:
    """Return for each row the step whose multiples by -most - 1 to most its numbers are; else 0.

    The candidate is the least difference between neighbouring magnitudes, including 0. It is
    divided as far as `most` allows, because biases are stored in units of it too.
    """
    sizes = np.sort(np.abs(rows), axis=1)
    largest = sizes[:, -1]
    gaps = np.diff(sizes, axis=1, prepend=0.0)
    gaps[gaps <= 1e-5 * largest[:, np.newaxis]] = np.inf
    step = gaps.min(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        top = np.rint(largest / step)
        counts = sizes * np.divide(top, largest)[:, np.newaxis]  # a gap is less exact than a size
        off = np.abs(counts - np.rint(counts)).max(axis=1)
        is_lowest = (top == most + 1) & (rows.max(axis=1) < largest * (1 - 0.5 / top))
    fits = np.isfinite(step) & (top >= 1) & ((top <= most) | is_lowest) & (off < 1e-3)
    top = np.where(fits, top, 1.0)
    return np.where(fits, largest / (top * np.maximum(np.floor(most / top), 1.0)), 0.0)


def rounded(array: Array, stored: Stored) -> Array:
    """float32 values after quantize and dequantize, per tensor."""
    info = np.iinfo(stored.dtype)
    scale, zero_point = np.float32(stored.quant.scale[0]), stored.quant.zero_point[0]
    steps = np.clip(np.rint(array / scale) + zero_point, info.min, info.max)
    return np.asarray((steps - zero_point) * scale, np.float32)


def quantize_bias(bias: Array, x_scale: float, weights: Quant) -> tuple[Array, Quant]:
    """int32 bias in the accumulators' own scale, x_scale * weight scale of each channel."""
    scales = np.float32(x_scale) * np.asarray(weights.scale, np.float32)
    stored = np.rint(bias.astype(np.float64) / scales.astype(np.float64))
    bounds = np.iinfo(np.int32)
    data = np.clip(stored, bounds.min, bounds.max).astype(np.int32)
    return data, Quant(tuple(map(float, scales)), (0,) * len(scales), 0)
