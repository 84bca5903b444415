"""direct_conv: C on any numbers; its answers are compared by `test_onnx_node_cases.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from official_cases import check_official_c

from edgec.errors import TypeMismatch
from edgec.graph.types import TensorType
from edgec.ops.direct_conv import DirectConv, DirectConvAttrs


@pytest.mark.parametrize("name", ["test_conv_with_strides_and_asymmetric_padding"])
def test_c_under_sanitizers(name: str, tmp_path: Path) -> None:
    check_official_c(name, tmp_path)


@pytest.mark.parametrize(
    ("w", "attrs", "message"),
    [
        (TensorType((4, 2, 3), "int32"), DirectConvAttrs((1,), (1,), ((0, 0),)), "must be float32"),
        (
            TensorType((4, 2, 3), "float32"),
            DirectConvAttrs((1,), (1,), ()),
            "another number of axes",
        ),
        (TensorType((4, 1, 3), "float32"), DirectConvAttrs((1,), (1,), ((0, 0),)), "in 1 groups"),
        (TensorType((4, 2, 9), "float32"), DirectConvAttrs((1,), (1,), ((0, 0),)), "exceeds"),
    ],
)
def test_refusals(w: TensorType, attrs: DirectConvAttrs, message: str) -> None:
    with pytest.raises(TypeMismatch, match=message):
        DirectConv().infer(attrs, TensorType((1, 2, 5), "float32"), w)
