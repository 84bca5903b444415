"""direct_pool: C on any numbers; its answers are compared by `test_onnx_node_cases.py`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from official_cases import check_official_c

from edgec.errors import TypeMismatch
from edgec.graph.types import TensorType
from edgec.ops.direct_pool import DirectPool, DirectPoolAttrs

CASES = (
    "test_averagepool_3d_dilations_large_count_include_pad_is_1_ceil_mode_is_True",
    "test_maxpool_3d_dilations", "test_maxpool_2d_uint8",
    "test_maxpool_with_argmax_2d_precomputed_strides", "test_maxunpool_export_with_output_shape",
)  # fmt: skip
ATTRS = DirectPoolAttrs((2,), (1,), (1,), (0,), (4,))


@pytest.mark.parametrize("name", CASES)
def test_c_under_sanitizers(name: str, tmp_path: Path) -> None:
    check_official_c(name, tmp_path)


@pytest.mark.parametrize(
    ("attrs", "dtype", "message"),
    [
        (replace(ATTRS, strides=(1, 1)), "float32", "other axes"),
        (replace(ATTRS, shape=(0,)), "float32", r"to \[0\]"),
        (replace(ATTRS, kind="mean", counted=((0, 0),)), "int8", "mean of windows needs float32"),
        (ATTRS, "float16", "max of windows needs"),
    ],
)
def test_refusals(attrs: DirectPoolAttrs, dtype: str, message: str) -> None:
    with pytest.raises(TypeMismatch, match=message):
        DirectPool().infer(attrs, TensorType((1, 2, 5), dtype))
