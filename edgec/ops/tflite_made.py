"""TFLite operators that others make: constants, reversals, sums of many, norms.

Where a file computes a shape or a range of constants alone, the result is a constant.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import edgec.ops.elementwise  # noqa: F401  registers what is named here
from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.ops.add import AddAttrs
from edgec.ops.mul import MulAttrs
from edgec.ops.op import RawNode, from_tflite
from edgec.ops.reduce import ReduceAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.row import import_row, is_plain_integer
from edgec.ops.slice import constant_integers, sliced

#: A norm is not less. Source: L2Normalization of TFLite's reference kernels.
SMALLEST_NORM = 1e-6


@from_tflite("SELECT")
def import_select(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite SELECT: by element, or by one truth for each index of the first axis."""
    condition, x, y = raw.operands(3)
    rank = len(x.type.shape)
    if len(condition.type.shape) == 1 < rank:
        shape = (*condition.type.shape, *(1,) * (rank - 1))
        condition = builder.op(
            "reshape", [condition], ReshapeAttrs(shape), name=f"{raw.name}/rows", sources=()
        )
    return builder.op("where", [condition, x, y], name=raw.name)


@from_tflite("ZEROS_LIKE")
def import_zeros(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite ZEROS_LIKE: stored zeros, whatever the quantization."""
    type_ = raw.declared()
    return builder.constant(raw.name, np.zeros(type_.shape, type_.dtype), type_.quant)


@from_tflite("FILL")
def import_fill(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite FILL of a constant shape with a constant."""
    shape = constant_integers(raw.operand(0), "the shape")
    value = raw.constant(1, "what is filled in")
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
    """TFLite ADD_N of floats and int32, added from the first on."""
    total, *others = raw.operands()
    for number, x in enumerate(others, 1):
        is_last = number == len(others)
        name = raw.name if is_last else f"{raw.name}/{number}"
        total = _sum(builder, total, x, name, () if not is_last else (raw.name,))
    return total


def _sum(builder: GraphBuilder, a: Value, b: Value, name: str, sources: tuple[str, ...]) -> Value:
    if is_plain_integer(a.type):
        return builder.op("int_add", [a, b], name=name, sources=sources)
    if not a.type.is_float:
        raise ImportFailed(f"sums of {a.type.dtype} with quantization are not supported")
    return builder.op("add", [a, b], AddAttrs(), name=name, sources=sources)


@from_tflite("L2_NORMALIZATION")
def import_l2_normalization(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite L2_NORMALIZATION of floats: x by its norm along the last axis."""
    x = raw.operand(0)
    if not x.type.is_float or raw.attribute("fused_activation", "NONE") != "NONE":
        raise ImportFailed(f"{x.type.dtype}: only float32 without an activation is supported")
    part = partial(builder.op, sources=())
    squares = part("mul", [x, x], MulAttrs(), name=f"{raw.name}/squares")
    axes = (len(x.type.shape) - 1,)
    total = part("reduce", [squares], ReduceAttrs(axes, "sum"), name=f"{raw.name}/sum")
    root = part("sqrt", [total], name=f"{raw.name}/root")
    least = builder.constant(f"{raw.name}.least", np.array([SMALLEST_NORM], np.float32))
    norm = part("maximum", [root, least], name=f"{raw.name}/norm")
    return builder.op("div", [x, norm], name=raw.name)


@from_tflite("STABLEHLO_ADD")
def import_hlo_add(builder: GraphBuilder, raw: RawNode) -> Value:
    """STABLEHLO_ADD of floats and plain integers."""
    a, b = raw.operands(2)
    return _sum(builder, a, b, raw.name, (raw.name,))


@from_tflite("STABLEHLO_MULTIPLY")
def import_hlo_multiply(builder: GraphBuilder, raw: RawNode) -> Value:
    """STABLEHLO_MULTIPLY of floats and plain integers."""
    a, b = raw.operands(2)
    if is_plain_integer(a.type):
        return import_row(builder, raw, "int_mul")
    return builder.op("mul", [a, b], MulAttrs(), name=raw.name)


def _by_row(kind: str, row: str) -> None:
    from_tflite(kind)(partial(import_row, name=row))


_by_row("STABLEHLO_MAXIMUM", "maximum")
_by_row("STABLEHLO_MINIMUM", "minimum")
