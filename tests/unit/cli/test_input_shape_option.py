"""`--input-shape`: extents that an ONNX file leaves open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
from onnx import helper


def test_the_command_line_takes_them(tmp_path: Path, edgec: Callable) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "test",
        [value("x", onnx.TensorProto.FLOAT, ("N", 3, "?", "W"))],
        [value("y", onnx.TensorProto.FLOAT, None)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    open_model = tmp_path / "open.onnx"
    open_model.write_bytes(model.SerializeToString())
    out = tmp_path / "project"
    words = ("build", open_model, "--board", "host", "-o", out)
    refused = edgec(*words)
    assert refused.status == 1 and "--input-shape x=" in refused.err
    assert edgec(*words, "--input-shape", "x=1,3,8,12").status == 0
    wrong = edgec(*words, "--input-shape", "x=1,0")
    assert wrong.status == 2 and "is no shape" in wrong.err
