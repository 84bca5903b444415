"""Powers: with some constant exponents ONNX Runtime's bits, with others C's results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from float_cases import float_values
from single_node import check_against_onnxruntime, check_nests, save_node

from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.graph.operator import NoAttrs, get_op
from edgec.graph.types import TensorType
from edgec.ops import load


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


NUMBERS = np.array([0, 1, -1, 2, -3, 0.5, -0.5, np.inf, -np.inf, np.nan, 1e30, 1025], np.float32)


@pytest.mark.parametrize("exponent", [-1.5, 1 / 3, 5.0, 1025.0, -2.0], ids=str)
def test_other_constant_exponents(exponent: float, tmp_path: Path) -> None:
    x = np.abs(float_values((4, 9))) + np.float32(0.1)
    constants = {"exponent": np.full((1, 1, 1), exponent, np.float32)}
    check_nests(import_model(save_node(tmp_path / "m.onnx", "Pow", x, constants)).main, [x])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_numbers(dtype: str) -> None:
    """As C's pow has them, and NumPy with it."""
    x, y = (grid.reshape(-1).astype(dtype) for grid in np.meshgrid(NUMBERS, NUMBERS))
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64)).astype(dtype)
    type_ = TensorType(x.shape, dtype)
    load()
    (found,) = get_op("pow").evaluate(NoAttrs(), [x, y], [type_, type_], [type_])
    np.testing.assert_allclose(found, exact, rtol=1e-12 if dtype == "float64" else 6e-8)
    is_number = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(found)[is_number], np.signbit(exact)[is_number])


def test_powers_of_bool_are_refused(tmp_path: Path) -> None:
    exponent = {"exponent": np.array([True, False, True])}
    path = save_node(tmp_path / "m.onnx", "Pow", float_values((2, 3)), exponent)
    with pytest.raises(ImportFailed) as caught:
        import_model(path)
    assert "float32 to the power of bool" in "\n".join(caught.value.details)
