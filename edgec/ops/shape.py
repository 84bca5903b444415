"""shape: the extents of a tensor, which are known at compile time."""

from __future__ import annotations

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.ops.op import RawNode, from_onnx, from_tflite


@from_tflite("SHAPE")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite SHAPE as a constant of the type that the output declares."""
    declared = raw.output_types[0]
    if declared is None or declared.dtype not in ("int32", "int64"):
        raise ImportFailed("the output is not int32 or int64")
    return builder.constant(raw.name, np.array(raw.operand(0).type.shape, declared.dtype))


@from_onnx("Shape")
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Shape as an int64 constant, or a part of it."""
    shape = raw.operand(0).type.shape
    end = raw.attribute("end")
    part = shape[int(raw.attribute("start", 0)) : None if end is None else int(end)]
    return builder.constant(raw.name, np.array(part, np.int64))
