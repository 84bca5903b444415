"""ONNX's Cast and Identity, where they compute nothing at run time."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant
from edgec.ops.op import RawNode, from_onnx

#: Numbers of ONNX's element types that graphs know.
DTYPES = {1: "float32", 2: "uint8", 3: "int8", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
          10: "float16", 11: "float64"}  # fmt: skip


@from_onnx("Cast")
def import_cast(builder: GraphBuilder, raw: RawNode) -> Any:
    """ONNX Cast of a constant, or to the type that the value has."""
    (x,) = raw.operands(1)
    dtype = DTYPES.get(raw.attribute("to"))
    if dtype is None:
        raise ImportFailed(f"element type number {raw.attribute('to')} is unknown")
    if x.type.dtype == dtype:
        return x
    if not isinstance(x, Constant):
        raise ImportFailed(f"{x.type.dtype} to {dtype}: only constants are cast")
    with np.errstate(over="ignore", invalid="ignore"):
        return builder.constant(raw.name, x.data.astype(dtype))


@from_onnx("Identity")
def import_identity(builder: GraphBuilder, raw: RawNode) -> Any:
    """ONNX Identity: the value itself."""
    return raw.operand(0)
