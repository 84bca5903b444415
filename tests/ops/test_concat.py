"""concat: CONCATENATION and PACK as TFLite Micro, ONNX Concat as ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from one_operator import Operand, check_operator, one_operator
from single_node import check_against_onnxruntime, check_nests, save_node

from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.types import Quant, TensorType
from edgec.ops.concat import Concat, ConcatAttrs


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "float32"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concatenation_equals_tflm(dtype: str, axis: int, tmp_path: Path) -> None:
    shapes = []
    for extent in (2, 1, 3):
        shape = [2, 3, 4]
        shape[axis] = extent
        shapes.append(shape)
    total = list(shapes[0])
    total[axis] = 6
    data = one_operator(
        "CONCATENATION", [Operand(shape, dtype) for shape in shapes], [Operand(total, dtype)],
        "ConcatenationOptions", Axis=axis,
    )  # fmt: skip
    check_operator(data, tmp_path)


def test_constant_part(tmp_path: Path) -> None:
    part = Operand((1, 2), data=np.array([[5, -7]], np.int8))
    data = one_operator(
        "CONCATENATION", [Operand((3, 2)), part], [Operand((4, 2))], "ConcatenationOptions", Axis=0
    )
    check_operator(data, tmp_path)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["int8", "int32", "float32"])
def test_pack_equals_tflm(axis: int, dtype: str, tmp_path: Path) -> None:
    shape = [3, 4]
    shape.insert(axis % 3, 2)
    data = one_operator(
        "PACK", [Operand((3, 4), dtype)] * 2, [Operand(shape, dtype)],
        "PackOptions", ValuesCount=2, Axis=axis,
    )  # fmt: skip
    check_operator(data, tmp_path)


def test_equals_onnxruntime(tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
    other = np.ones((1, 2, 4), np.float32)
    path = save_node(tmp_path / "m.onnx", "Concat", x, {"other": other}, axis=-2)
    check_nests(check_against_onnxruntime(path, x), [x])


def test_another_scale_is_refused(tmp_path: Path) -> None:
    data = one_operator(
        "CONCATENATION", [Operand((1, 2)), Operand((1, 2), scale=0.2)], [Operand((2, 2))],
        "ConcatenationOptions", Axis=0,
    )  # fmt: skip
    path = tmp_path / "m.tflite"
    path.write_bytes(data)
    with pytest.raises(ImportFailed) as failure:
        import_model(path)
    assert "quantized differently" in str(failure.value.details)


@pytest.mark.parametrize(
    ("attrs", "shapes", "message"),
    [
        (ConcatAttrs(2), [(2, 3)], "along axis 2"),
        (ConcatAttrs(0), [(2, 3), (2, 4)], r"\[2, 4\]"),
        (ConcatAttrs(0, Quant((1.0, 1.0), (0, 0), 0)), [(2, 3)], "one scale"),
    ],
)
def test_infer_refuses_what_has_no_meaning(attrs, shapes, message) -> None:
    with pytest.raises(TypeMismatch, match=message):
        Concat().infer(attrs, *(TensorType(shape, "int8") for shape in shapes))
