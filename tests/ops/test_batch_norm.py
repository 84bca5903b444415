"""Batch normalization: ONNX Runtime's bits alone, near them folded into the weights before it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from float_cases import float_values
from single_node import check_against_onnxruntime, check_nests, save_node

from edgec.errors import ImportFailed
from edgec.frontends import import_model

#: Largest difference as a part of the largest magnitude.
TOLERANCE = 1e-6


def parameters(channels: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    scale, bias, mean = (rng.normal(size=channels).astype(np.float32) for _ in range(3))
    variance = rng.uniform(0.1, 3, channels).astype(np.float32)
    return {"scale": scale, "bias": bias, "mean": mean, "variance": variance}


@pytest.mark.parametrize("shape", [(1, 5, 4, 3), (3, 5)], ids=str)
def test_against_onnxruntime(shape: tuple[int, ...], tmp_path: Path) -> None:
    x = float_values(shape)
    path = save_node(tmp_path / "m.onnx", "BatchNormalization", x, parameters(5), epsilon=1e-3)
    check_nests(check_against_onnxruntime(path, x), [x])


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    x = float_values((1, 5, 4, 3))
    damaged = {**parameters(5), "variance": np.full(5, -1, np.float32)}
    path = save_node(tmp_path / "m.onnx", "BatchNormalization", x, damaged)
    with pytest.raises(ImportFailed) as caught:
        import_model(path)
    assert "a variance is negative" in "\n".join(caught.value.details)
