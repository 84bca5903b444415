"""ONNX models with Relu and Clip behind the rounding to integers, for ONNX Runtime.

It computes a Conv in integers only if a QuantizeLinear reads its result, and drops a limit between
them only where the QuantizeLinear does the same: a Relu with the least zero point. Others, as those
of `edgec quantize --symmetric`, would be computed in floats, which round otherwise now and then.
Limits keep the order of numbers: behind the rounding they give the same.
"""

from __future__ import annotations

from typing import Any

#: What ONNX Runtime has integer kernels of, which round once.
PRODUCTS = ("Conv", "Gemm", "MatMul", "Add", "Mul")
LIMITS = ("Relu", "Clip")


def with_late_limits(data: bytes) -> bytes:
    """The model whose limits of products read a QuantizeLinear and DequantizeLinear more.

    data: an ONNX file. Only limits between one product of dequantized values and one QuantizeLinear
    to 8 bits are moved; the names of all values stay.
    """
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load_model_from_string(data)
    except DecodeError:
        return data  # ONNX Runtime says so
    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output}
    readers: dict[str, list[Any]] = {entry.name: [None] for entry in graph.output}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    nodes = []
    for node in graph.node:
        if node.op_type in LIMITS and _is_late(graph, node, makers, readers):
            (quantize,) = readers[node.output[0]]
            stored, real = (f"{node.input[0]}.{part} before limits" for part in ("q", "dq"))
            parameters = quantize.input[1:]
            first = onnx.NodeProto()
            first.CopyFrom(quantize)
            first.name = ""
            first.input[0], first.output[0] = node.input[0], stored
            nodes += [
                first,
                onnx.helper.make_node("DequantizeLinear", [stored, *parameters], [real]),
            ]
            node.input[0] = real
        nodes.append(node)
    if len(nodes) == len(graph.node):
        return data
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)
    changed: bytes = model.SerializeToString()
    return changed


def _is_late(graph: Any, limit: Any, makers: dict[str, Any], readers: dict[str, list[Any]]) -> bool:
    """Whether a limit is between a product of dequantized values and a QuantizeLinear alone."""
    product, after = makers.get(limit.input[0]), readers.get(limit.output[0], [])
    if product is None or product.op_type not in PRODUCTS or len(after) != 1:
        return False
    (quantize,) = after
    if quantize is None or quantize.op_type != "QuantizeLinear" or len(quantize.input) < 3:
        return False
    made = [makers.get(name) for name in product.input[:2]]
    if any(each is None or each.op_type != "DequantizeLinear" for each in made):
        return False
    zero_point = _constant(graph, makers, quantize.input[2])
    if zero_point is None or zero_point.dtype.itemsize != 1 or zero_point.dtype.kind not in "iu":
        return False
    is_least = zero_point.size == 1 and zero_point.item() == (
        0 if zero_point.dtype.kind == "u" else -128
    )
    return len(readers[limit.input[0]]) == 1 and not (limit.op_type == "Relu" and is_least)


def _constant(graph: Any, makers: dict[str, Any], name: str) -> Any:
    """The array of a constant; None of what is none, or of no dtype that NumPy has."""
    from onnx import numpy_helper

    node = makers.get(name)
    if node is not None:
        is_value = node.op_type == "Constant" and [each.name for each in node.attribute] == [
            "value"
        ]
        tensors = [node.attribute[0].t] if is_value else []
    else:
        tensors = [tensor for tensor in graph.initializer if tensor.name == name]
    try:
        return numpy_helper.to_array(tensors[0]) if tensors else None
    except (ValueError, TypeError, KeyError):
        return None
