"""TFLite operators that others make: constants, reversals, sums of many, norms.

Where a file computes a shape or a range of constants alone, the result is a constant.
"""

from __future__ import annotations

import numpy as np

import edgec.ops.elementwise  # noqa: F401  registers what is named here
from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.ops.integer_root import append_root
from edgec.ops.op import RawNode, from_tflite
from edgec.ops.parts import Parts
from edgec.ops.reduce import ReduceAttrs
from edgec.ops.slice import constant_integers, sliced
from edgec.ops.tflite_quantized import append_sum_of_many
from edgec.ops.tflite_window_sums import combined
from edgec.ops.tile import TileAttrs

#: A norm is not less. Source: L2Normalization of TFLite's reference kernels.
SMALLEST_NORM = 1e-6


@from_tflite("SELECT")
def import_select(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite SELECT: by element, or by one truth for each index of the first axis."""
    condition, x, y = raw.operands(3)
    rank, parts = len(x.type.shape), Parts(builder, raw)
    if len(condition.type.shape) == 1 < rank:
        condition = parts.reshaped(condition, (*condition.type.shape, *(1,) * (rank - 1)), "rows")
    return parts.op("where", [condition, x, y])


@from_tflite("ZEROS_LIKE", plain_bytes=True)
def import_zeros(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite ZEROS_LIKE: stored zeros, whatever the quantization."""
    type_ = raw.declared()
    return builder.constant(raw.name, np.zeros(type_.shape, type_.dtype), type_.quant)


@from_tflite("FILL")
def import_fill(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite FILL of a constant shape."""
    shape, value = constant_integers(raw.operand(0), "the shape"), raw.operand(1)
    if not isinstance(value, Constant):
        parts = Parts(builder, raw)
        one = parts.reshaped(value, (1,) * len(shape), "one")
        return parts.op("tile", [one], TileAttrs(tuple(shape)))
    return builder.constant(raw.name, np.full(shape, value.data.reshape(())), value.type.quant)


@from_tflite("RANGE")
def import_range(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite RANGE of constants."""
    start, limit, step = (raw.constant(n, "a bound or step").data.item() for n in range(3))
    if not step:
        raise ImportFailed("the step is 0")
    count = max(int(np.ceil((limit - start) / step)), 0)
    dtype = np.dtype(raw.declared().dtype)
    steps = np.arange(count).astype(dtype) * dtype.type(step)
    return builder.constant(raw.name, dtype.type(start) + steps)


@from_tflite("RANK")
def import_rank(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite RANK: a constant."""
    rank = np.array(len(raw.operand(0).type.shape), raw.declared().dtype)
    return builder.constant(raw.name, rank)


@from_tflite("BROADCAST_ARGS")
def import_broadcast_args(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite BROADCAST_ARGS of constant shapes."""
    shapes = [constant_integers(x, "a shape") for x in raw.operands(2)]
    shape = np.broadcast_shapes(*map(tuple, shapes))
    return builder.constant(raw.name, np.array(shape, raw.declared().dtype))


@from_tflite("REVERSE_V2")
def import_reverse(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite REVERSE_V2 along constant axes."""
    x = raw.operand(0)
    rank = len(x.type.shape)
    axes = {axis % rank for axis in constant_integers(raw.operand(1), "the axes")}
    ranges = [
        (extent - 1, -1, extent) if axis in axes else (0, 1, extent)
        for axis, extent in enumerate(x.type.shape)
    ]
    return sliced(builder, x, ranges, raw.name)


@from_tflite("ADD_N")
def import_add_n(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite ADD_N of floats and integers, added from the first on."""
    if raw.operand(0).type.quant is not None:
        return append_sum_of_many(builder, raw)
    total, *others = raw.operands()
    for number, x in enumerate(others, 1 - len(others)):
        total = combined(Parts(builder, raw), "add", total, x, str(number) if number else "")
    return total


@from_tflite("L2_NORMALIZATION")
def import_l2_normalization(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite L2_NORMALIZATION of floats: x by its norm along the last axis."""
    x, parts = raw.operand(0), Parts(builder, raw)
    if x.type.is_quantized:
        return append_root(builder, raw, of_rows=True)
    if not x.type.is_float or raw.attribute("fused_activation", "NONE") != "NONE":
        raise ImportFailed(f"{x.type.dtype}: only float32 without an activation is supported")
    root = parts.op("reduce", [x], ReduceAttrs((len(x.type.shape) - 1,), "l2"), "root")
    least = parts.table([SMALLEST_NORM], "least", "float32")
    return parts.op("div", [x, parts.op("maximum", [root, least], what="norm")])


def _of_two(kind: str, function: str) -> None:
    @from_tflite(kind)
    def importer(builder: GraphBuilder, raw: RawNode) -> Value:
        a, b = raw.operands(2)
        return combined(Parts(builder, raw), function, a, b, "")


for _kind, _function in (
    ("ADD", "add"), ("MULTIPLY", "mul"), ("MAXIMUM", "maximum"), ("MINIMUM", "minimum")
):  # fmt: skip
    _of_two(f"STABLEHLO_{_kind}", _function)
