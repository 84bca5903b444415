"""Input extents that an ONNX file leaves open: given by the user, checked against the file."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import helper

from edgec.errors import ImportFailed
from edgec.frontends import import_model


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
    ],
)
def test_what_does_not_fit_is_refused(
    shapes: dict[str, tuple[int, ...]], message: str, open_model: Path
) -> None:
    with pytest.raises(ImportFailed, match=message):
        import_model(open_model, shapes=shapes)
