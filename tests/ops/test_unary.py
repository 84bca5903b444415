"""Functions of one float: near the frameworks, every nest in the reference's bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from float_cases import assert_near_tflite, float_values
from single_node import check_against_onnxruntime, check_nests, save_node
from tflite_builder import TfliteBuilder

from edgec.errors import TypeMismatch
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.operator import NoAttrs
from edgec.graph.types import Quant, TensorType
from edgec.ops.unary import Exp

#: ONNX's name -> whether numbers must be positive.
ONNX = {
    "Exp": False, "Log": True, "Sqrt": True, "Tanh": False, "Sigmoid": False, "Neg": False,
    "Abs": False, "Erf": False, "HardSwish": False, "LeakyRelu": False,
}  # fmt: skip
TFLITE = {
    "EXP": False, "LOG": True, "SQRT": True, "RSQRT": True, "TANH": False, "LOGISTIC": False,
    "NEG": False, "ABS": False, "HARD_SWISH": False,
}  # fmt: skip
#: Largest difference as a part of the largest magnitude.
TOLERANCE = 4e-7


@pytest.mark.parametrize("kind", ONNX)
def test_onnx(kind: str, tmp_path: Path) -> None:
    x = float_values((2, 3, 67), positive=ONNX[kind])
    path = save_node(tmp_path / "m.onnx", kind, x, {})
    check_nests(check_against_onnxruntime(path, x, TOLERANCE), [x])


@pytest.mark.parametrize("kind", TFLITE)
def test_tflite(kind: str, tmp_path: Path) -> None:
    x = float_values((1, 401), positive=TFLITE[kind])
    model = TfliteBuilder()
    tensors = [model.tensor(name, x.shape, "float32") for name in "xy"]
    model.operator(kind, tensors[:1], tensors[1:])
    (tmp_path / "m.tflite").write_bytes(model.build(tensors[:1], tensors[1:]))
    function = assert_near_tflite(tmp_path / "m.tflite", [x], TOLERANCE)
    check_nests(function, [x])


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeMismatch, match="exp needs float32"):
        Exp().infer(NoAttrs(), TensorType((3,), "int8", Quant((0.1,), (0,))))


def test_infinities_and_nans_pass(tmp_path: Path) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 200.0, -200.0], np.float32)
    for kind in ("Exp", "Tanh", "Sigmoid", "Log", "Sqrt"):
        function = import_model(save_node(tmp_path / "m.onnx", kind, x, {})).main
        (y,) = interpret(function, [x])
        with np.errstate(all="ignore"):
            wanted = {
                "Exp": np.exp, "Tanh": np.tanh, "Log": np.log, "Sqrt": np.sqrt,
                "Sigmoid": lambda v: 1 / (1 + np.exp(-v)),
            }[kind](x)  # fmt: skip
        np.testing.assert_allclose(y, wanted, atol=1e-30)
