"""ONNX operators whose results are constants, or are picked by constants, at compile time."""

from __future__ import annotations

import math

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.ops.cast import ELEMENT_TYPES
from edgec.ops.fill_beyond import elements_in_use, is_open
from edgec.ops.nonzero import compressed
from edgec.ops.op import RawNode, axis_of, from_onnx
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.scattered import AxisAttrs

#: Most elements of a constant that is made.
MOST_ELEMENTS = 1 << 20
_RANGE = ("the start", "the limit", "the delta")
#: Operators of constants that are evaluated at import, and the opset that introduced each.
_MADE = {"ConstantOfShape": 9, "HannWindow": 17, "HammingWindow": 17,
         "BlackmanWindow": 17, "MelWeightMatrix": 17}  # fmt: skip


def _import_made(kind: str, since: int) -> None:
    @from_onnx(kind, since)
    def importer(builder: GraphBuilder, raw: RawNode) -> Value:
        for position in range(len(raw.inputs)):
            raw.constant(position, "the inputs that determine its size")
        raise ImportFailed("its result for constants is too large or cannot be computed")


for _kind, _since in _MADE.items():
    _import_made(_kind, _since)


@from_onnx("Range", since=11)
def import_range(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Range between constants, each of one element."""
    ends = [raw.constant(n, what).data.reshape(-1) for n, what in enumerate(_RANGE)]
    if any(end.size != 1 for end in ends) or not ends[2][0]:
        raise ImportFailed("a start, a limit and a delta that is not 0 are needed, each one number")
    (start,), (limit,), (delta,) = ends
    count = max(math.ceil((float(limit) - float(start)) / float(delta)), 0)
    if count > MOST_ELEMENTS:
        raise ImportFailed(f"a constant of {count} elements")
    made = start + np.arange(count).astype(ends[0].dtype) * delta
    return builder.constant(raw.name, made.astype(ends[0].dtype))


@from_onnx("Size")
def import_size(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Size: the number of elements, a constant unless data decide it."""
    axes = range(len(raw.operand(0).type.shape))
    if is_open(builder, raw, axes):
        count = elements_in_use(builder, raw, axes)
        return builder.op("reshape", [count], ReshapeAttrs(()), name=raw.name)
    return builder.constant(raw.name, np.asarray(raw.operand(0).type.elements, np.int64))


@from_onnx("EyeLike", since=9)
def import_eye(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX EyeLike: ones on a diagonal, as a constant of the input's shape."""
    x = raw.operand(0).type
    if len(x.shape) != 2:
        raise ImportFailed(f"an input of rank {len(x.shape)}")
    dtype = ELEMENT_TYPES.get(int(raw.attribute("dtype", 0)), x.dtype)
    return builder.constant(raw.name, np.eye(*x.shape, int(raw.attribute("k", 0))).astype(dtype))


@from_onnx("Compress", since=9)
def import_compress(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Compress: a gather of the indices that the condition keeps; it may be computed."""
    x, condition = raw.operands(2)
    axis = raw.attribute("axis")
    if axis is None:
        flat = ReshapeAttrs((x.type.elements,))
        x = builder.op("reshape", [x], flat, name=f"{raw.name}/flat", sources=(raw.name,))
    axis = axis_of(int(axis or 0), len(x.type.shape))
    if not isinstance(condition, Constant):
        return compressed(builder, x, axis, condition, raw.name)
    kept = np.flatnonzero(condition.data).astype(np.int32)
    if (kept >= x.type.shape[axis]).any():
        raise ImportFailed(f"axis {axis} of {x.type} by {len(kept)} places")
    table = builder.constant(f"{raw.name}.places", kept)
    return builder.op("gather", [x, table], AxisAttrs(axis), name=raw.name)
