"""`edgec export --format tosa` and `--format onnx`: one file of a model's graph."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx_builder import float_network
from tflite_builder import TfliteBuilder

from edgec.cli.export import GRAPH_NAMES
from edgec.cli.main import main
from edgec.exporters.graph_files import GRAPH_FILES
from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation


def edgec(*words: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in words])
    return int(stopped.value.code or 0)


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


def test_integers_of_tflite_are_refused_as_onnx(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = TfliteBuilder()
    x = model.tensor("x", (1, 8), "int8", scale=0.1, zero_point=3)
    y = model.tensor("y", (1, 8), "int8", scale=0.2, zero_point=3)
    model.operator("QUANTIZE", [x], [y])
    path, out = tmp_path / "m.tflite", tmp_path / "m.onnx"
    path.write_bytes(model.build([x], [y]))
    assert edgec("export", path, "--format", "onnx", "-o", out) == 1
    assert "operator requantize" in capsys.readouterr().err
    assert not out.exists()


def test_a_graph_is_no_c(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = float_network(1, tmp_path / "model.onnx")
    out = tmp_path / "x"
    assert edgec("export", model, "--format", "tosa", "-o", out, "--target", "host") == 2
    assert edgec("export", tmp_path, "--format", "tosa", "-o", out) == 2
    assert "not a folder" in capsys.readouterr().err
