"""ONNX models with values of uint8 as the same real numbers in int8, for ONNX Runtime.

Its kernels of uint8 values and int8 weights add pairs of products in 16 bits on many CPUs, where
large ones saturate: results depend on the CPU. Stored numbers and zero points become less by 128,
which leaves every real number as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

#: What uint8 has more than int8.
MOVE = 128


def as_unsigned(stored: Array) -> Array:
    """int8 as the uint8 that it is in the model's file."""
    return np.asarray(stored, np.int8).view(np.uint8) ^ np.uint8(MOVE)


def with_signed_values(data: bytes) -> tuple[bytes, frozenset[str]]:
    """The model with int8 in place of uint8, and the names of the values that are moved.

    data: an ONNX file. A model of which anything but QuantizeLinear, DequantizeLinear and Clip
    reads or makes uint8, or whose inputs or outputs are uint8, stays as it is.
    """
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import numpy_helper

    try:
        model = onnx.load_model_from_string(data)
    except DecodeError:
        return data, frozenset()  # ONNX Runtime says so
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            constants[node.output[0]] = node.attribute[0].t
    unsigned = {name for name, t in constants.items() if t.data_type == onnx.TensorProto.UINT8}
    moved: set[str] = set()
    touched: set[str] = set()
    for node in graph.node:
        if node.op_type == "QuantizeLinear":
            if node.input[2] in unsigned if len(node.input) > 2 else _is_unsigned(node):
                moved.update(node.output)
        elif node.op_type == "Clip" and {*node.input[:1]} & (moved | unsigned):
            moved.update(node.output)
        elif node.op_type != "DequantizeLinear":
            touched.update(node.input)
    touched.update(entry.name for entry in graph.output)
    is_input = any(
        entry.type.tensor_type.elem_type == onnx.TensorProto.UINT8 for entry in graph.input
    )
    if not moved or is_input or touched & (moved | unsigned):
        return data, frozenset()
    for node in graph.node:
        if node.op_type == "QuantizeLinear" and len(node.input) < 3 and _is_unsigned(node):
            _add_zero_point(graph, node)
    for name in unsigned:
        tensor = constants[name]
        array = (numpy_helper.to_array(tensor).astype(np.int16) - MOVE).astype(np.int8)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    # Shapes of uint8 that the file states are no longer true.
    kept = [entry for entry in graph.value_info if entry.name not in moved]
    del graph.value_info[:]
    graph.value_info.extend(kept)
    stored: bytes = model.SerializeToString()
    return stored, frozenset(moved)


def _is_unsigned(quantize: Any) -> bool:
    """Whether a QuantizeLinear without a zero point gives uint8, as it does unless told."""
    from onnx import TensorProto

    dtypes = [each.i for each in quantize.attribute if each.name == "output_dtype"]
    return not dtypes or dtypes[0] in (0, TensorProto.UINT8)


def _add_zero_point(graph: Any, quantize: Any) -> None:
    """State the zero point of uint8 that is not stated, 0, as that of int8."""
    from onnx import numpy_helper

    kept = [each for each in quantize.attribute if each.name != "output_dtype"]
    del quantize.attribute[:]
    quantize.attribute.extend(kept)
    name = f"{quantize.output[0]}.zero_point"
    graph.initializer.append(numpy_helper.from_array(np.asarray(-MOVE, np.int8), name))
    for node in graph.node:
        if node is quantize or (
            node.op_type == "DequantizeLinear"
            and node.input[0] == quantize.output[0]
            and len(node.input) < 3
        ):
            node.input.append(name)
