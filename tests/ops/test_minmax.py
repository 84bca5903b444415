"""maximum and minimum as TFLite Micro, and ONNX Max and Min."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from one_operator import Operand, check_operator, one_operator
from single_node import check_against_onnxruntime, check_nests, save_node

from edgec.errors import TypeMismatch
from edgec.graph.operator import NoAttrs
from edgec.graph.types import Quant, TensorType
from edgec.ops.minmax import Maximum


@pytest.mark.parametrize("kind", ["MAXIMUM", "MINIMUM"])
@pytest.mark.parametrize("dtype", ["int8", "int32", "float32"])
@pytest.mark.parametrize("second", [(2, 3, 4), (3, 1), (1,)], ids=str)
def test_equals_tflm(kind: str, dtype: str, second: tuple[int, ...], tmp_path: Path) -> None:
    data = one_operator(
        kind, [Operand((2, 3, 4), dtype), Operand(second, dtype)], [Operand((2, 3, 4), dtype)],
        "MaximumMinimumOptions",
    )  # fmt: skip
    check_operator(data, tmp_path)


@pytest.mark.parametrize("kind", ["Max", "Min"])
def test_three_operands_equal_onnxruntime(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x, a, b = (rng.normal(0, 1, (2, 3)).astype(np.float32) for _ in range(3))
    path = save_node(tmp_path / "m.onnx", kind, x, {"a": a, "b": b})
    check_nests(check_against_onnxruntime(path, x), [x])


def test_different_types_are_refused() -> None:
    a, b = (TensorType((2,), "int8", Quant((scale,), (0,))) for scale in (0.1, 0.2))
    with pytest.raises(TypeMismatch, match="must be equal"):
        Maximum().infer(NoAttrs(), a, b)
