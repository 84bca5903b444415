"""MLPerf Tiny firmware on an emulated board: the official commands, the frameworks' answers."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from built_models import DIGITS, MODELS

from edgec.boards.board import load_board
from edgec.deploy.project import deploy
from edgec.errors import RunFailed
from edgec.link.client import LinkClient
from edgec.link.errors import ForeignFirmware
from edgec.options import Options
from edgec.oracle.frameworks import open_oracle
from edgec.pipeline import compile_model
from edgec.report.mlperf_data import area_under_curve, load_samples
from edgec.runners.engine import open_session
from edgec.runners.mlperf_tiny import MlperfDevice
from edgec.runners.qemu import QemuProcess

IDS = {"kws": "kws01", "ic": "ic01", "vww": "vww01", "ad": "ad01"}


@pytest.fixture(autouse=True)
def qemu() -> None:
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed (Debian package qemu-system-arm)")


@pytest.fixture
def device(tmp_path: Path):
    """Builds a model's firmware for a board and gives its emulation, started."""
    open_ones: list[QemuProcess] = []

    def start(model: Path, board_name: str = "mps2_an386") -> MlperfDevice:
        board = load_board(board_name)
        options = Options(io="caller", harness="mlperf-tiny")
        compiled = compile_model(model, board.core, options, board_name=board.name)
        built = deploy(compiled, board, tmp_path / "project")
        process = QemuProcess(board, built.artefact)
        open_ones.append(process)
        found = MlperfDevice(process.transport, patience=20.0)
        said = found.wait_for_start()
        assert said[0] == "m-timestamp-mode-performance"
        assert said[1].startswith("m-lap-us-") and said[2:] == ["m-init-done"]
        return found

    yield start
    for process in open_ones:
        process.close()


@pytest.mark.parametrize(
    "key", [pytest.param(key, marks=[pytest.mark.full] * (key == "vww")) for key in IDS]
)
def test_answers_are_the_frameworks(
    key: str, device: Callable, shared_dir: Path, sample_model: Callable[[str], Path]
) -> None:
    model = sample_model(MODELS[key])
    oracle = open_oracle(model)
    found = device(model)
    assert found.model_id() == IDS[key]
    for sample in load_samples(key, shared_dir / "data", 2)[:2]:
        data = sample.inputs[0]
        if key == "ad":
            real = np.frombuffer(data, "<f4")
            x = np.clip(np.round(real / np.float32(0.39101523)) + 89, -128, 127).astype(np.int8)
        elif key == "kws":
            x = np.frombuffer(data, np.int8)
        else:
            x = (np.frombuffer(data, np.uint8).astype(np.int16) - 128).astype(np.int8)
        shape = {"kws": (1, 49, 10, 1), "ic": (1, 32, 32, 3), "vww": (1, 96, 96, 3), "ad": (1, 640)}
        out = oracle.run([x.reshape(shape[key])]).outputs[0].reshape(-1).astype(np.float32)
        scale, zero_point = oracle_output_quantization(model)
        found.load(data)
        results = found.infer(1, 0).results
        if key == "ad":
            want = float(np.mean((real - (out - zero_point) * np.float32(scale)) ** 2))
            assert math.isclose(results[0], want, rel_tol=1e-4, abs_tol=1e-3)
        else:
            want_all = [float(f"{v:.3f}") for v in (out - zero_point) * np.float32(scale)]
            assert list(results) == want_all
    # The input is still there after a run, and every run has it.
    again = found.infer(3, 1)
    assert again.results == results and again.microseconds > 100


@pytest.mark.parametrize(
    ("file", "key"),
    [
        ("mlperf_ad_autoencoder_f32.tflite", "ad"),
        # One plane for each colour, where the official data has pixels.
        ("mlperf_ic_resnet8_f32.onnx", "ic"),
        pytest.param("mlperf_vww_mbv1_f32.tflite", "vww", marks=pytest.mark.full),
    ],
)
def test_float_models_get_the_values_that_bytes_stand_for(
    file: str, key: str, device: Callable, shared_dir: Path, sample_model: Callable[[str], Path]
) -> None:
    model = sample_model(file)
    oracle = open_oracle(model)
    found = device(model)
    assert found.model_id() == IDS[key]
    data = load_samples(key, shared_dir / "data", 1)[0].inputs[0]
    found.load(data)
    results = np.array(found.infer(1, 0).results)
    if key == "ad":
        x = np.frombuffer(data, "<f4").reshape(1, 640)
        want = np.mean((x - oracle.run([x]).outputs[0]) ** 2)
    else:
        pixels = np.frombuffer(data, np.uint8).astype(np.float32)
        if key == "ic":
            x = pixels.reshape(1, 32, 32, 3).transpose(0, 3, 1, 2)
        else:
            x = (pixels / np.float32(255)).reshape(1, 96, 96, 3)
        want = oracle.run([np.ascontiguousarray(x)]).outputs[0].reshape(-1)
    assert np.allclose(results, want, rtol=1e-3, atol=2e-3)


