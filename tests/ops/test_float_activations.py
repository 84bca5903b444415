"""Functions of one float that are no rows of a table, as they have integers of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from float_cases import assert_near_tflite, float_values
from single_node import check_against_onnxruntime, check_nests, save_node
from tflite_builder import TfliteBuilder

from edgec.frontends import import_model
from edgec.graph.interpret import interpret

#: Largest difference as a part of the largest magnitude.
TOLERANCE = 4e-7


@pytest.mark.parametrize("kind", ["Tanh", "Sigmoid", "HardSwish", "LeakyRelu"])
def test_onnx(kind: str, tmp_path: Path) -> None:
    x = float_values((2, 3, 67))
    path = save_node(tmp_path / "m.onnx", kind, x, {})
    check_nests(check_against_onnxruntime(path, x, TOLERANCE), [x])


@pytest.mark.parametrize("kind", ["TANH", "LOGISTIC", "HARD_SWISH"])
def test_tflite(kind: str, tmp_path: Path) -> None:
    x = float_values((1, 401))
    model = TfliteBuilder()
    tensors = [model.tensor(name, x.shape, "float32") for name in "xy"]
    model.operator(kind, tensors[:1], tensors[1:])
    (tmp_path / "m.tflite").write_bytes(model.build(tensors[:1], tensors[1:]))
    function = assert_near_tflite(tmp_path / "m.tflite", [x], TOLERANCE)
    check_nests(function, [x])


def test_infinities_and_nans_pass(tmp_path: Path) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 200.0, -200.0], np.float32)
    for kind in ("Tanh", "Sigmoid"):
        function = import_model(save_node(tmp_path / "m.onnx", kind, x, {})).main
        (y,) = interpret(function, [x])
        with np.errstate(all="ignore"):
            wanted = np.tanh(x) if kind == "Tanh" else 1 / (1 + np.exp(-x))
        np.testing.assert_allclose(y, wanted, atol=1e-30)
