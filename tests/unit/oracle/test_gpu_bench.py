"""`edgec bench --gpu`: a table of who runs a model on a GPU, here on a driver that stands in."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx_builder import OnnxBuilder

from edgec.build import nvrtc
from edgec.cli.main import cli
from edgec.deploy.project import Built, deploy
from edgec.errors import ToolMissing
from edgec.oracle import gpu_bench
from edgec.report import environment
from edgec.runners.gpu_emulation import build_emulated

needs_nvrtc = pytest.mark.skipif(nvrtc.find_nvrtc() is None, reason="edgec[cuda] is not installed")


def dense_model(folder: Path) -> Path:
    model = OnnxBuilder(1, (1, 16))
    weights = model.rng.normal(0, 0.3, (16, 8)).astype(np.float32)
    return model.save(model.add("MatMul", ["x", model.constant(weights, "w")]), folder / "m.onnx")


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A GPU of compute capability 9.0: the model's own host C on the emulated driver."""

    def emulated(compiled: Any, board: Any, folder: Path) -> Built:
        assert compiled.program.target == "cuda-sm_90"
        built = deploy(compiled, board, folder)
        library = build_emulated(built.project, built.manifest.model, tmp_path / "emulated")
        return replace(built, artefact=library)

    monkeypatch.setattr(gpu_bench, "count_gpus", lambda: 1)
    monkeypatch.setattr(gpu_bench, "gpu_capability", lambda: 103)
    monkeypatch.setattr(gpu_bench, "deploy", emulated)
    monkeypatch.setattr("edgec.report.host_bench.DEFAULT_SECONDS", 0.05)


@needs_nvrtc
def test_command(stand_in: None, tmp_path: Path) -> None:
    """Nobody else has a GPU here, which is said once each."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    path, page = str(dense_model(tmp_path)), tmp_path / "page.html"
    done = CliRunner().invoke(cli, ["bench", "--gpu", "--model", path, "--html", str(page)])
    assert done.exit_code == 0, done.output
    assert "m.onnx  edgec" in done.stdout
    assert "torch.compile cannot run m.onnx: it runs .pt2 files" in done.stdout
    assert done.stdout.count("has no TensorrtExecutionProvider") == 1
    assert "<svg" in page.read_text("utf-8") and "on a GPU" in page.read_text("utf-8")
    done = CliRunner().invoke(cli, ["bench", "--gpu", "--model", path, "--json"])
    rows = json.loads(done.stdout)["rows"]
    assert [row["by"] for row in rows] == ["edgec", *gpu_bench.RIVALS]
    assert 0 < rows[0]["us"] <= rows[0]["median_us"] and rows[0]["ratio"] == 1


@needs_nvrtc
def test_programs_take_turns(stand_in: None, tmp_path: Path) -> None:
    """Each is called a few times, then the next one, on the same inputs."""
    order: list[str] = []

    def start(name: str) -> gpu_bench.Rival:
        def run(model: Path, inputs: Sequence[np.ndarray]) -> Any:
            assert model.name == "m.onnx" and [x.shape for x in inputs] == [(1, 16)]
            return lambda: order.append(name)

        return run

    rows = gpu_bench.measure_gpu(dense_model(tmp_path), 0.05, {n: start(n) for n in "ab"})
    assert [row["by"] for row in rows] == ["edgec", "a", "b"]
    assert order[:2] == ["a", "b"] and order[2:12] == ["a"] * 5 + ["b"] * 5
    table = gpu_bench.gpu_table(rows).text()
    assert len(table) == 5


class _Driver:
    """What `ctypes.CDLL` gives for a driver of one GPU, of compute capability 8.7."""

    def __init__(self, count: int) -> None:
        self.count = count

    def cuInit(self, _: int) -> int:
        return 0

    def cuDeviceGetCount(self, found: Any) -> int:
        found._obj.value = self.count
        return 0

    def cuDeviceGetAttribute(self, found: Any, attribute: int, _: int) -> int:
        found._obj.value = {75: 8, 76: 7}[attribute]
        return 0


def test_without_a_gpu_one_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    done = CliRunner().invoke(cli, ["bench", "--gpu"])
    assert done.exit_code == 1 and isinstance(done.exception, ToolMissing)
    assert "CUDA's driver is not installed" in done.exception.message
    assert "gpu_emulation" in done.exception.hint
    monkeypatch.setattr(ctypes, "CDLL", lambda name: _Driver(0))
    with pytest.raises(ToolMissing, match="CUDA's driver finds none"):
        gpu_bench.require_gpu()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: _Driver(1))
    gpu_bench.require_gpu()
    assert environment.gpu_capability() == 87
    assert CliRunner().invoke(cli, ["bench", "--gpu", "--host"]).exit_code == 2
