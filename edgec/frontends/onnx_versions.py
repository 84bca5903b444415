"""Operator sets of ONNX: older ones are converted, newer ones refused.

Importers support opset 7, which introduced today's broadcasting, and later ones. For each operator
they support the versions up to NEWEST; a later version may have another meaning.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgec.errors import ImportFailed

OLDEST = 7
#: The newest opset whose operators the importers were written for.
NEWEST = 28
STANDARD = ("", "ai.onnx")


def opset_of(model: Any) -> int:
    """The version of the standard's operators in a model, 0 if it uses none."""
    versions = (entry.version for entry in model.opset_import if entry.domain in STANDARD)
    return max(versions, default=0)


def with_known_opset(model: Any, path: Path) -> Any:
    """The model with operators of opset 7 at least.

    Raises ImportFailed where they cannot be converted, and for an opset that is too new.
    """
    from onnx import defs, version_converter

    opset = opset_of(model)
    if opset > max(NEWEST, defs.onnx_opset_version()):
        raise ImportFailed(
            f"{path.name} has operators of opset {opset}, newer than {NEWEST}, the newest known",
            hint="export it at an older opset, or convert it with onnx.version_converter",
        )
    if not 0 < opset < OLDEST:
        return model
    _align_operands(model)
    try:
        return version_converter.convert_version(model, OLDEST)
    except (RuntimeError, ValueError, TypeError, version_converter.ConvertError) as error:
        raise ImportFailed(
            f"{path.name} has operators of opset {opset}, which could not be converted to {OLDEST}",
            details=(str(error).strip().splitlines()[0][:200],) if str(error).strip() else (),
            hint=f"export it at opset {OLDEST} or later",
        ) from None


def _align_operands(model: Any) -> None:
    """Append axes to second operands that belong to an axis, so that they broadcast.

    Opset 7 requires that: for the slopes of PRelu, one per channel, and for operands positioned by
    the attribute `axis`.
    """
    from onnx import helper, shape_inference

    graph = model.graph
    inferred = shape_inference.infer_shapes(model).graph
    ranks = {
        entry.name: len(entry.type.tensor_type.shape.dim)
        for entry in (*inferred.value_info, *inferred.input)
    }
    ranks.update((tensor.name, len(tensor.dims)) for tensor in graph.initializer)
    for number in reversed(range(len(graph.node))):
        node = graph.node[number]
        axis = _place_of_operand(node)
        if axis is None or not all(name in ranks for name in node.input[:2]):
            continue
        rank = ranks[node.input[1]]
        more = ranks[node.input[0]] - axis - rank
        if more > 0 and rank:
            shaped, axes = f"{node.input[1]}/{number}", list(range(rank, rank + more))
            aligned = helper.make_node("Unsqueeze", [node.input[1]], [shaped], axes=axes)
            graph.node.insert(number, aligned)
            graph.node[number + 1].input[1] = shaped


def _place_of_operand(node: Any) -> int | None:
    """The axis of the first operand at which the second one begins, if a node of opset 6 says it.

    It says so no longer.
    """
    if len(node.input) != 2:
        return None
    if node.op_type == "PRelu":
        return 1
    for number, attribute in enumerate(node.attribute):
        if attribute.name == "axis" and any(a.name == "broadcast" for a in node.attribute):
            axis = int(attribute.i)
            del node.attribute[number]
            return axis
    return None


def require_known(kind: str, opset: int) -> None:
    """Raise ImportFailed for an operator of the standard in a version that is too new."""
    from onnx import defs

    if defs.has(kind):
        since = _since(kind, opset)
        if since > NEWEST:
            raise ImportFailed(f"{kind} changed at opset {since}: known is {NEWEST} and older")


def _since(kind: str, opset: int) -> int:
    from onnx import defs

    try:
        return int(defs.get_schema(kind, opset).since_version)
    except defs.SchemaError:  # not yet there
        return 0
