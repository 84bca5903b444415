"""Damaged ONNX files: what the fuzzer found, each as a small file."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from edgec.errors import ImportFailed
from edgec.frontends import import_model


def relu_model() -> onnx.ModelProto:
    node = helper.make_node("Relu", ["x"], ["y"], name="relu")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 4)) for n in "xy")
    return helper.make_model(
        helper.make_graph([node], "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)]
    )


def failure(model: onnx.ModelProto, folder: Path) -> ImportFailed:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ImportFailed) as caught:
        import_model(path)
    return caught.value


@pytest.mark.parametrize("kind", [4, 5, 11, 13])  # tensor, graph, sparse tensor, type
def test_attributes_without_a_value_of_use(kind: int, tmp_path: Path) -> None:
    model = relu_model()
    attribute = model.graph.node[0].attribute.add(name="broken")
    attribute.type = kind
    text = str(failure(model, tmp_path))
    assert "broken" in text or "subgraphs" in text or "tensor" in text


@pytest.mark.parametrize("inputs", [[], ["x"], ["x", "s", "z", "z"], ["x", "z", "s"]])
def test_stored_inputs_that_are_dequantized_in_no_way(inputs: list[str], tmp_path: Path) -> None:
    node = helper.make_node("DequantizeLinear", inputs, ["y"], name="d")
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT8, (1, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4))],
        [helper.make_tensor("s", TensorProto.FLOAT, (), [float("nan")]),
         helper.make_tensor("z", TensorProto.INT8, (), [3])],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    assert failure(model, tmp_path).details


@pytest.mark.parametrize(
    "number, name", [(TensorProto.STRING, "string"), (TensorProto.COMPLEX64, "complex64"),
                     (TensorProto.UNDEFINED, "undefined"), (99, "unknown")]
)  # fmt: skip
def test_inputs_that_hold_no_numbers(number: int, name: str, tmp_path: Path) -> None:
    model = relu_model()
    model.graph.input[0].type.tensor_type.elem_type = number
    assert f"input 'x' is of type {name}; " in str(failure(model, tmp_path))


def test_inputs_that_are_no_tensors(tmp_path: Path) -> None:
    model = relu_model()
    tensors = helper.make_tensor_type_proto(TensorProto.FLOAT, (1, 4))
    model.graph.input[0].type.CopyFrom(helper.make_sequence_type_proto(tensors))
    assert "input 'x' is of type sequence; " in str(failure(model, tmp_path))
