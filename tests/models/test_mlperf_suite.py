"""`bench --suite mlperf-tiny` on emulators, ports and pools.

The models are single layers of the shapes that the benchmarks have, made here; labels come from
TFLite Micro, a known share of them made wrong.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tflite_builder import TfliteBuilder

from edgec.boards.board import load_board
from edgec.codegen.harness import MEANINGS, WAKE_WORD
from edgec.deploy.project import deploy
from edgec.options import Options
from edgec.oracle.frameworks import open_oracle
from edgec.pipeline import compile_model
from edgec.runners.qemu import QemuProcess

BOARD = "mps2_an386"
SAMPLES = 4
RIGHT = 3


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed (Debian package qemu-system-arm)")
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed (edgec[verify])")


def dense(path: Path, inputs: int, outputs: int, scale: float, zero_point: int) -> None:
    model = TfliteBuilder()
    weights = np.random.default_rng(inputs).integers(-127, 128, (outputs, inputs)).astype(np.int8)
    x = model.tensor("x", (1, inputs), "int8", scale=scale, zero_point=zero_point)
    w = model.tensor("w", (outputs, inputs), "int8", scale=0.01, data=weights)
    b = model.tensor("b", (outputs,), "int32", scale=0.01 * scale, data=bytes(4 * outputs))
    y = model.tensor("y", (1, outputs), "int8", scale=30 * scale, zero_point=0)
    model.operator("FULLY_CONNECTED", [x, w, b], [y], "FullyConnectedOptions")
    path.write_bytes(model.build([x], [y]))


def labels(model: Path, inputs: np.ndarray, classes: int) -> np.ndarray:
    """What TFLite Micro says, but for the last samples."""
    oracle = open_oracle(model)
    found = [int(np.argmax(oracle.run([x.reshape(1, -1)]).outputs[0])) for x in inputs]
    return np.array([(y + (n >= RIGHT)) % classes for n, y in enumerate(found)])


@dataclass(frozen=True)
class Suite:
    """A folder as sample models and data are kept, and how to run the suite on it."""

    folder: Path

    def run(self, *arguments: str, status: int = 0) -> Any:
        command = [sys.executable, "-m", "edgec", "bench", "--suite", "mlperf-tiny", "--json",
                   "--baselines", str(self.folder / "baselines.json"), "--board", BOARD,
                   *arguments]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        if status:
            assert "Traceback" not in done.stderr
            return done.stderr
        rows = json.loads(done.stdout)["rows"]
        return {row["model"]: row for row in rows}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    folder = tmp_path_factory.mktemp("suite")
    (folder / "models").mkdir()
    (folder / "data").mkdir()
    random = np.random.default_rng(3)

    kws = folder / "models" / "kws.tflite"
    dense(kws, 490, 12, 0.5, 3)
    x = random.integers(-128, 128, (SAMPLES, 490)).astype(np.int8)
    np.savez(folder / "data" / "mlperf_kws01_dev500_int8.npz", x=x, y=labels(kws, x, 12))

    ic = folder / "models" / "ic.tflite"
    dense(ic, 3072, 10, 1.0, -128)
    pixels = random.integers(0, 256, (SAMPLES, 32, 32, 3)).astype(np.uint8)
    as_read = (pixels.reshape(SAMPLES, -1).astype(np.int16) - 128).astype(np.int8)
    np.savez(folder / "data" / "cifar10_test_exact_dev240.npz", x=pixels, y=labels(ic, as_read, 10))

    sww = folder / "models" / "sww.tflite"
    _, scale, zero_point = MEANINGS[WAKE_WORD]
    dense(sww, 1200, 3, scale, zero_point)
    stored = random.integers(-128, 128, (SAMPLES, 30, 1, 40)).astype(np.int8)
    real = (stored.astype(np.float32) - zero_point) * np.float32(scale)
    np.savez(
        folder / "data" / "mlperf_sww_calibration_samples.npz",
        specs=real,
        labels=labels(sww, stored, 3),
    )
    stated = {
        "models": {key: {"file": f"{key}.tflite"} for key in ("kws", "ic", "sww")},
        "published_ms": {"somebody": {"kws": 12.5}},
        "tflm_cmsis_nn": {}, "tflm_reference_kernels": {}, "layers_instructions": {},
    }  # fmt: skip
    (folder / "baselines.json").write_text(json.dumps(stated))
    return Suite(folder)


@pytest.fixture(scope="module")
def ports(suite: Suite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Emulated boards at pseudo-terminals, two with kws and one with ic."""
    if os.name != "posix":
        pytest.skip("pseudo-terminals are POSIX's")
    board = load_board(BOARD)
    found = {}
    with ExitStack() as stack:
        for name, key in (("left", "kws"), ("right", "kws"), ("other", "ic")):
            compiled = compile_model(
                suite.folder / "models" / f"{key}.tflite",
                board.core,
                Options(io="caller", harness="mlperf-tiny"),
                board_name=board.name,
            )
            built = deploy(compiled, board, tmp_path_factory.mktemp(name) / "project")
            assert built.artefact is not None
            process = stack.enter_context(QemuProcess(board, built.artefact, uart="pty"))
            assert process.transport is not None
            found[name] = process.transport.name
            process.transport.close()
        yield found


