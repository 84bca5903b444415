"""Input extents that an ONNX file leaves open: given by the user, checked against the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.interpret import interpret


@pytest.fixture
def open_model(tmp_path: Path) -> Path:
    """A ReLU of x [N, 3, ?, W]."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "test",
        [value("x", onnx.TensorProto.FLOAT, ("N", 3, "?", "W"))],
        [value("y", onnx.TensorProto.FLOAT, None)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    path = tmp_path / "open.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_given_shapes_settle_the_inputs(open_model: Path) -> None:
    function = import_model(open_model, shapes={"x": (1, 3, 8, 12)}).main
    assert function.params[0].type.shape == function.results[0].type.shape == (1, 3, 8, 12)


def test_declared_outputs_may_leave_extents_open(open_model: Path) -> None:
    """As Paddle writes them: -1 for a size that is not known."""
    model = onnx.load(open_model)
    declared = (-1, 3, -1, -1)
    model.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, declared)
    )
    open_model.write_bytes(model.SerializeToString())
    function = import_model(open_model, shapes={"x": (1, 3, 8, 12)}).main
    assert function.results[0].type.shape == (1, 3, 8, 12)


def test_the_hint_gives_a_shape_that_can_be_used(open_model: Path) -> None:
    with pytest.raises(ImportFailed) as caught:
        import_model(open_model)
    assert caught.value.hint.endswith("--input-shape x=1,3,224,224")
    function = import_model(open_model, shapes={"x": (1, 3, 224, 224)}).main
    assert function.params[0].type.shape == (1, 3, 224, 224)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({}, "has the symbolic dimension '[?]'"),
        ({"x": (1, 3, 8)}, "has 4 dimensions, 3 were given"),
        ({"x": (1, 4, 8, 12)}, "dimension 1 of input 'x' is 3, 4 was given"),
        ({"x": (1, 3, 8, 12), "z": (1,)}, "has no input 'z'"),
        ({"x": (range(1, 5), 4, 8, 12)}, "dimension 1 of input 'x' is 3, 4 was given"),
    ],
)
def test_what_does_not_fit_is_refused(
    shapes: dict[str, tuple[int | range, ...]], message: str, open_model: Path
) -> None:
    with pytest.raises(ImportFailed, match=message):
        import_model(open_model, shapes=shapes)


def test_a_range_stays_open_under_the_name_that_the_file_has(open_model: Path) -> None:
    function = import_model(open_model, shapes={"x": (range(1, 5), 3, 8, range(2, 13))}).main
    for value in (*function.inputs, *function.outputs):
        assert value.type.shape == (4, 3, 8, 12)
        assert [str(term) for term in value.type.extents or ()] == ["N", "3", "8", "W"]
    x = np.random.default_rng(0).normal(size=(2, 3, 8, 5)).astype(np.float32)
    np.testing.assert_array_equal(interpret(function, [x])[0], np.maximum(x, 0))
    with pytest.raises(TypeMismatch, match="size N is 5, not 1 to 4"):
        interpret(function, [np.zeros((5, 3, 8, 5), np.float32)])
