"""pair_coupling: probabilities of classes from probabilities of pairs, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.errors import TypeMismatch
from edgec.graph.operator import NoAttrs
from edgec.graph.types import TensorType
from edgec.ops.pair_coupling import ERROR, PairCoupling


def coupled(pairs: np.ndarray) -> np.ndarray:
    op, types = PairCoupling(), [TensorType(pairs.shape, "float32")]
    (found,) = op.evaluate(NoAttrs(), [pairs], types, op.infer(NoAttrs(), *types))
    return found


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_pairs_of_known_probabilities(classes: int) -> None:
    wanted = np.random.default_rng(classes).dirichlet(np.ones(classes) * 3, 8)
    first, second = np.triu_indices(classes, 1)
    pairs = wanted[:, first] / (wanted[:, first] + wanted[:, second])
    found = coupled(pairs.astype(np.float32))
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    # The descent ends at an error of ERROR / classes.
    np.testing.assert_allclose(found, wanted, atol=10 * ERROR)
    assert (found.argmax(axis=1) == wanted.argmax(axis=1)).mean() >= 0.8


def test_certain_pairs() -> None:
    found = coupled(np.array([[1, 1, 1], [0, 0, 0.5]], np.float32))
    assert found[0].argmax() == 0 and found[0, 0] > 0.9 and found[1, 0] < 0.1
    assert np.isfinite(found).all()


@pytest.mark.parametrize("x", [TensorType((2, 4), "float32"), TensorType((2, 3), "float64")])
def test_refusals(x: TensorType) -> None:
    with pytest.raises(TypeMismatch, match="pair_coupling of"):
        PairCoupling().infer(NoAttrs(), x)
