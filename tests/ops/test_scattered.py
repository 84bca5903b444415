"""Gather and scatter by computed places: C on any places, and what is refused.

Their answers are compared with the standard's by `test_onnx_node_cases.py`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from official_cases import check_official_c

from edgec.errors import TypeMismatch
from edgec.graph.operator import get_op
from edgec.graph.types import Quant, TensorType
from edgec.ops.scattered import AxisAttrs, ScatterAttrs

CASES = (
    "test_gather_elements_negative_indices", "test_gather_negative_indices",
    "test_gathernd_example_int32_batch_dim1", "test_onehot_negative_indices",
    "test_scatter_elements_with_negative_indices", "test_scatter_elements_with_reduction_max",
    "test_scatternd_add", "test_scatternd_multiply", "test_tensorscatter_circular",
)  # fmt: skip
DATA, PLACES = TensorType((3, 4), "float32"), TensorType((2, 4), "int64")


@pytest.mark.parametrize("name", CASES)
def test_c_under_sanitizers(name: str, tmp_path: Path) -> None:
    check_official_c(name, tmp_path)


@pytest.mark.parametrize(
    ("name", "attrs", "inputs", "message"),
    [
        ("gather_at", AxisAttrs(2), (DATA, PLACES), "along axis 2"),
        ("gather_elements", AxisAttrs(0), (DATA, DATA), "indices are int32 or int64"),
        ("gather_elements", AxisAttrs(1), (DATA, TensorType((4, 4), "int32")), "gather_elements"),
        ("gather_nd", AxisAttrs(0), (DATA, TensorType((2, 3), "int32")), "0 axes in common"),
        ("scatter", ScatterAttrs(2), (DATA, PLACES, DATA), "along axis 2"),
        ("scatter", ScatterAttrs(0), (DATA, PLACES, DATA), r"scatter of float32\[3, 4\] into"),
        ("scatter", ScatterAttrs(0, "sub"), (DATA, PLACES, DATA.with_shape((2, 4))), "'sub'"),
    ],
)  # fmt: skip
def test_refusals(name: str, attrs: object, inputs: tuple[TensorType, ...], message: str) -> None:
    with pytest.raises(TypeMismatch, match=message):
        get_op(name).infer(attrs, *inputs)
    along = TensorType((3, 4), "int8", Quant((0.5,) * 4, (0,) * 4, 1))
    with pytest.raises(TypeMismatch):
        get_op(name).infer(attrs, along, *inputs[1:])


def test_places_outside_are_taken_at_the_ends() -> None:
    op, attrs = get_op("gather_at"), AxisAttrs(0)
    x, places = np.arange(3, dtype=np.float32), np.array([-9, -3, -1, 2, 9], np.int32)
    types = TensorType((3,), "float32"), TensorType((5,), "int32")
    (found,) = op.evaluate(attrs, [x, places], types, op.infer(attrs, *types))
    np.testing.assert_array_equal(found, [0, 0, 2, 2, 2])
