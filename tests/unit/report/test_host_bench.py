"""`edgec bench --host`: our time beside a framework's, and what is said where there is none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from onnx_builder import OnnxBuilder

from edgec.cli.main import cli
from edgec.errors import EdgecError
from edgec.report.host_bench import Setup, find_models, measure_host
from edgec.report.roofline import LayerTime, Peak, Roofline, measure_layers
from edgec.report.roofline_page import render_rooflines


def dense_model(folder: Path) -> Path:
    model = OnnxBuilder(1, (1, 16))
    weights = model.rng.normal(0, 0.3, (16, 8)).astype(np.float32)
    return model.save(model.add("MatMul", ["x", model.constant(weights, "w")]), folder / "m.onnx")


def test_both_are_timed(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    row = measure_host(dense_model(tmp_path), Setup(seconds=0.05))
    assert row["macs"] == 128 and row["rival"] == "ONNX Runtime"
    assert 0 < row["edgec_us"] <= row["edgec_median_us"]
    assert 0 < row["rival_us"] <= row["rival_median_us"]


def test_without_a_rival(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ImportError("No module named 'onnxruntime'")

    monkeypatch.setattr("edgec.report.host_bench._rival", refuse)
    row = measure_host(dense_model(tmp_path), Setup(seconds=0.05))
    assert row["rival"] == "none: No module named 'onnxruntime'" and row["rival_us"] is None


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgec.report.host_bench.DEFAULT_SECONDS", 0.05)
    path = str(dense_model(tmp_path))
    done = CliRunner().invoke(cli, ["bench", "--host", "--model", path, "--json"])
    assert [row["model"] for row in json.loads(done.stdout)["rows"]] == ["m.onnx"]
    done = CliRunner().invoke(cli, ["bench", "--host", "--model", path])
    assert "m.onnx" in done.stdout and "one thread" in done.stdout
    assert CliRunner().invoke(cli, ["bench", "--host", "--layers"]).exit_code == 2
    assert CliRunner().invoke(cli, ["bench", "--html", "page.html"]).exit_code == 2


def test_layers_beside_what_the_core_can_do(tmp_path: Path) -> None:
    found = measure_layers(dense_model(tmp_path), Setup(seconds=0.02))
    peak = found.peak
    assert peak.float_gmacs > 1 and peak.gbytes > 1 and peak.int8_gmacs >= peak.float_gmacs
    (layer,) = [layer for layer in found.layers if layer.macs]
    assert layer.macs == 128 and layer.bytes >= 4 * (16 + 8 + 128) and layer.dtype == "float32"
    assert 0 <= layer.us < 1000 and layer.gmacs < 1.2 * peak.float_gmacs
    assert peak.limit("float32", 1e-3) < peak.limit("float32", 1e6) == peak.float_gmacs


def test_the_page_has_a_point_and_a_line_for_each_layer() -> None:
    layers = (
        LayerTime("conv", 10.0, 1_000_000, 50_000, "int8"),
        LayerTime("add", 1.0, 0, 9, "int8"),
    )
    page = render_rooflines([Roofline("m.tflite", "x86-64-v3", Peak(200.0, 50.0, 100.0), layers)])
    assert page.count("<circle") == 1 and page.count('class="front"') == 1
    assert "100.0" in page and "50%" in page  # GMAC/s, and of the peak
    assert "conv: 100.0 GMAC/s" in page and ">add<" in page


def test_a_name_that_is_nothing(tmp_path: Path) -> None:
    parts = ("models", "tflm_cmsis_nn", "tflm_reference_kernels", "published_ms")
    stated: dict[str, object] = {part: {} for part in (*parts, "layers_instructions")}
    (tmp_path / "baselines.json").write_text(json.dumps(stated))
    with pytest.raises(EdgecError, match=r"nothing\.onnx is not a file"):
        find_models(tmp_path / "baselines.json", ["nothing.onnx"])
