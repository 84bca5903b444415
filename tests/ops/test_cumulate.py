"""cumulate: C on any numbers; its answers are compared by `test_onnx_node_cases.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from official_cases import check_official_c

from edgec.errors import TypeMismatch
from edgec.graph.types import TensorType
from edgec.ops.cumulate import Cumulate, CumulateAttrs


@pytest.mark.parametrize("kind", ["cumsum", "cumprod"])
def test_c_under_sanitizers(kind: str, tmp_path: Path) -> None:
    check_official_c(f"test_{kind}_1d_int32_exclusive", tmp_path)


def test_refusals() -> None:
    for axis, dtype in ((1, "float32"), (0, "bool")):
        with pytest.raises(TypeMismatch, match="cumulate"):
            Cumulate().infer(CumulateAttrs(axis), TensorType((3,), dtype))
