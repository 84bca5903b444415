"""Keyword spotting over a line on which one byte in a hundred is lost, doubled or changed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from built_models import DIGITS, MODELS, build

from edgec.boards.board import load_board
from edgec.link.client import LinkClient
from edgec.link.commands import Kind
from edgec.oracle.frameworks import open_oracle
from edgec.runners.qemu import QemuProcess

sys.path.insert(0, str(Path(__file__).parents[1] / "link"))
from link_devices import BadLine

SHARE = 0.01
INPUTS = 25
BOARDS = (pytest.param("netduinoplus2", marks=pytest.mark.full), "mps2_an386")


def run_on_bad_line(model: Path, x: list[np.ndarray], board: str, runs: int) -> dict[str, int]:
    """Run real samples over a bad line, each against the model's framework; returns counts."""
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed (Debian package qemu-system-arm)")
    oracle = open_oracle(model)
    expected = [oracle.run([sample]).outputs[0].tobytes() for sample in x]
    assert len(set(expected)) > len(x) / 2  # or an old answer could pass for a new one
    _, built = build(model, board)
    assert built.artefact is not None
    with QemuProcess(load_board(board), built.artefact) as process:
        assert process.transport is not None
        line = BadLine(process.transport, SHARE, 5)
        client = LinkClient(line, patience_s=60.0)
        client.hello(20.0)
        for number in range(runs):
            client.write_input(0, x[number % len(x)].tobytes())
            assert client.run().status == 0
            found = client.read(Kind.OUTPUT, 0, built.manifest.outputs[0].bytes)
            assert found == expected[number % len(x)], f"run {number}"
        counts = {"faults": line.faults, **vars(client.counts)}
    # Every run moves over 600 bytes, so that thousands of bytes were bad.
    assert counts["faults"] > 4 * runs
    assert counts["repeated"] > runs
    return counts


def keywords(folder: Path) -> list[np.ndarray]:
    samples = np.load(folder / "mlperf_kws01_dev500_int8.npz")
    x = next(samples[name] for name in samples.files if samples[name].ndim > 2)
    return [sample[np.newaxis] for sample in x[:INPUTS]]


def digits() -> list[np.ndarray]:
    data = np.load(DIGITS.parent / "digits_test.npz")
    x = next(data[name] for name in data.files if data[name].ndim > 1)
    return [image[np.newaxis].astype(np.float32) for image in x[:INPUTS]]


@pytest.mark.parametrize("board", BOARDS)
def test_every_output_is_right(
    board: str, shared_dir: Path, sample_model: Callable[[str], Path]
) -> None:
    run_on_bad_line(sample_model(MODELS["kws"]), keywords(shared_dir / "data"), board, 40)


@pytest.mark.full
@pytest.mark.parametrize("board", BOARDS)
def test_every_output_is_right_a_thousand_times(
    board: str, shared_dir: Path, sample_model: Callable[[str], Path]
) -> None:
    model, data = sample_model(MODELS["kws"]), keywords(shared_dir / "data")
    print(run_on_bad_line(model, data, board, 1000))


@pytest.mark.full
@pytest.mark.parametrize("board", BOARDS)
def test_the_example_a_thousand_times(board: str) -> None:
    """The same with the shipped model, whose inputs and outputs are float32."""
    print(run_on_bad_line(DIGITS, digits(), board, 1000))
