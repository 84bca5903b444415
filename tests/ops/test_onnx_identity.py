"""Cast and Identity where they compute nothing: constants change their type, values pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.graph.interpret import interpret


def model(path: Path, to: int, of: str) -> Path:
    """y = Identity(x) + Cast(of), where `c` is a constant of int64 and `x` the input."""
    nodes = [
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node("Cast", [of], ["cast"], to=to),
        helper.make_node("Add", ["same", "cast"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "test", [value("x", onnx.TensorProto.FLOAT, (3,))],
        [value("y", onnx.TensorProto.FLOAT, (3,))],
        [numpy_helper.from_array(np.array([1, 2, 3]), "c")],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 9
    path.write_bytes(made.SerializeToString())
    return path


@pytest.mark.parametrize(("of", "wanted"), [("c", [2, 4, 6]), ("x", [2, 4, 6])])
def test_values(of: str, wanted: list[float], tmp_path: Path) -> None:
    function = import_model(model(tmp_path / "m.onnx", onnx.TensorProto.FLOAT, of)).main
    (y,) = interpret(function, [np.array([1, 2, 3], np.float32)])
    np.testing.assert_array_equal(y, np.array(wanted, np.float32), strict=True)
    assert [node.op.name for node in function.nodes] == ["add"]


def test_an_unknown_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImportFailed) as caught:
        import_model(model(tmp_path / "m.onnx", 99, "x"))
    assert "number 99 is unknown" in "\n".join(caught.value.details)
