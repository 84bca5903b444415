"""Sizes that data decide, end to end: what is in use, on which engines, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import edgec
from edgec.boards.board import load_board
from edgec.cli.main import cli
from edgec.deploy.project import deploy
from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation
from edgec.graph.ir import Module
from edgec.graph.parser import parse_module
from edgec.graph.printer import constant_data, print_module
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.runners.engine import open_session
from edgec.runners.host import HostModel

X = np.array([[0, 3, 0, -1], [2, 0, 0, 0], [0, 0, 0, 5]], np.float32)


def save(
    nodes: list[Any], outputs: list[str], path: Path, constants: dict[str, np.ndarray] | None = None
) -> Path:
    """A model of x float32 [3, 4]."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(data, name) for name, data in (constants or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(onnx.shape_inference.infer_shapes(made), path)
    return path


def chosen(path: Path) -> Path:
    """The elements that are not zero, doubled, and the places of all of them: two open outputs."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Transpose", ["places"], ["rows"], perm=[1, 0]),
        helper.make_node("GatherND", ["x", "rows"], ["found"]),
        helper.make_node("Add", ["found", "found"], ["twice"]),
        helper.make_node("Unsqueeze", ["twice", "last"], ["column"]),
        helper.make_node("Abs", ["x"], ["size"]),
    ]
    axes = {"last": np.array([1], np.int64)}
    return save(nodes, ["column", "places", "size"], path, axes)


def answers(path: Path, x: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found: list[np.ndarray] = session.run(None, {"x": x})
    return found


@pytest.mark.parametrize(("engine", "board"), [("host", "host"), ("core", "stm32")])
def test_what_is_in_use_comes_out(engine: str, board: str, tmp_path: Path) -> None:
    path = chosen(tmp_path / "m.onnx")
    compiled = compile_model(path, load_board(board).core, board=load_board(board))
    built = deploy(compiled, load_board(board), tmp_path / "project")
    reference = Interpretation(compiled.module.main)
    with open_session(engine, built) as session:
        assert session.selftest() == 0
        for x in (X, np.zeros_like(X), np.ones_like(X)):
            found, bits = session.run([x]).outputs, reference.run([x])
            for mine, own, wanted in zip(found, bits, answers(path, x), strict=True):
                np.testing.assert_array_equal(mine, own, strict=True)
                np.testing.assert_allclose(mine, wanted, rtol=1e-6, strict=True)


@pytest.mark.parametrize("io", ["arena", "caller"])
def test_c_says_how_large_an_output_is(io: str, tmp_path: Path) -> None:
    board = load_board("host")
    options = Options(io=io)  # type: ignore[arg-type]
    compiled = compile_model(chosen(tmp_path / "m.onnx"), board.core, options, board=board)
    built = deploy(compiled, board, tmp_path / "project")
    model = HostModel(built.artefact, built.manifest)
    assert [model.output_extent(0, 0), model.output_extent(2, 1)] == [0, 4]
    for x, count in ((X, 4), (np.ones_like(X), 12), (np.zeros_like(X), 0)):
        assert model.run([x])[0] == 0
        extents = [model.output_extent(*at) for at in ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0))]
        assert extents == [count, 1, 2, count, 3]
    assert [model.output_extent(0, 2), model.output_extent(9, 0)] == [0, 0]
    model.close()
    header = (built.project / "m.h").read_text("utf-8")
    assert "data decide how much of it is in use" in header and "set_size" not in header


def test_the_command_line_and_python(tmp_path: Path) -> None:
    path = chosen(tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", X)
    runner, out = CliRunner(), tmp_path / "y.npz"
    arguments = ["run", str(path), "--input", str(tmp_path / "x.npy"), "--output", str(out)]
    done = runner.invoke(cli, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    assert [value["shape"] for value in json.loads(done.stdout)["values"]] == [
        [4, 1], [2, 4], [3, 4],
    ]  # fmt: skip
    with np.load(out) as saved:
        np.testing.assert_array_equal(saved["places"], np.nonzero(X))
    done = runner.invoke(cli, ["verify", str(path), "--random", "3", "--layers", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["mismatches"] == 0
    with edgec.compile(path) as model:
        column, places, _ = model.run(X)
        np.testing.assert_array_equal(places, np.nonzero(X))
        np.testing.assert_array_equal(column[:, 0], 2 * X[X != 0])
        assert list(model.run_named(X)) == ["column", "places", "size"]


def test_text_keeps_what_is_open(tmp_path: Path) -> None:
    module = import_model(chosen(tmp_path / "m.onnx"))
    text = print_module(module)
    again = parse_module(text, constant_data(module))
    assert print_module(again) == text and again.main.counts == module.main.counts
    assert [value.name for value in module.main.answers] == ["column", "places", "size"]
    assert isinstance(again, Module) and len(again.main.outputs) == 4


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (
            helper.make_node("CumSum", ["open", "none"], ["y"], reverse=1),
            "cumulate needs to know it",
        ),
        (helper.make_node("Concat", ["open", "open"], ["y"], axis=0), "concat needs to know it"),
        (helper.make_node("Add", ["open", "twelve"], ["y"]), "12 elements, and data decide"),
        (helper.make_node("Add", ["open", "other"], ["y"]), "two sizes of axis 0"),
        (helper.make_node("Reshape", ["open", "shape"], ["y"]), "reshape needs to know it"),
    ],
)
def test_operators_that_need_the_size_are_refused(node: Any, message: str, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Greater", ["x", "one"], ["condition"]),
        helper.make_node("Less", ["x", "one"], ["less"]),
        *(helper.make_node("Reshape", [name, "all"], [f"{name}.row"]) for name in
          ("condition", "less")),
        helper.make_node("Compress", ["x", "condition.row"], ["open"]),
        helper.make_node("Compress", ["x", "less.row"], ["other"]),
        node,
    ]  # fmt: skip
    constants = {
        "one": np.array(1, np.float32), "twelve": np.ones(12, np.float32),
        "all": np.array([12], np.int64), "shape": np.array([3, 4], np.int64),
        "none": np.array(0, np.int64),
    }  # fmt: skip
    path = save(nodes, ["y"], tmp_path / "m.onnx", constants)
    with pytest.raises(ImportFailed) as refusal:
        import_model(path)
    assert message in str(refusal.value.details)


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
        "scale": np.array([1, 2, -1, 3], np.float32),
        "matrix": np.arange(16, dtype=np.float32).reshape(4, 4) - 7,
    }  # fmt: skip
    return save(nodes, ["y"], path, constants)


#: Of nothing: ONNX says that a mean is undefined, and ONNX Runtime refuses to search.
SOMETHING = ("mean", "mean_of_all", "first_largest", "last_smallest")


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


def test_a_computed_count_is_limited(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["largest"], keepdims=0),
        helper.make_node("Cast", ["largest"], ["whole"], to=TensorProto.INT64),
        helper.make_node("Reshape", ["whole", "one"], ["count"]),
        helper.make_node("TopK", ["x", "count"], ["values", "places"]),
    ]
    path = save(nodes, ["values", "places"], tmp_path / "m.onnx", {"one": np.array([1], np.int64)})
    reference = Interpretation(import_model(path).main)
    for most, count in ((2, 2), (4, 4), (0, 0), (100, 4), (-3, 0)):
        x = np.minimum(X, most) if most < 5 else X * most
        found = reference.run([x.astype(np.float32)])
        assert [array.shape for array in found] == [(3, count)] * 2
    np.testing.assert_array_equal(reference.run([np.minimum(X, 2)])[0], [[2, 0], [2, 0], [2, 0]])
