"""ONNX's Identity."""

from __future__ import annotations

from typing import Any

from edgec.graph.builder import GraphBuilder
from edgec.ops.op import RawNode, from_onnx


@from_onnx("Identity")
def import_identity(builder: GraphBuilder, raw: RawNode) -> Any:
    """ONNX Identity: the value itself."""
    return raw.operand(0)
