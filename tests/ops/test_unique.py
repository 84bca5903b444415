"""unique: NumPy's answers on any dtype, C on any numbers, and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from official_cases import check_official_c

from edgec.errors import TypeMismatch
from edgec.frontends import import_model
from edgec.graph.ir import Constant
from edgec.graph.types import TensorType
from edgec.ops.unique import Unique, UniqueAttrs


def unique(x: np.ndarray, ordered: bool) -> tuple[np.ndarray, ...]:
    types = [TensorType(x.shape, x.dtype.name)]
    op, attrs = Unique(), UniqueAttrs(ordered)
    firsts, numbers, counts, (count,) = op.evaluate(attrs, [x], types, op.infer(attrs, *types))
    assert not firsts[count:].any() and not counts[count:].any()
    return firsts[:count], numbers, counts[:count]


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint64"])
@pytest.mark.parametrize("elements", [1, 3])
def test_rows_are_numpys(elements: int, dtype: str) -> None:
    x = np.random.default_rng(elements).integers(0, 2, (20, elements)).astype(dtype)
    _, *wanted = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=0)
    for mine, theirs in zip(unique(x, True), wanted, strict=True):
        np.testing.assert_array_equal(mine, theirs.reshape(-1))
    firsts, numbers, _ = unique(x, False)
    np.testing.assert_array_equal(firsts, np.sort(wanted[0]))
    np.testing.assert_array_equal(x[firsts][numbers], x)


def test_not_a_number_comes_last_and_once() -> None:
    x = np.array([[np.nan], [1], [np.inf], [np.nan], [-0.0], [0.0]], np.float32)
    firsts, numbers, counts = unique(x, True)
    assert firsts.tolist() == [4, 1, 2, 0]
    assert numbers.tolist() == [3, 1, 2, 3, 0, 0]
    assert counts.tolist() == [2, 1, 1, 2]


@pytest.mark.parametrize(
    "name", ["test_unique_sorted_with_axis", "test_unique_not_sorted_without_axis"]
)
def test_c_under_sanitizers(name: str, tmp_path: Path) -> None:
    check_official_c(name, tmp_path)


@pytest.mark.parametrize("x", [TensorType((3,), "int8"), TensorType((2, 1), "float16")])
def test_refusals(x: TensorType) -> None:
    with pytest.raises(TypeMismatch, match="rows of plain numbers"):
        Unique().infer(UniqueAttrs(), x)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_of_constants_in_the_order_in_which_they_stand(tmp_path: Path, axis: int | None) -> None:
    """What is computed when the file is read, against ONNX Runtime."""
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    data = np.array([[5, 1, 5], [3, 3, 3], [5, 1, 5], [0, 9, 0]], np.int64)
    outputs = ("values", "firsts", "numbers", "counts")
    for count in (1, 4):
        node = onnx.helper.make_node("Unique", ["c"], outputs[:count], axis=axis, sorted=0)
        graph = onnx.helper.make_graph(
            [node], "g", [],
            [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.INT64, None)
             for n in outputs[:count]],
            [onnx.numpy_helper.from_array(data, "c")],
        )  # fmt: skip
        opsets = [onnx.helper.make_opsetid("", 17)]
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
        path = tmp_path / f"{count}.onnx"
        path.write_bytes(model.SerializeToString())
        wanted = runtime.InferenceSession(path).run(None, {})
        found = import_model(path).main.outputs
        for value, want in zip(found, wanted, strict=True):
            assert isinstance(value, Constant)
            np.testing.assert_array_equal(value.data, want)
