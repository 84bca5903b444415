"""Nodes appended as ONNX says them, by the importers that this package registers for ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.ops.op import RawNode, find_importer


def append_onnx(
    builder: GraphBuilder,
    name: str,
    kind: str,
    inputs: Sequence[Value | None],
    attributes: Mapping[str, Any],
    *,
    opset: int,
    results: int = 1,
) -> tuple[Value, ...]:
    """All results of a node of ONNX's standard domain. ImportFailed where no importer knows it.

    name: of the node, also in reports.
    """
    importer = find_importer("onnx", kind, opset)
    if importer is None:
        raise ImportFailed(f"it needs ONNX {kind}, which is not supported")
    raw = RawNode(
        kind=kind,
        name=name,
        attributes=attributes,
        inputs=tuple(inputs),
        outputs=(name,) * results,
        output_types=(None,) * results,
        opset=opset,
        rounding="onnx",
    )
    made = importer(builder, raw)
    return made if isinstance(made, tuple) else (made,)
