"""hard_sigmoid: near ONNX Runtime, every nest in the reference's bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from float_cases import float_values
from single_node import check_against_onnxruntime, check_nests, save_node

from edgec.errors import TypeMismatch
from edgec.graph.types import TensorType
from edgec.ops.hard_sigmoid import HardSigmoid, HardSigmoidAttrs


@pytest.mark.parametrize("attributes", [{}, {"alpha": 1 / 6, "beta": 0.4}], ids=str)
def test_against_onnxruntime(attributes: dict[str, float], tmp_path: Path) -> None:
    x = np.concatenate([float_values((3, 101)), np.float32([[0.0] * 101, [1e30] * 101])])
    path = save_node(tmp_path / "m.onnx", "HardSigmoid", x, {}, **attributes)
    check_nests(check_against_onnxruntime(path, x, HardSigmoid.tolerance), [x])


def test_integers_are_refused() -> None:
    with pytest.raises(TypeMismatch, match="needs float32"):
        HardSigmoid().infer(HardSigmoidAttrs(), TensorType((3,), "int32"))
