"""cumulate: C on any numbers; its answers are compared by `test_onnx_node_cases.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from official_cases import check_official_c
from onnx_builder import OnnxBuilder

import edgec
from edgec.errors import TypeMismatch
from edgec.graph.types import TensorType
from edgec.ops.cumulate import Cumulate, CumulateAttrs


@pytest.mark.parametrize("kind", ["cumsum", "cumprod"])
def test_c_under_sanitizers(kind: str, tmp_path: Path) -> None:
    check_official_c(f"test_{kind}_1d_int32_exclusive", tmp_path)


@pytest.mark.parametrize("reverse", [0, 1])
def test_nothing_comes_before_the_only_element(reverse: int, tmp_path: Path) -> None:
    model = OnnxBuilder(1, (3, 1))
    axis = model.constant(np.asarray(1, np.int32), "axis")
    y = model.add("CumSum", ["x", axis], exclusive=1, reverse=reverse)
    with edgec.compile(model.save(y, tmp_path / "m.onnx")) as built:
        found = built.run(np.float32([[1], [2], [3]]))
    np.testing.assert_array_equal(found, np.zeros((3, 1), np.float32))


def test_refusals() -> None:
    for axis, dtype in ((1, "float32"), (0, "bool")):
        with pytest.raises(TypeMismatch, match="cumulate"):
            Cumulate().infer(CumulateAttrs(axis), TensorType((3,), dtype))
