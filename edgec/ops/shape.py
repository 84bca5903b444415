"""shape: the extents of a tensor, known at compile time unless data decide them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.ops.concat import ConcatAttrs
from edgec.ops.fill_beyond import extents_in_use, is_open
from edgec.ops.op import RawNode, from_onnx, from_tflite


@from_tflite("SHAPE")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite SHAPE of the type that the output declares."""
    declared = raw.output_types[0]
    if declared is None or declared.dtype not in ("int32", "int64"):
        raise ImportFailed("the output is not int32 or int64")
    return _shape(builder, raw, range(len(raw.operand(0).type.shape)), declared.dtype)


@from_onnx("Shape")
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Shape in int64, or a part of it."""
    start, end = int(raw.attribute("start", 0)), raw.attribute("end")
    axes = range(len(raw.operand(0).type.shape))[start : None if end is None else int(end)]
    return _shape(builder, raw, axes, "int64")


def _shape(builder: GraphBuilder, raw: RawNode, axes: Sequence[int], dtype: str) -> Value:
    """A constant, unless data decide one of the extents."""
    if is_open(builder, raw, axes):
        extents = extents_in_use(builder, raw, axes, dtype)
        return builder.op("concat", extents, ConcatAttrs(0), name=raw.name)
    shape = raw.operand(0).type.shape
    return builder.constant(raw.name, np.array([shape[axis] for axis in axes], dtype))
