"""fill_beyond: operators that take all of what data select, on the core and beside ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from edgec.boards.board import load_board
from edgec.cli.main import cli
from edgec.deploy.project import deploy
from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation
from edgec.pipeline import compile_model
from edgec.runners.engine import open_session

X = np.array([[0, 3, 0, -1], [2, 0, 0, 0], [0, 0, 0, 5]], np.float32)
#: Rows and columns that two conditions keep.
CELLS = [
    helper.make_node("ReduceMax", ["x"], ["most_of_columns"], axes=[0], keepdims=0),
    helper.make_node("Greater", ["most_of_columns", "none_of_floats"], ["columns"]),
    helper.make_node("Compress", ["open", "columns"], ["cells"], axis=1),
]
WHOLE = {
    "sum": [helper.make_node("ReduceSum", ["open"], ["y"])],
    "mean": [helper.make_node("ReduceMean", ["open"], ["y"], axes=[0], keepdims=0)],
    "mean_of_all": [helper.make_node("ReduceMean", ["open"], ["y"])],
    "largest": [helper.make_node("ReduceMax", ["open"], ["y"], axes=[0])],
    "smallest": [helper.make_node("ReduceMin", ["open"], ["y"], axes=[0, 1], keepdims=0)],
    "product": [helper.make_node("ReduceProd", ["open"], ["y"], axes=[0])],
    "norm": [helper.make_node("ReduceL2", ["open"], ["y"], axes=[0])],
    "log_sum_exp": [helper.make_node("ReduceLogSumExp", ["open"], ["y"], axes=[0])],
    "softmax": [helper.make_node("Softmax", ["open"], ["y"], axis=0)],
    "log_softmax": [helper.make_node("LogSoftmax", ["open"], ["y"], axis=0)],
    "first_largest": [helper.make_node("ArgMax", ["open"], ["y"], axis=0)],
    "last_smallest": [helper.make_node("ArgMin", ["open"], ["y"], axis=0, select_last_index=1)],
    "shape": [helper.make_node("Shape", ["open"], ["y"])],
    "part_of_shape": [helper.make_node("Shape", ["open"], ["y"], start=-2, end=1)],
    "size": [helper.make_node("Size", ["open"], ["y"])],
    "sums_of_rows": [helper.make_node("ReduceSum", ["open", "one_axis"], ["y"])],
    "largest_of_rows": [helper.make_node("ArgMax", ["open"], ["y"], axis=1)],
    "two_of_rows": [helper.make_node("TopK", ["open", "two"], ["y", "z"], axis=1)],
    "last_of_open": [helper.make_node("TopK", ["open", "two"], ["y", "z"], axis=0)],
    "least_of_open": [helper.make_node("TopK", ["open", "two"], ["z", "y"], axis=0, largest=0)],
    "at_most_two": [
        helper.make_node("Shape", ["open"], ["rows"], end=1),
        helper.make_node("Min", ["rows", "two"], ["count"]),
        helper.make_node("TopK", ["open", "count"], ["y", "z"], axis=0),
    ],
    "first_two": [helper.make_node("Slice", ["open", "zero", "two"], ["y"])],
    "all_but_last": [helper.make_node("Slice", ["open", "zero", "minus_one"], ["y"])],
    "sums_after": [helper.make_node("CumSum", ["open", "none"], ["y"], reverse=1)],
    "sums_after_others": [
        helper.make_node("CumSum", ["open", "none"], ["y"], reverse=1, exclusive=1)
    ],
    "sum_of_cells": [*CELLS, helper.make_node("ReduceSum", ["cells"], ["y"])],
    "largest_of_columns": [*CELLS, helper.make_node("ReduceMax", ["cells"], ["y"], axes=[0])],
    "mean_of_cells": [*CELLS, helper.make_node("ReduceMean", ["cells"], ["y"], axes=[1, 0])],
    "softmax_of_columns": [*CELLS, helper.make_node("Softmax", ["cells"], ["y"], axis=0)],
    "first_of_columns": [*CELLS, helper.make_node("ArgMax", ["cells"], ["y"], axis=0)],
    "order_of_columns": [*CELLS, helper.make_node("TopK", ["cells", "two"], ["y", "z"], axis=0)],
    "sums_before": [helper.make_node("CumSum", ["open", "none"], ["y"])],
    "softmax_of_rows": [helper.make_node("Softmax", ["open"], ["y"])],
    "norms_of_rows": [helper.make_node("LayerNormalization", ["open", "scale"], ["y"])],
    "matrix": [helper.make_node("MatMul", ["open", "matrix"], ["y"])],
    "dense": [helper.make_node("Gemm", ["open", "matrix", "scale"], ["y"])],
    "two_matrices": [
        helper.make_node("Transpose", ["open"], ["columns"]),
        helper.make_node("MatMul", ["x", "columns"], ["y"]),
    ],
}


def answers(path: Path, x: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found: list[np.ndarray] = session.run(None, {"x": x})
    return found


def kept_rows(name: str, path: Path) -> Path:
    """Rows that a condition keeps; what lies beyond them counts for nothing."""
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], axes=[1], keepdims=0),
        helper.make_node("Greater", ["most", "limit"], ["kept"]),
        helper.make_node("Compress", ["x", "kept"], ["open"], axis=0), *WHOLE[name],
    ]  # fmt: skip
    constants = {
        "limit": np.array(1, np.float32), "one_axis": np.array([1], np.int64),
        "two": np.array([2], np.int64), "none": np.array(0, np.int64),
        "zero": np.array([0], np.int64), "minus_one": np.array([-1], np.int64),
        "none_of_floats": np.array(0, np.float32),
        "scale": np.array([1, 2, -1, 3], np.float32),
        "matrix": np.arange(16, dtype=np.float32).reshape(4, 4) - 7,
    }  # fmt: skip
    graph = helper.make_graph(
        nodes, "test", [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(data, name) for name, data in constants.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(onnx.shape_inference.infer_shapes(made), path)
    return path


#: Of nothing: ONNX says that a mean is undefined, and ONNX Runtime refuses to search.
SOMETHING = (
    "mean", "mean_of_all", "first_largest", "last_smallest", "last_of_open", "least_of_open",
    "mean_of_cells", "first_of_columns", "order_of_columns",
)  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_operators_that_take_what_is_in_use(name: str, tmp_path: Path) -> None:
    path = kept_rows(name, tmp_path / "m.onnx")
    reference = Interpretation(import_model(path).main)
    compiled = compile_model(path, load_board("stm32").core, board=load_board("stm32"))
    built = deploy(compiled, load_board("stm32"), tmp_path / "project")
    with open_session("core", built) as session:
        rows = [] if name in SOMETHING else [-np.abs(X)]
        for x in (*rows, X, np.array([[2, -7, 0, 1], [0, 0, 1, 0], [-5, 9, -3, 2]], np.float32)):
            (found,), (bits,) = session.run([x]).outputs, reference.run([x])
            (wanted,) = answers(path, x)
            assert bits.shape == wanted.shape and bits.dtype == wanted.dtype
            np.testing.assert_array_equal(found.reshape(bits.shape), bits)
            np.testing.assert_allclose(bits, wanted, rtol=1e-6, atol=1e-6)


def test_a_count_is_at_most_what_is_in_use(tmp_path: Path) -> None:
    """ONNX Runtime does not run then; it does where the file limits the count itself."""
    ours = Interpretation(import_model(kept_rows("last_of_open", tmp_path / "m.onnx")).main)
    limited = kept_rows("at_most_two", tmp_path / "limited.onnx")
    for x in (-np.abs(X), X * [[1], [0], [0]], X):
        (wanted,) = answers(limited, x.astype(np.float32))
        np.testing.assert_array_equal(ours.run([x.astype(np.float32)])[0], wanted, strict=True)


@pytest.mark.parametrize("name", ["mean", "largest", "log_softmax", "part_of_shape"])
def test_what_takes_what_is_in_use_is_written_and_quantized(name: str, tmp_path: Path) -> None:
    path, written = kept_rows(name, tmp_path / "m.onnx"), tmp_path / "written.onnx"
    rows = np.abs(np.random.default_rng(3).normal(size=(20, *X.shape))).astype(np.float32) + 1
    np.savez(tmp_path / "rows.npz", x=rows)
    done = CliRunner().invoke(cli, ["export", str(path), "--format", "onnx", "-o", str(written)])
    assert done.exit_code == 0, done.output
    for x in rows[:4]:
        ours, theirs = answers(written, x), answers(path, x)
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-6, atol=1e-6)
    integers, samples = tmp_path / "integers.onnx", ["--calibration", str(tmp_path / "rows.npz")]
    done = CliRunner().invoke(cli, ["quantize", str(path), *samples, "-o", str(integers)])
    assert done.exit_code == 0, done.output
    for x in rows[:4]:
        (near,), (wanted,) = Interpretation(import_model(integers).main).run([x]), answers(path, x)
        np.testing.assert_allclose(near, wanted, atol=0.05)
