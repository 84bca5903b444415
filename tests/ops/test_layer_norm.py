"""layer_norm: near ONNX Runtime, nests in the reference's bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from single_node import check_against_onnxruntime, check_nests, save_node

from edgec.errors import TypeMismatch
from edgec.graph.types import TensorType
from edgec.ops.layer_norm import LayerNorm, LayerNormAttrs

TOLERANCE = 2e-6


def values(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(1.5, 2.0, shape).astype(np.float32)


@pytest.mark.parametrize(
    ("shape", "axis"), [((1, 5, 16), -1), ((7,), 0), ((2, 3, 4, 6), 2), ((2, 1), 1)]
)
@pytest.mark.parametrize("with_bias", [True, False])
def test_onnx(shape: tuple[int, ...], axis: int, with_bias: bool, tmp_path: Path) -> None:
    x = values(1, *shape)
    constants = {"scale": values(2, *shape[axis:])}
    if with_bias:
        constants["bias"] = values(3, *shape[axis:])
    path = save_node(
        tmp_path / "m.onnx", "LayerNormalization", x, constants, axis=axis, epsilon=1e-3
    )
    check_nests(check_against_onnxruntime(path, x, TOLERANCE), [x])


def test_far_from_zero(tmp_path: Path) -> None:
    x = values(4, 3, 32) + np.float32(500)
    constants = {"scale": values(5, 32), "bias": values(6, 32)}
    path = save_node(tmp_path / "m.onnx", "LayerNormalization", x, constants)
    check_nests(check_against_onnxruntime(path, x, 1e-4), [x])


def test_other_operands_are_refused() -> None:
    floats = [TensorType(shape, "float32") for shape in ((2, 4), (4,), (3,))]
    with pytest.raises(TypeMismatch, match=r"layer_norm of \[2, 4\] by \[4\] and \[3\]"):
        LayerNorm().infer(LayerNormAttrs(), *floats)
    with pytest.raises(TypeMismatch, match="layer_norm needs float32"):
        LayerNorm().infer(LayerNormAttrs(), TensorType((2, 4), "int32"), *floats[1:])
