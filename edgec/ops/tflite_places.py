"""TFLite operators that gather, scatter and mark elements, made of `scattered`'s operators and
rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import edgec.ops.elementwise  # noqa: F401  registers what is named here
from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.ops.mul import MulAttrs
from edgec.ops.op import RawNode, axis_of, from_tflite
from edgec.ops.parts import Parts
from edgec.ops.reduce import ReduceAttrs
from edgec.ops.scattered import AxisAttrs, ScatterAttrs, marked
from edgec.ops.slice import constant_integers, sliced
from edgec.ops.tile import TileAttrs


@from_tflite("GATHER_ND")
def import_gather_nd(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite GATHER_ND."""
    x, indices = raw.operands(2)
    parts = Parts(builder, raw)
    return parts.op("gather_nd", [x, parts.as_indices(indices)], AxisAttrs(0))


@from_tflite("SCATTER_ND", plain_bytes=True)
def import_scatter_nd(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite SCATTER_ND to a constant shape: updates of one place are added, truths joined."""
    indices, updates, _ = raw.operands(3)
    shape = tuple(constant_integers(raw.operand(2), "the shape"))
    parts = Parts(builder, raw)
    if updates.type.dtype == "bool":
        updates = parts.cast(updates, "uint8", "updates")
        zeros = parts.filled(updates.type.with_shape(shape), 0, "zeros")
        operands = [zeros, parts.as_indices(indices), updates]
        return parts.cast(parts.op("scatter", operands, ScatterAttrs(-1, "max"), "max"), "bool")
    zeros = parts.filled(updates.type.with_shape(shape), 0, "zeros")
    return parts.op("scatter", [zeros, parts.as_indices(indices), updates], ScatterAttrs(-1, "add"))


@from_tflite("SPARSE_TO_DENSE")
def import_sparse_to_dense(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite SPARSE_TO_DENSE to a constant shape: values at places, a default elsewhere."""
    indices, _, values, default = raw.operands(4)
    shape = tuple(constant_integers(raw.operand(1), "the shape"))
    parts, rank = Parts(builder, raw), len(shape)
    count = 1 if len(indices.type.shape) == 0 else indices.type.shape[0]
    places = parts.reshaped(parts.as_indices(indices), (count, rank), "tuples")
    if len(values.type.shape) == 0:
        one = parts.reshaped(values, (1,), "value")
        values = one if count == 1 else _repeated(parts, one, (count,), "values")
    else:
        values = parts.reshaped(values, (count,), "values")
    background = _repeated(parts, parts.reshaped(default, (1,) * rank, "default"), shape, "rest")
    return parts.op("scatter", [background, places, values], ScatterAttrs(-1))


def _repeated(parts: Parts, x: Value, shape: tuple[int, ...], what: str) -> Value:
    """A value of extents 1 all over a shape."""
    if isinstance(x, Constant):
        data = np.ascontiguousarray(np.broadcast_to(x.data, shape))
        return parts.builder.constant(f"{parts.name}.{what}", data, x.type.quant)
    return parts.op("tile", [x], TileAttrs(shape), what)


@from_tflite("ONE_HOT")
def import_one_hot(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite ONE_HOT to a constant depth; an index out of range marks nothing."""
    indices, _, on, off = raw.operands(4)
    (depth,) = constant_integers(raw.operand(1), "the depth")
    axis = axis_of(int(raw.attribute("axis", -1)), len(indices.type.shape) + 1)
    return marked(Parts(builder, raw), indices, depth, axis, on, off)


@from_tflite("MATRIX_DIAG", plain_bytes=True)
def import_matrix_diag(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite MATRIX_DIAG: the last axis on the diagonals of matrices, zeros elsewhere."""
    (x,) = raw.operands(1)
    parts, (*outer, count) = Parts(builder, raw), x.type.shape
    truth = parts.table(np.eye(count), "diagonal", "bool")
    rows = parts.reshaped(x, (*outer, 1, count), "rows")
    return parts.op("where", [truth, rows, parts.filled(x.type.with_shape(()), 0, "zero")])


@from_tflite("MATRIX_SET_DIAG")
def import_matrix_set_diag(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite MATRIX_SET_DIAG: matrices with other diagonals."""
    x, diagonal = raw.operands(2)
    *outer, rows, columns = x.type.shape
    parts, count = Parts(builder, raw), min(rows, columns)
    truth = parts.table(np.eye(rows, columns), "diagonal", "bool")
    line = (*outer, 1, count) if columns <= rows else (*outer, count, 1)
    return parts.op("where", [truth, parts.reshaped(diagonal, line, "line"), x])


@from_tflite("EMBEDDING_LOOKUP")
def import_embedding_lookup(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite EMBEDDING_LOOKUP: rows by their numbers; integer rows may become floats."""
    ids, table = raw.operands(2)
    return _rows(Parts(builder, raw), ids, table, raw.declared().dtype, "")


def _rows(parts: Parts, ids: Value, table: Value, dtype: str, what: str) -> Value:
    """Rows of a table; integer rows times their scale where the file declares floats."""
    quant = table.type.quant
    if table.type.dtype == dtype or quant is None or dtype != "float32":
        return parts.op("gather_at", [table, ids], AxisAttrs(0), what)
    if not isinstance(table, Constant):
        raise ImportFailed("a table of integers that becomes floats must be a constant")
    if not quant.per_tensor and quant.axis != 0:
        raise ImportFailed(
            f"scales along axis {quant.axis}: only scales of rows (axis 0) are supported"
        )
    plain = parts.table(table.data, "stored", table.type.dtype)
    found = parts.op("gather_at", [plain, ids], AxisAttrs(0), "rows")
    real = parts.cast(found, "float32", "real")
    scales = parts.table(quant.scale, "scales", "float32")
    if not quant.per_tensor:
        scale = parts.op("gather_at", [scales, ids], AxisAttrs(0), "scale")
        ones = (1,) * (len(table.type.shape) - 1)
        return _product(parts, real, parts.reshaped(scale, (*ids.type.shape, *ones)), what)
    return _product(parts, real, scales, what)


def _product(parts: Parts, a: Value, b: Value, what: str = "") -> Value:
    return parts.op("mul", [a, b], MulAttrs(), what)


@from_tflite("EMBEDDING_LOOKUP_SPARSE")
def import_embedding_lookup_sparse(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite EMBEDDING_LOOKUP_SPARSE of a constant shape: weighted sums of rows by group.

    Source: embedding_lookup_sparse.cc. A mean is divided by the sum of weights, SQRTN by the root
    of the sum of their squares; a group without weight stays zero.
    """
    ids, indices, _, weights, table = raw.operands(5)
    groups = tuple(constant_integers(raw.operand(2), "the shape")[:-1])
    parts, count = Parts(builder, raw), ids.type.elements
    ones = (1,) * (len(table.type.shape) - 1)
    ranges = [(0, 1, count), (0, 1, len(groups))]
    places = sliced(builder, indices, ranges, f"{raw.name}/groups", (raw.name,))
    rows = parts.op("gather_at", [table, ids], AxisAttrs(0), "rows")
    shares = _product(parts, rows, parts.reshaped(weights, (count, *ones), "weights"), "shares")
    total = _gathered(parts, places, shares, groups, "sums")
    combiner = raw.attribute("combiner", "SUM")
    if combiner == "SUM":
        return total
    by = weights if combiner == "MEAN" else _product(parts, weights, weights, "squares")
    whole = _gathered(parts, places, by, groups, "whole")
    if combiner == "SQRTN":
        whole = parts.op("sqrt", [whole], what="root")
    zero = parts.table(0, "zero", "float32")
    empty = parts.op("equal", [whole, zero], what="empty")
    divisor = parts.op("where", [empty, parts.table(1, "one", "float32"), whole], what="divisor")
    return parts.op("div", [total, parts.reshaped(divisor, (*groups, *ones), "divisors")])


def _gathered(
    parts: Parts, places: Value, values: Value, groups: tuple[int, ...], what: str
) -> Value:
    """Return the sum of the members of each place."""
    type_ = values.type.with_shape((*groups, *values.type.shape[1:]))
    zeros = parts.filled(type_, 0, f"{what}.zeros")
    return parts.op("scatter", [zeros, places, values], ScatterAttrs(-1, "add"), what)


#: Results of groups without members, and how members are combined.
_SEGMENTS = {"SUM": ("add", None), "PROD": ("mul", None), "MAX": ("max", -1), "MIN": ("min", 1)}


def _import_segments(name: str) -> None:
    @from_tflite(f"UNSORTED_SEGMENT_{name}")
    def importer(builder: GraphBuilder, raw: RawNode) -> Value:
        """Members with a negative group belong to none."""
        (count,) = constant_integers(raw.operand(2), "the number of groups")
        return _segments(builder, raw, name, count)


for _name in _SEGMENTS:
    _import_segments(_name)


@from_tflite("SEGMENT_SUM")
def import_segment_sum(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite SEGMENT_SUM by constant groups, which decide on the output's size."""
    ids = constant_integers(raw.operand(1), "the groups, which decide on the output's size,")
    return _segments(builder, raw, "SUM", max(ids, default=-1) + 1)


def _segments(builder: GraphBuilder, raw: RawNode, name: str, count: int) -> Value:
    x, ids = raw.operand(0), raw.operand(1)
    parts, (members, *rest) = Parts(builder, raw), x.type.shape
    if ids.type.shape != (members,) or count < 1:
        raise ImportFailed(f"{count} groups of {x.type} by {ids.type}")
    reduction, end = _SEGMENTS[name]
    start: float = 1 if name == "PROD" else 0
    if end is not None:
        info: Any = np.finfo(x.type.dtype) if x.type.is_float else np.iinfo(x.type.dtype)
        start = info.min if end < 0 else info.max
    # One more group takes the members that belong to none.
    groups = parts.filled(x.type.with_shape((count + 1, *rest)), start, "groups")
    negative = parts.op("less", [ids, parts.table(0, "none", ids.type.dtype)], what="negative")
    extra = parts.table(count, "last", ids.type.dtype)
    known = parts.op("where", [negative, extra, ids], what="known")
    places = parts.reshaped(known, (members, 1), "places")
    made = parts.op("scatter", [groups, places, x], ScatterAttrs(-1, reduction), "all")
    return sliced(builder, made, [(0, 1, count), *((0, 1, e) for e in rest)], raw.name)


@from_tflite("BUCKETIZE")
def import_bucketize(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite BUCKETIZE: how many of the ascending boundaries are not above each element."""
    (x,) = raw.operands(1)
    parts, boundaries = Parts(builder, raw), np.asarray(raw.attribute("boundaries"), np.float32)
    rank = len(x.type.shape)
    real = x if x.type.is_float else parts.cast(x, "float32", "real")
    wide = parts.reshaped(real, (*x.type.shape, 1), "wide")
    line = parts.table(boundaries, "boundaries", real.type.dtype)
    not_below = parts.op("greater_equal", [wide, line], what="not_below")
    counted = parts.cast(not_below, "int32", "counted")
    total = parts.op("reduce", [counted], ReduceAttrs((rank,), "sum"), "total")
    return parts.reshaped_last(total, x.type.shape)
