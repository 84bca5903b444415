"""`edgec export --format tosa` and `--format onnx`: one file of a model's graph."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import test_svdf
from onnx_builder import float_network
from package_commands import edgec

from edgec.cli.export import GRAPH_NAMES
from edgec.exporters.graph_files import GRAPH_FILES
from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation


def test_the_command_knows_every_file() -> None:
    assert tuple(GRAPH_FILES) == GRAPH_NAMES


def test_onnx_is_what_onnx_runtime_runs(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model, out = float_network(1, tmp_path / "model.onnx"), tmp_path / "out.onnx"
    assert edgec("export", model, "--format", "onnx", "-o", out) == 0
    function = import_model(model).main
    x = np.random.default_rng(0).normal(size=function.inputs[0].type.shape).astype(np.float32)
    session = runtime.InferenceSession(str(out))
    (found,) = session.run(None, {session.get_inputs()[0].name: x})
    (wanted,) = Interpretation(function).run([x])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_tosa_names_the_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = float_network(1, tmp_path / "model.onnx"), tmp_path / "out.mlir"
    assert edgec("export", model, "--format", "tosa", "-o", out, "--json") == 0
    text = out.read_text("utf-8")
    assert json.loads(capsys.readouterr().out) == {
        "model": "model.onnx", "format": "tosa", "files": [str(out)],
    }  # fmt: skip
    assert text.startswith("// model.onnx: TOSA 1.0")
    names = [node.name for node in import_model(model).main.nodes if node.op.products]
    assert names and all(f"// {name}: " in text for name in names)


def test_integers_of_tflite_and_states_are_what_onnx_runtime_computes(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    path, out = tmp_path / "m.tflite", tmp_path / "m.onnx"
    path.write_bytes(test_svdf.svdf_model())
    assert edgec("export", path, "--format", "onnx", "-o", out) == 0
    function = import_model(path).main
    session = runtime.InferenceSession(str(out))
    states = [value.name for value in session.get_overridable_initializers()]
    assert len(states) == len(function.states)
    interpretation, given = Interpretation(function), {}
    for seed in range(4):
        shape = function.inputs[0].type.shape
        x = np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)
        found, *after = session.run(None, {session.get_inputs()[0].name: x, **given})
        given = dict(zip(states, after, strict=True))
        (wanted,) = interpretation.run([x])
        np.testing.assert_array_equal(found, wanted)


def test_a_graph_is_no_c(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = float_network(1, tmp_path / "model.onnx")
    out = tmp_path / "x"
    assert edgec("export", model, "--format", "tosa", "-o", out, "--target", "host") == 2
    assert edgec("export", tmp_path, "--format", "tosa", "-o", out) == 2
    assert "not a folder" in capsys.readouterr().err
