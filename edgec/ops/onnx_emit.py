"""Nodes of ONNX's operators that importers of larger ones append."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.ops.op import RawNode, find_importer

#: The opset that they mean.
OPSET = 22


def emitted(
    builder: GraphBuilder, kind: str, inputs: Sequence[Value | None], name: str, **attributes: Any
) -> Value:
    """The only, or first, output of an ONNX operator on these values. Raises ImportFailed."""
    importer = find_importer("onnx", kind, OPSET)
    if importer is None:
        raise ImportFailed(f"{kind} is not supported")
    made = importer(
        builder, RawNode(kind, name, attributes, tuple(inputs), ("",), (None,), opset=OPSET)
    )
    return made[0] if isinstance(made, tuple) else made
