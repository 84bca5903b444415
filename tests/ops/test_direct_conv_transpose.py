"""direct_conv_transpose: C on any numbers; answers are compared by `test_onnx_node_cases.py`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from official_cases import check_official_c

from edgec.errors import TypeMismatch
from edgec.graph.types import TensorType
from edgec.ops.direct_conv_transpose import DirectConvTranspose, DirectConvTransposeAttrs

CASES = ("test_convtranspose_3d", "test_convtranspose_group_2_image_3", "test_convtranspose_pads",
         "test_convtranspose_dilations", "test_col2im_5d", "test_col2im_pads")  # fmt: skip
ATTRS = DirectConvTransposeAttrs((1,), (1,), (0,), (7,))
W = TensorType((2, 4, 3), "float32")


@pytest.mark.parametrize("name", CASES)
def test_c_under_sanitizers(name: str, tmp_path: Path) -> None:
    check_official_c(name, tmp_path)


@pytest.mark.parametrize(
    ("w", "attrs", "message"),
    [
        (TensorType((2, 4, 3), "int32"), ATTRS, "must be float32"),
        (W, replace(ATTRS, before=()), "another number of axes"),
        (W, replace(ATTRS, shape=(0,)), r"to \[0\]"),
        (W, replace(ATTRS, groups=3), "in 3 groups"),
        (TensorType((3, 4, 3), "float32"), ATTRS, "in 1 groups"),
    ],
)
def test_refusals(w: TensorType, attrs: DirectConvTransposeAttrs, message: str) -> None:
    with pytest.raises(TypeMismatch, match=message):
        DirectConvTranspose().infer(attrs, TensorType((1, 2, 5), "float32"), w)
