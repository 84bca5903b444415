"""squared_distances: against NumPy's sums in float64, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.errors import TypeMismatch
from edgec.graph.operator import NoAttrs
from edgec.graph.types import TensorType
from edgec.ops.squared_distances import SquaredDistances


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distances_of_points_far_from_zero(dtype: str) -> None:
    rng = np.random.default_rng(0)
    x, points = ((rng.normal(size=(n, 7)) + 1000).astype(dtype) for n in (3, 5))
    op, types = SquaredDistances(), [TensorType(v.shape, dtype) for v in (x, points)]
    (found,) = op.evaluate(NoAttrs(), [x, points], types, op.infer(NoAttrs(), *types))
    away = x.astype(float)[:, np.newaxis] - points.astype(float)
    np.testing.assert_allclose(found, (away**2).sum(axis=2), rtol=2e-6)


@pytest.mark.parametrize(
    ("x", "points"),
    [
        (TensorType((2, 3), "int8"), TensorType((4, 3), "int8")),
        (TensorType((2, 3), "float32"), TensorType((4, 3), "float64")),
        (TensorType((2, 3), "float32"), TensorType((4, 2), "float32")),
        (TensorType((3,), "float32"), TensorType((4, 3), "float32")),
    ],
)
def test_refusals(x: TensorType, points: TensorType) -> None:
    with pytest.raises(TypeMismatch, match="squared_distances of"):
        SquaredDistances().infer(NoAttrs(), x, points)