def check(row: dict[str, Any], key: str, *, is_timed: bool) -> None:
    ids = {"kws": "kws01", "ic": "ic01", "sww": "strww01"}
    assert (row["model"], row["id"], row["samples"]) == (key, ids[key], SAMPLES)
    assert (row["metric"], row["accuracy"]) == ("top1", RIGHT / SAMPLES)
    assert row["modelled_ms"] > 0
    assert (row["measured_ms"] is not None) == is_timed
    assert (row["instructions"] is None) == is_timed


def test_emulated(suite: Suite) -> None:
    rows = suite.run("--model", "kws", "--model", "ic", "--model", "sww")
    for key in ("kws", "ic", "sww"):
        check(rows[key], key, is_timed=False)
    assert rows["kws"]["published_ms"] == {"somebody": 12.5}


def test_pool_of_emulators(suite: Suite, tmp_path: Path) -> None:
    pool = tmp_path / "pool.toml"
    pool.write_text('[[device]]\nengine = "qemu"\ncount = 2\n')
    rows = suite.run("--model", "kws", "--model", "sww", "--pool", str(pool))
    check(rows["kws"], "kws", is_timed=False)
    check(rows["sww"], "sww", is_timed=False)
    assert rows["kws"]["engine"] == "qemu x 2"


def test_models_are_measured_on_a_pool(suite: Suite, tmp_path: Path) -> None:
    """Without the suite: a worker measures whole models, with the figures of a single worker."""
    pool = tmp_path / "pool.toml"
    pool.write_text('[[device]]\nengine = "core"\ncount = 2\n')
    found = []
    for where in ((), ("--pool", str(pool))):
        command = [sys.executable, "-m", "edgec", "bench", "--json", "--board", BOARD,
                   "--model", "kws", "--model", "sww",
                   "--baselines", str(suite.folder / "baselines.json"), *where]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        rows = json.loads(done.stdout)["rows"]
        found.append([(row["model"], row["instructions"], row["flash_bytes"]) for row in rows])
    assert found[0] == found[1]
    assert [row[0] for row in found[0]] == ["kws", "sww"] and all(row[1] for row in found[0])


def test_board_at_a_port(suite: Suite, ports: dict[str, str]) -> None:
    """Twice: whatever an earlier host left behind, and without saying which model it holds."""
    for arguments in ((), ("--model", "kws")):
        rows = suite.run("--port", ports["left"], *arguments)
        assert list(rows) == ["kws"]
        check(rows["kws"], "kws", is_timed=True)


def test_pool_of_boards(suite: Suite, ports: dict[str, str], tmp_path: Path) -> None:
    """Each board works for the model that it holds; one is not there."""
    pool = tmp_path / "pool.toml"
    pool.write_text(
        "".join(
            f'[[device]]\nname = "{name}"\nport = "{port}"\n'
            for name, port in {**ports, "absent": str(tmp_path / "absent")}.items()
        )
    )
    rows = suite.run("--pool", str(pool))
    assert list(rows) == ["kws", "ic"]
    check(rows["kws"], "kws", is_timed=True)
    check(rows["ic"], "ic", is_timed=True)
    said = suite.run("--pool", str(pool), "--model", "sww", status=1)
    assert "no device holds the model strww01" in said and "other holds ic01" in said


def test_other_programs_are_named(suite: Suite, ports: dict[str, str], tmp_path: Path) -> None:
    said = suite.run("--port", ports["other"], "--model", "kws", status=1)
    assert "no device holds the model kws01" in said and "ic01" in said
    assert "--port are for a --suite" in subprocess.run(
        [sys.executable, "-m", "edgec", "bench", "--port", ports["other"]],
        capture_output=True, text=True, check=False,
    ).stderr  # fmt: skip
    (tmp_path / "text").write_text("no port")
    assert "it is not a serial port" in suite.run("--port", str(tmp_path / "text"), status=1)
