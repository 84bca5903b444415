"""Sparse tensors of ONNX files become dense ones, as in ONNX Runtime; damaged ones are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgec.errors import ImportFailed, TooLarge
from edgec.frontends import import_model
from edgec.graph.interpret import interpret

FLAT, ROWS = [1, 5, 11], [[0, 1], [1, 1], [2, 3]]


def model(path: Path, places: object, shape: object = (3, 4), *, is_node: bool = False) -> Path:
    """y = x w, of which w [3, 4] has three elements; or a sparse Constant in its place."""
    values = numpy_helper.from_array(np.array([1.5, -2, 3], np.float32), "w")
    indices = numpy_helper.from_array(np.array(places, np.int64), "places")
    sparse = helper.make_sparse_tensor(values, indices, shape)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    if is_node:
        nodes.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=sparse))
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        sparse_initializer=[] if is_node else [sparse],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    return path


@pytest.mark.parametrize("is_node", [False, True])
@pytest.mark.parametrize("places", [FLAT, ROWS])
def test_equals_onnx_runtime(places: object, is_node: bool, tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx", places, is_node=is_node)
    x = np.random.default_rng(1).normal(size=(2, 3)).astype(np.float32)
    (wanted,) = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    (found,) = interpret(import_model(path).main, [x])
    assert np.count_nonzero(wanted) == 4
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("places", "shape", "said"),
    [
        ([1, 5, 12], (3, 4), "do not ascend within [3, 4]"),
        ([1, 5, 5], (3, 4), "do not ascend"),
        ([-1, 5, 6], (3, 4), "do not ascend"),
        ([1, 5], (3, 4), "indices [2] of values [3]"),
        ([[0, 1, 2]] * 3, (3, 4), "sequence of length 2"),
        ([[0, 1], [1, 1], [2, 4]], (3, 4), "invalid entry"),
        (FLAT, (3, -4), "negative"),
    ],
)
def test_damaged_ones_are_refused(places: object, shape: object, said: str, tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx", places, shape)
    with pytest.raises(ImportFailed, match="sparse tensor 'w' is damaged") as refused:
        import_model(path)
    assert said in str(refused.value)


def test_a_small_file_of_a_large_tensor(tmp_path: Path) -> None:
    with pytest.raises(TooLarge, match="bytes of constants"):
        import_model(model(tmp_path / "m.onnx", FLAT, (1 << 20, 1 << 20)))


@pytest.mark.parametrize("kind", ["QLinearConv", "QLinearMatMul"])
@pytest.mark.parametrize(
    ("changed", "dtype", "said"),
    [
        ("xz", "float32", "the zero point of uint8 is float32"),
        ("wz", "int8", "the zero point of uint8 is int8"),
        ("yz", "float32", "the zero point of its output is float32"),
        ("yz", "int32", "the zero point of its output is int32"),
    ],
)
def test_zero_points_of_another_dtype(
    kind: str, changed: str, dtype: str, said: str, tmp_path: Path
) -> None:
    """A float one said "invalid literal for int()", others were taken."""
    shape = (2, 1, 1, 1) if kind == "QLinearConv" else (4, 4)
    given = {"xs": np.float32(0.1), "xz": np.uint8(3), "w": np.ones(shape, np.uint8),
             "ws": np.float32(0.1), "wz": np.uint8(2), "ys": np.float32(0.1),
             "yz": np.uint8(1)}  # fmt: skip
    given[changed] = given[changed].astype(dtype)
    node = helper.make_node(kind, ["x", *given], ["y"], name="product")
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 1, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in given.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    with pytest.raises(ImportFailed) as refused:
        import_model(tmp_path / "m.onnx")
    assert refused.value.details == (f"{kind}  node 'product': {said}",)
