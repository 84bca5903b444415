"""gather: GATHER as TFLite Micro, ONNX Gather as ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from one_operator import Operand, check_operator, one_operator
from single_node import check_against_onnxruntime, check_nests, save_node

from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.types import TensorType
from edgec.ops.gather import AxisAttrs, Gather


@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_equals_tflm(dtype: str, axis: int, tmp_path: Path) -> None:
    shape = [3, 4, 5]
    shape[axis] = 4
    data = one_operator(
        "GATHER", [Operand((3, 4, 5), dtype), Operand.integers([2, 0, 1, 1])],
        [Operand(shape, dtype)], "GatherOptions", Axis=axis,
    )  # fmt: skip
    check_operator(data, tmp_path)


@pytest.mark.parametrize("indices", [[1, -1], [[0, 2], [1, 1]], 2], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_equals_onnxruntime(indices, axis: int, tmp_path: Path) -> None:
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    constants = {"indices": np.array(indices, np.int64)}
    path = save_node(tmp_path / "m.onnx", "Gather", x, constants, axis=axis)
    check_nests(check_against_onnxruntime(path, x), [x])


def test_an_index_outside_is_refused(tmp_path: Path) -> None:
    x = np.zeros((3, 4), np.float32)
    path = save_node(tmp_path / "m.onnx", "Gather", x, {"indices": np.array([3], np.int64)})
    with pytest.raises(ImportFailed) as failure:
        import_model(path)
    assert "leaves the 3 elements" in str(failure.value.details)


def test_infer_refuses_what_has_no_meaning() -> None:
    x, indices = TensorType((2, 3), "int8"), TensorType((2,), "int32")
    with pytest.raises(TypeMismatch, match="along axis 2"):
        Gather().infer(AxisAttrs(2), x, indices)
    with pytest.raises(TypeMismatch, match="must be int32"):
        Gather().infer(AxisAttrs(0), x, TensorType((2,), "int64"))
