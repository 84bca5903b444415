"""Functions of two floats: the bits of ONNX Runtime and TFLite Micro, and of every nest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from float_cases import assert_near_tflite, float_values
from single_node import check_against_onnxruntime, check_nests, save_node
from tflite_builder import TfliteBuilder

from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.operator import NoAttrs
from edgec.graph.types import TensorType
from edgec.ops.binary import Div

SHAPES = [((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((1, 3, 1), (2, 1, 4)), ((2, 3, 4), ())]


@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["Sub", "Div", "Max", "Min"])
def test_onnx(kind: str, left: tuple[int, ...], right: tuple[int, ...], tmp_path: Path) -> None:
    x, b = float_values(left), float_values(right, seed=4)
    path = save_node(tmp_path / "m.onnx", kind, x, {"b": b})
    check_nests(check_against_onnxruntime(path, x), [x])


@pytest.mark.parametrize(
    ("kind", "options", "activation"),
    [("SUB", "SubOptions", 0), ("SUB", "SubOptions", 1), ("DIV", "DivOptions", 0),
     ("DIV", "DivOptions", 3), ("ADD", "AddOptions", 0), ("ADD", "AddOptions", 1),
     ("MAXIMUM", "", 0), ("MINIMUM", "", 0), ("SQUARED_DIFFERENCE", "", 0)],
)  # fmt: skip
def test_tflite(kind: str, options: str, activation: int, tmp_path: Path) -> None:
    model = TfliteBuilder()
    x, b, y = (
        model.tensor(name, shape, "float32")
        for name, shape in (("x", (2, 3, 4)), ("b", (2, 3, 4)), ("y", (2, 3, 4)))
    )
    fields = {"FusedActivationFunction": activation} if options else {}
    model.operator(kind, [x, b], [y], options, **fields)
    (tmp_path / "m.tflite").write_bytes(model.build([x, b], [y]))
    inputs = [float_values((2, 3, 4)), float_values((2, 3, 4), seed=4)]
    function = assert_near_tflite(tmp_path / "m.tflite", inputs, 0.0)
    check_nests(function, inputs)


def test_other_types_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeMismatch, match="div needs float32"):
        Div().infer(NoAttrs(), TensorType((3,), "int32"), TensorType((3,), "int32"))
    x = np.ones(3, np.int64)
    path = save_node(tmp_path / "m.onnx", "Div", x, {"b": x})
    with pytest.raises(ImportFailed) as caught:
        import_model(path)
    assert "inputs int64, int64" in "\n".join(caught.value.details)
