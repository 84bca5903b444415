"""Equal QuantizeLinear nodes in what ONNX Runtime is given."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx_builder import OnnxBuilder

from edgec.oracle.onnx_edits import edit_onnx, merge_equal_quantize


def edited(data: bytes) -> bytes:
    return edit_onnx(data, [merge_equal_quantize])[0]


def quantized(path: Path, second: tuple[float, int], value: str = "x") -> bytes:
    """A value that is quantized twice, and the sum of both."""
    model = OnnxBuilder(1, (1, 8))
    other = model.add("Relu", ["x"])
    left = model.qdq("x", 0.02, 3)
    right = model.qdq(value if value == "x" else other, *second)
    return model.save(model.add("Add", [left, right]), path).read_bytes()


def count(data: bytes) -> int:
    nodes = onnx.load_model_from_string(data).graph.node
    return sum(node.op_type == "QuantizeLinear" for node in nodes)


def test_equal_nodes_are_one(tmp_path: Path) -> None:
    data = edited(quantized(tmp_path / "m.onnx", (0.02, 3)))
    assert count(data) == 1
    onnx.checker.check_model(onnx.load_model_from_string(data))


@pytest.mark.parametrize("second", [(0.03, 3), (0.02, 4)])
def test_others_stay(second: tuple[float, int], tmp_path: Path) -> None:
    data = quantized(tmp_path / "m.onnx", second)
    assert edited(data) == data
    other = quantized(tmp_path / "m.onnx", (0.02, 3), "relu")
    assert edited(other) == other
    assert edited(b"no model") == b"no model"


def test_outputs_stay(tmp_path: Path) -> None:
    model = onnx.load_model_from_string(quantized(tmp_path / "m.onnx", (0.02, 3)))
    stored = [node.output[0] for node in model.graph.node if node.op_type == "QuantizeLinear"]
    model.graph.output.append(onnx.ValueInfoProto(name=stored[1]))
    assert count(edited(model.SerializeToString())) == 2
