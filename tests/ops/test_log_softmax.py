"""softmax and log_softmax of floats: near the frameworks, every nest in the reference's bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from float_cases import assert_near_tflite, float_values
from single_node import check_against_onnxruntime, check_nests, save_node
from tflite_builder import TfliteBuilder

from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.operator import NoAttrs
from edgec.graph.types import TensorType
from edgec.ops.log_softmax import LogSoftmax
from edgec.ops.softmax import Softmax, SoftmaxAttrs
from edgec.ops.softmax_float import LONG_ROW_TOLERANCE

#: Largest difference as a part of the largest magnitude.
TOLERANCE = 4e-7


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize(
    ("shape", "axis"), [((3, 10), 1), ((2, 3, 5), -1), ((2, 3, 5), 1)], ids=str
)
def test_onnx(kind: str, opset: int, shape: tuple[int, ...], axis: int, tmp_path: Path) -> None:
    x = float_values(shape)
    path = save_node(tmp_path / "m.onnx", kind, x, {}, opset=opset, axis=axis)
    check_nests(check_against_onnxruntime(path, x, TOLERANCE), [x])


@pytest.mark.parametrize(("kind", "beta"), [("SOFTMAX", 1.0), ("SOFTMAX", 0.3), ("LOG_SOFTMAX", 0)])
@pytest.mark.parametrize("shape", [(4, 10), (1, 2, 3, 2), (7,)], ids=str)
def test_tflite(kind: str, beta: float, shape: tuple[int, ...], tmp_path: Path) -> None:
    model = TfliteBuilder()
    x, y = (model.tensor(name, shape, "float32") for name in "xy")
    if beta:
        model.operator(kind, [x], [y], "SoftmaxOptions", Beta=beta)
    else:
        model.operator(kind, [x], [y])
    (tmp_path / "m.tflite").write_bytes(model.build([x], [y]))
    values = float_values(shape)
    check_nests(assert_near_tflite(tmp_path / "m.tflite", [values], TOLERANCE), [values])


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("shape", [(3, 127), (2, 128), (2, 3, 129), (200,), (1, 640)], ids=str)
def test_long_rows(kind: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    x = float_values(shape)
    path = save_node(tmp_path / "m.onnx", kind, x, {}, axis=-1)
    check_nests(check_against_onnxruntime(path, x, LONG_ROW_TOLERANCE), [x])


def test_long_rows_are_added_in_parts() -> None:
    """One large term and thousands of small ones: in order each would round the sum's last bit."""
    rows = np.random.default_rng(0).normal(0, 0.1, (16, 6625)).astype(np.float32)
    rows[:, 0] = 12.0
    type_ = TensorType(rows.shape, "float32")
    (found,) = Softmax().evaluate(SoftmaxAttrs(), [rows], [type_], [type_])
    exponents = np.exp((rows - rows.max(axis=-1, keepdims=True)).astype(np.float64))
    exact = exponents.sum(axis=-1, keepdims=True)
    in_order = np.add.accumulate(exponents.astype(np.float32), axis=-1)[:, -1:]
    assert np.abs(in_order / exact - 1).max() > 5e-6
    assert np.abs(found.sum(axis=-1, dtype=np.float64) - 1).max() < LONG_ROW_TOLERANCE
    np.testing.assert_allclose(found, exponents / exact, rtol=LONG_ROW_TOLERANCE)


def test_tolerances_of_rows() -> None:
    short, long = (TensorType((2, n), "float32") for n in (127, 128))
    assert Softmax().tolerance_of([short]) == Softmax.tolerance < LONG_ROW_TOLERANCE
    assert Softmax().tolerance_of([long]) == LONG_ROW_TOLERANCE


def test_large_numbers_do_not_overflow(tmp_path: Path) -> None:
    x = np.array([[3e38, -1e37, 1.0], [1000.0, 999.0, -1000.0]], np.float32)
    for kind in ("Softmax", "LogSoftmax"):
        path = save_node(tmp_path / "m.onnx", kind, x, {})
        check_nests(check_against_onnxruntime(path, x, TOLERANCE), [x])


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeMismatch, match="of one scale"):
        LogSoftmax().infer(NoAttrs(), TensorType((3,), "int8"))
    x = np.ones((2, 3), np.float32)
    path = save_node(tmp_path / "m.onnx", "Softmax", x, {}, axis=1)
    import onnx

    model = onnx.load(path)
    model.graph.node[0].attribute[0].i = 5
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ImportFailed) as caught:
        import_model(path)
    assert "axis 5 of an input of rank 2" in "\n".join(caught.value.details)
