"""Powers with constant exponents equal ONNX Runtime's in every bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from float_cases import float_values
from single_node import check_against_onnxruntime, check_nests, save_node

from edgec.errors import ImportFailed
from edgec.frontends import import_model


@pytest.mark.parametrize("shape", [(1, 5, 4, 3), (7,)], ids=str)
@pytest.mark.parametrize("power", [1.0, 2.0, 3.0])
def test_against_onnxruntime(power: float, shape: tuple[int, ...], tmp_path: Path) -> None:
    x = float_values(shape)
    exponent = {"exponent": np.array(power, np.float32)}
    path = save_node(tmp_path / "m.onnx", "Pow", x, exponent)
    function = check_against_onnxruntime(path, x)
    if power != 1.0:
        check_nests(function, [x])


def test_a_root(tmp_path: Path) -> None:
    x = np.abs(float_values((2, 9)))
    path = save_node(tmp_path / "m.onnx", "Pow", x, {"exponent": np.array([0.5], np.float32)})
    check_nests(check_against_onnxruntime(path, x), [x])


@pytest.mark.parametrize(
    ("exponent", "message"),
    [
        (np.array(-1.5, np.float32), "the exponent -1.5 is not supported"),
        (np.array([2, 3, 2], np.float32), "one constant number"),
        (np.full((1, 1, 1), 2, np.float32), "more axes"),
    ],
)
def test_what_is_not_supported(exponent: np.ndarray, message: str, tmp_path: Path) -> None:
    path = save_node(tmp_path / "m.onnx", "Pow", float_values((2, 3)), {"exponent": exponent})
    with pytest.raises(ImportFailed) as caught:
        import_model(path)
    assert message in "\n".join(caught.value.details)
