"""solve and cholesky: NumPy's, for many matrices at once, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.errors import TypeMismatch
from edgec.graph.operator import NoAttrs
from edgec.graph.types import TensorType
from edgec.ops.linear_equations import Cholesky, Solve
from edgec.ops.op import Op


def evaluated(op: Op[NoAttrs], x: np.ndarray) -> np.ndarray:
    types = [TensorType(x.shape, x.dtype.name)]
    (found,) = op.evaluate(NoAttrs(), [x], types, op.infer(NoAttrs(), *types))
    return found


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (2, 3, 5, 5)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numpys(dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    a = rng.normal(size=shape).astype(dtype)
    b = rng.normal(size=(*shape[:-1], 2)).astype(dtype)
    near = {"rtol": 2e-4, "atol": 2e-5} if dtype == "float32" else {"rtol": 1e-10}
    np.testing.assert_allclose(evaluated(Solve(), np.concatenate([a, b], -1)),
                               np.linalg.solve(a, b), **near)  # fmt: skip
    square = a @ a.swapaxes(-1, -2) + np.eye(shape[-1], dtype=dtype)
    np.testing.assert_allclose(evaluated(Cholesky(), square), np.linalg.cholesky(square), **near)


def test_zeros_on_the_diagonal_are_no_pivots() -> None:
    x = np.array([[0, 2, 4], [3, 0, 6]], np.float32)
    np.testing.assert_array_equal(evaluated(Solve(), x), [[2], [2]])


@pytest.mark.parametrize(
    ("op", "x"),
    [
        (Solve(), TensorType((3, 3), "float32")),
        (Solve(), TensorType((2, 3), "int8")),
        (Solve(), TensorType((0, 2, 3), "float32")),
        (Cholesky(), TensorType((2, 3), "float32")),
        (Cholesky(), TensorType((2,), "float32")),
    ],
)
def test_refusals(op: Op[NoAttrs], x: TensorType) -> None:
    with pytest.raises(TypeMismatch, match=f"{op.name} of"):
        op.infer(NoAttrs(), x)
