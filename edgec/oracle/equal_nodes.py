"""ONNX models with each QuantizeLinear once, for ONNX Runtime.

Training puts a fake quantization before every reader of a value, often of the same parameters. With
two of them behind a Conv ONNX Runtime computes it in float; as one they are what the file says, in
integers.
"""

from __future__ import annotations

from typing import Any


def with_equal_nodes_once(data: bytes) -> bytes:
    """The model without QuantizeLinear nodes that do what one before them does.

    data: an ONNX file. Nodes whose results are outputs of the model stay.
    """
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load_model_from_string(data)
    except DecodeError:
        return data  # ONNX Runtime says so
    graph = model.graph
    contents = {tensor.name: _content(tensor) for tensor in graph.initializer}
    outputs = {entry.name for entry in graph.output}
    first: dict[Any, str] = {}
    same: dict[str, str] = {}
    kept = []
    for node in graph.node:
        for position, name in enumerate(node.input):
            node.input[position] = same.get(name, name)
        if node.op_type == "QuantizeLinear" and not outputs & {*node.output}:
            attributes = tuple(sorted(each.SerializeToString() for each in node.attribute))
            operands = (*node.input[:1], *(contents.get(name, name) for name in node.input[1:]))
            before = first.setdefault((operands, attributes), node.output[0])
            if before != node.output[0]:
                same[node.output[0]] = before
                continue
        kept.append(node)
    if not same:
        return data
    del graph.node[:]
    graph.node.extend(kept)
    stored: bytes = model.SerializeToString()
    return stored


def _content(tensor: Any) -> tuple[Any, ...]:
    """What tells a constant from others, but for its name."""
    from onnx import numpy_helper

    try:
        array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError):
        return (tensor.name,)
    return tensor.data_type, tuple(tensor.dims), array.tobytes()
