"""ONNX operators that are defined by others: their bodies take their place.

A file may define operators of its own, its functions. The onnx package has a body for about fifty
operators of the standard, some for any node, some made for the types and attributes of one node. An
operator without an importer of its own is imported through it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgec.frontends.onnx_bodies import BODIES, OPSET, Use, own_body
from edgec.frontends.onnx_qoperators import QOPERATORS
from edgec.graph.types import TensorType


def function_body(
    node: Any,
    kind: str,
    opset: int,
    types: Sequence[TensorType | None],
    outer: str,
    attributes: Mapping[str, Any],
    functions: Mapping[tuple[str, ...], Any],
) -> tuple[int, list[Any]] | None:
    """The opset and the nodes of a node's body, or None if there is none.

    functions: the file's own, by `function_key`. types: of the node's inputs, None for absent ones.
    attributes: of the node, as Python values. outer: prefix of the inner names. The last nodes
    compute the node's outputs.
    """
    import onnx

    defined = functions.get((node.domain, node.op_type, node.overload))
    if defined is not None:
        given = {a.name: a for a in (*defined.attribute_proto, *node.attribute)}
        return _opset_of(defined, opset), _inlined(defined, node, given, outer)
    use = Use(kind, dict(attributes), tuple(types), len(node.output), opset)
    own = own_body(use, {**BODIES, **QOPERATORS})
    if own is not None:
        return OPSET, _inlined(own, node, {}, outer)
    domain, _, name = kind.rpartition(".")
    try:
        schema: Any = onnx.defs.get_schema(name, opset, domain)
    except onnx.defs.SchemaError:
        return None
    body = _standard_body(schema, node, opset, types)
    if body is None:
        return None
    attributes_of = {a.name: a for a in schema_defaults(schema)}
    attributes_of.update({a.name: a for a in node.attribute})
    return _opset_of(body, opset), _inlined(body, node, attributes_of, outer)


#: Operators of the standard whose bodies draw random numbers, or work on sequences.
_NOT_IMPORTED = ("Bernoulli", "SequenceMap")


def composed_kinds() -> tuple[str, ...]:
    """ONNX operators that are imported through a body, by name; some have an importer, too."""
    import onnx

    schemas: list[Any] = list(onnx.defs.get_all_schemas())
    standard = {
        schema.name
        for schema in schemas
        if schema.domain == "" and (schema.has_function or schema.has_context_dependent_function)
    }
    return tuple(sorted({*BODIES, *QOPERATORS, *standard}.difference(_NOT_IMPORTED)))


def function_key(function: Any) -> tuple[str, ...]:
    """Domain, name and overload, which a node needs to call a function."""
    return function.domain, function.name, function.overload


def _opset_of(body: Any, opset: int) -> int:
    """The version of the standard's operators in a body; `opset` if it does not say one."""
    versions = [entry.version for entry in body.opset_import if entry.domain in ("", "ai.onnx")]
    return max(versions, default=opset)


def _standard_body(
    schema: Any, node: Any, opset: int, types: Sequence[TensorType | None]
) -> Any | None:
    """The standard's body of a node, made for its types if it depends on them."""
    import onnx

    body = onnx.FunctionProto()
    fitting = [v for v in schema.function_opset_versions if v <= opset]
    made_for_types = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
    if made_for_types:
        protos = [_type_proto(type_) for type_ in types]
        text = schema.get_context_dependent_function_with_opset_version(
            max(made_for_types), node.SerializeToString(), protos
        )
    elif fitting:
        text = schema.get_function_with_opset_version(max(fitting))
    else:
        return None
    if not text:
        return None
    body.ParseFromString(text)
    return body


def _inlined(body: Any, node: Any, attributes: Mapping[str, Any], outer: str) -> list[Any]:
    """The nodes of a body, with the node's inputs and outputs."""
    names = dict(zip(body.input, node.input, strict=False))
    names.update({inner: "" for inner in body.input[len(node.input) :]})
    names.update({inner: own for inner, own in zip(body.output, node.output, strict=False) if own})
    return [_renamed(inner, names, attributes, outer) for inner in body.node]


def schema_defaults(schema: Any) -> list[Any]:
    """The attributes of an operator that have a default."""
    return [a.default_value for a in schema.attributes.values() if a.default_value.name]


def _type_proto(type_: TensorType | None) -> bytes:
    import onnx

    if type_ is None:
        return b""
    number = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(type_.dtype))
    made = onnx.helper.make_tensor_type_proto(number, list(type_.shape))
    return bytes(made.SerializeToString())


def _renamed(node: Any, names: dict[str, str], attributes: Mapping[str, Any], outer: str) -> Any:
    """A node of the body with names of the outside, and the outer node's attributes in place."""
    import onnx

    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.name = f"{outer}/{node.name or node.op_type}"
    del copy.attribute[:]
    for attribute in node.attribute:
        chosen = attribute
        if attribute.ref_attr_name:
            if attribute.ref_attr_name not in attributes:
                continue
            chosen = onnx.AttributeProto()
            chosen.CopyFrom(attributes[attribute.ref_attr_name])
            chosen.name = attribute.name
        elif attribute.HasField("g"):
            chosen = onnx.AttributeProto()
            chosen.CopyFrom(attribute)
            _rename_graph(chosen.g, names, attributes, outer)
        copy.attribute.append(chosen)
    copy.input[:] = [names.get(name, f"{outer}/{name}") if name else "" for name in node.input]
    for name in node.output:
        if name and name not in names:
            names[name] = f"{outer}/{name}"
    copy.output[:] = [names.get(name, "") for name in node.output]
    return copy


def _rename_graph(
    graph: Any, names: dict[str, str], attributes: Mapping[str, Any], outer: str
) -> None:
    """Rename the values of a branch, whose nodes read names of the body."""
    inside = dict(names)
    for entry in graph.input:
        inside[entry.name] = entry.name = f"{outer}/{entry.name}"
    for tensor in graph.initializer:
        inside[tensor.name] = tensor.name = f"{outer}/{tensor.name}"
    renamed = [_renamed(node, inside, attributes, outer) for node in graph.node]
    del graph.node[:]
    graph.node.extend(renamed)
    for entry in graph.output:
        entry.name = inside.get(entry.name, entry.name)
