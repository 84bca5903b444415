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
        (helper.make_node("Concat", ["open", "open"], ["y"], axis=0), "concat needs that number"),
        (helper.make_node("Add", ["open", "twelve"], ["y"]), "12 elements, but another input"),
        (helper.make_node("Add", ["open", "other"], ["y"]), "axis 0 of its result has two sizes"),
        (helper.make_node("Reshape", ["open", "shape"], ["y"]), "reshape needs that number"),
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
    }  # fmt: skip
    path = save(nodes, ["y"], tmp_path / "m.onnx", constants)
    with pytest.raises(ImportFailed) as refusal:
        import_model(path)
    assert message in str(refusal.value.details)


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
