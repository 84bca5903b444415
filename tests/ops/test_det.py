"""det: NumPy's determinants, singular matrices among them, C on any numbers, and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from official_cases import check_official_c

from edgec.errors import TypeMismatch
from edgec.graph.operator import NoAttrs
from edgec.graph.types import TensorType
from edgec.ops.det import Det


def det(x: np.ndarray) -> np.ndarray:
    types = [TensorType(x.shape, x.dtype.name)]
    (found,) = Det().evaluate(NoAttrs(), [x], types, Det().infer(NoAttrs(), *types))
    return found


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (2, 3, 5, 5)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numpys(dtype: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(3).normal(size=shape).astype(dtype)
    np.testing.assert_allclose(det(x), np.linalg.det(x), rtol=1e-4 if dtype == "float32" else 1e-12)


def test_without_an_inverse_or_with_zeros_first() -> None:
    assert det(np.ones((3, 3), np.float32)) == 0
    assert det(np.array([[0, 2], [3, 0]], np.float32)) == -6


@pytest.mark.parametrize("name", ["test_det_2d", "test_det_nd"])
def test_c_under_sanitizers(name: str, tmp_path: Path) -> None:
    check_official_c(name, tmp_path)


@pytest.mark.parametrize(
    "x", [TensorType((2, 3), "float32"), TensorType((2,), "float32"), TensorType((2, 2), "int8")]
)
def test_refusals(x: TensorType) -> None:
    with pytest.raises(TypeMismatch, match="square matrices of floats"):
        Det().infer(NoAttrs(), x)