def oracle_output_quantization(model: Path) -> tuple[float, int]:
    import tflite

    file = tflite.Model.GetRootAs(model.read_bytes(), 0)
    graph = file.Subgraphs(0)
    quantization = graph.Tensors(graph.Outputs(0)).Quantization()
    return float(quantization.Scale(0)), int(quantization.ZeroPoint(0))


def test_any_model_on_a_small_core(device: Callable) -> None:
    """The example, whose input is float32, under its own name, on a Cortex-M0."""
    found = device(DIGITS, "bbc_microbit")
    assert found.model_id() == "digits_int8"
    data = np.load(DIGITS.parent / "digits_test.npz")
    image = data[next(name for name in data.files if data[name].ndim > 1)][0].astype("<f4")
    want = open_oracle(DIGITS).run([image[np.newaxis]]).outputs[0].reshape(-1)
    found.load(image.tobytes())
    assert found.infer(1, 0).results == tuple(float(f"{v:.3f}") for v in want)
    with pytest.raises(RunFailed, match="refuses 'db load 100000'"):
        found.command("db load 100000")
    with pytest.raises(ForeignFirmware, match="MLPerf Tiny"):
        LinkClient(found._transport).hello(1.0)


def test_energy_mode_is_a_setting_of_the_project(tmp_path: Path) -> None:
    """CMake builds it with the application's pulse, here a character on the line."""
    for program in ("cmake", "make", "arm-none-eabi-gcc"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    board = load_board("mps2_an386")
    options = Options(io="caller", harness="mlperf-tiny")
    compiled = compile_model(DIGITS, board.core, options, board_name=board.name)
    project = deploy(compiled, board, tmp_path / "project").project
    (project / "pulse.c").write_text(
        '#include "ec_mlperf.h"\n#include "ec_port.h"\n'
        "#if EC_BAUD != 9600\n#error EC_BAUD\n#endif\n"
        "void ec_mlperf_pulse(void) {\n    ec_port_putc('^');\n}\n"
    )
    settings = ["-G", "Unix Makefiles", "-DEDGEC_MLPERF_ENERGY=pulse.c"]
    for command in (["--preset", "release", *settings], ["--build", "--preset", "release"]):
        subprocess.run(["cmake", *command], cwd=project, capture_output=True, check=True)
    with QemuProcess(board, project / "build-release" / "digits_int8_firmware.elf") as process:
        found = MlperfDevice(process.transport, patience=20.0)
        assert found.wait_for_start() == ["m-timestamp-mode-energy", "^m-init-done"]
        found.load(np.zeros(64, "<f4").tobytes())
        said = found.command("infer 2 1")
        assert said[:4] == ["m-warmup-start-1", "m-warmup-done", "m-infer-start-2",
                            "^^m-infer-done"]  # fmt: skip
        assert said[4].startswith("m-results-[")


def test_link_engines_refuse_the_firmware(tmp_path: Path) -> None:
    board = load_board("mps2_an386")
    options = Options(io="caller", harness="mlperf-tiny")
    compiled = compile_model(DIGITS, board.core, options, board_name=board.name)
    built = deploy(compiled, board, tmp_path / "project")
    with pytest.raises(RunFailed, match="speaks the protocol of mlperf-tiny"):
        open_session("qemu", built)
    # The simulated core calls the model itself, whatever serves it.
    with open_session("core", built) as session:
        zeros = np.zeros(built.manifest.inputs[0].shape, np.float32)
        assert session.run([zeros]).instructions


def test_suite_prints_accuracy_and_time(shared_dir: Path) -> None:
    command = [sys.executable, "-m", "edgec", "bench", "--suite", "mlperf-tiny", "--model", "kws",
               "--samples", "10", "--baselines", str(shared_dir / "baselines.json")]  # fmt: skip
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["id"], row["samples"], row["metric"]) == ("kws01", 10, "top1")
    assert row["accuracy"] >= 0.8  # of ten samples; the whole set has 90 %
    assert 1_000_000 < row["instructions"] < 10_000_000
    assert row["published_ms"]["tflm_reference_v0_5"] == 181.9


def test_area_under_curve() -> None:
    assert area_under_curve([1.0, 2.0, 3.0, 4.0], [0, 0, 1, 1]) == 1.0
    assert area_under_curve([1.0, 3.0, 2.0, 4.0], [0, 0, 1, 1]) == 0.75
    assert area_under_curve([1.0, 1.0], [0, 1]) == 0.5
