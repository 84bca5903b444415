"""ONNX's Identity."""

from __future__ import annotations

from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.ops.op import RawNode, from_onnx


@from_onnx("Identity")
def import_identity(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Identity: the value itself."""
    return raw.operand(0)
