"""arg_reduce: ONNX ArgMax and ArgMin as ONNX Runtime, ARG_MAX and ARG_MIN as TFLite Micro."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from one_operator import Operand, check_operator, one_operator
from single_node import check_against_onnxruntime, check_nests, save_node

from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.types import TensorType
from edgec.ops.arg_reduce import ArgReduce, ArgReduceAttrs

#: With equal elements, so that the first and the last index differ.
X = np.random.default_rng(1).integers(-3, 4, (3, 5, 4)).astype(np.float32)


@pytest.mark.parametrize("kind", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize(
    "attributes",
    [{}, {"axis": 1, "keepdims": 0}, {"axis": -1, "select_last_index": 1}, {"axis": 2}],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "int8", "int32"])
def test_equals_onnxruntime(
    kind: str, attributes: dict[str, Any], dtype: str, tmp_path: Path
) -> None:
    x = X.astype(dtype)
    path = save_node(tmp_path / "m.onnx", kind, x, {}, output_dtype="int64", **attributes)
    check_nests(check_against_onnxruntime(path, x), [x])


@pytest.mark.parametrize("kind", ["ARG_MAX", "ARG_MIN"])
@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_equals_tflm(kind: str, dtype: str, tmp_path: Path) -> None:
    options = "ArgMaxOptions" if kind == "ARG_MAX" else "ArgMinOptions"
    data = one_operator(
        kind, [Operand((2, 3, 5), dtype), Operand.integers([2])], [Operand((2, 3), "int32")],
        options, OutputType=2,
    )  # fmt: skip
    check_operator(data, tmp_path)


def test_an_axis_outside_is_refused(tmp_path: Path) -> None:
    path = save_node(tmp_path / "m.onnx", "ArgMax", X, {}, output_dtype="int64", axis=3)
    with pytest.raises(ImportFailed) as refused:
        import_model(path)
    assert "axes [3] of an input of rank 3" in refused.value.details[0]
    with pytest.raises(TypeMismatch):
        ArgReduce().infer(ArgReduceAttrs(2), TensorType((2, 3), "int8"))


def test_the_first_nan_is_the_extreme(tmp_path: Path) -> None:
    """NumPy's rule, which is PyTorch's."""
    x = X.copy()
    x[1, 2], x[0, 0, 1], x[2, 0, 1] = np.nan, np.nan, np.inf
    for kind, expected in (("ArgMax", np.argmax(x, 1)), ("ArgMin", np.argmin(x, 1))):
        path = save_node(
            tmp_path / f"{kind}.onnx", kind, x, {}, output_dtype="int64", axis=1, keepdims=0
        )
        function = import_model(path).main
        np.testing.assert_array_equal(interpret(function, [x])[0], expected)
        check_nests(function, [x])
