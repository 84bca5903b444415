"""Range, Size, EyeLike and Compress: made or picked at compile time, as ONNX Runtime has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.graph.interpret import interpret

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def saved(path: Path, nodes: list[Any], constants: dict[str, Any], out: np.ndarray) -> Path:
    """A model of x float32[3, 4] whose output y has the type of `out`."""
    dtype = helper.np_dtype_to_tensor_dtype(out.dtype)
    graph = helper.make_graph(
        nodes, "test", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", dtype, out.shape)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 9
    path.write_bytes(made.SerializeToString())
    return path


def both(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """What ONNX Runtime and edgec make of X."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x": X})
    (found,) = interpret(import_model(path).main, [X])
    return wanted, found


KEPT = np.array([True, False, True])
FLAT = np.array([True, False, True, True, False, False, True])


def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> Any:
    return helper.make_node(kind, inputs, [output], **attributes)


FLOAT = onnx.TensorProto.FLOAT
CASES = {
    "range": (
        [node("Range", ["a", "b", "c"], "r"), node("Add", ["x", "r"], "y")],
        {"a": np.float32(2), "b": np.float32(10), "c": np.float32(2)}, X,
    ),
    "eye above": ([node("EyeLike", ["x"], "e", k=1), node("Mul", ["x", "e"], "y")], {}, X),
    "eye below": (
        [node("EyeLike", ["x"], "e", k=-2, dtype=FLOAT), node("Add", ["x", "e"], "y")], {}, X,
    ),
    "size": (
        [node("Size", ["x"], "s"), node("Cast", ["s"], "f", to=FLOAT),
         node("Div", ["x", "f"], "y")],
        {}, X,
    ),
    "rows": ([node("Compress", ["x", "k"], "y", axis=0)], {"k": KEPT}, X[:2]),
    "columns": ([node("Compress", ["x", "k"], "y", axis=-1)], {"k": KEPT}, X[:, :2]),
    "flat": ([node("Compress", ["x", "k"], "y")], {"k": FLAT}, X.reshape(-1)[:4]),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "constants", "out"), CASES.values(), ids=CASES)
def test_values_are_those_of_onnx_runtime(
    nodes: list[Any], constants: dict[str, Any], out: np.ndarray, tmp_path: Path
) -> None:
    wanted, found = both(saved(tmp_path / "m.onnx", nodes, constants, out))
    np.testing.assert_array_equal(found, wanted, strict=True)


def test_places_outside_are_refused(tmp_path: Path) -> None:
    picked = node("Compress", ["x", "k"], "y", axis=0)
    long = np.array([False, False, False, True])
    with pytest.raises(ImportFailed) as caught:
        import_model(saved(tmp_path / "m.onnx", [picked], {"k": long}, X[:1]))
    assert "Compress" in str(caught.value)
