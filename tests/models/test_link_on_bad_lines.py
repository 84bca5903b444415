"""Keyword spotting over a line on which one byte in a hundred is lost, doubled or changed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from built_models import MODELS, build

from edgec.link.client import LinkClient
from edgec.link.commands import Kind
from edgec.runners.oracle import open_oracle
from edgec.runners.qemu import QemuProcess
from edgec.target.board import load_board

sys.path.insert(0, str(Path(__file__).parents[1] / "link"))
from link_devices import BadLine

SHARE = 0.01
INPUTS = 25


def run_on_bad_line(model: Path, data: Path, board: str, runs: int) -> dict[str, int]:
    """Run real samples over a bad line, each against the model's framework; returns counts."""
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed (Debian package qemu-system-arm)")
    samples = np.load(data / "mlperf_kws01_dev500_int8.npz")
    x = next(samples[name] for name in samples.files if samples[name].ndim > 2)[:INPUTS]
    oracle = open_oracle(model)
    expected = [oracle.run([sample[np.newaxis]]).outputs[0].tobytes() for sample in x]
    assert len(set(expected)) > INPUTS / 2  # or an old answer could pass for a new one
    _, built = build(model, board)
    assert built.artefact is not None
    with QemuProcess(load_board(board), built.artefact) as process:
        assert process.transport is not None
        line = BadLine(process.transport, SHARE, 5)
        client = LinkClient(line, patience_s=60.0)
        client.hello(20.0)
        for number in range(runs):
            client.write_input(0, x[number % INPUTS].tobytes())
            assert client.run().status == 0
            found = client.read(Kind.OUTPUT, 0, built.manifest.outputs[0].bytes)
            assert found == expected[number % INPUTS], f"run {number}"
        counts = {"faults": line.faults, **vars(client.counts)}
    # Every run moves over 600 bytes, so that thousands of bytes were bad.
    assert counts["faults"] > 4 * runs
    assert counts["repeated"] > runs
    return counts


@pytest.mark.parametrize("board", ["netduinoplus2", "mps2_an386"])
def test_every_output_is_right(
    board: str, shared_dir: Path, sample_model: Callable[[str], Path]
) -> None:
    run_on_bad_line(sample_model(MODELS["kws"]), shared_dir / "data", board, 40)


@pytest.mark.full
@pytest.mark.parametrize("board", ["netduinoplus2", "mps2_an386"])
def test_every_output_is_right_a_thousand_times(
    board: str, shared_dir: Path, sample_model: Callable[[str], Path]
) -> None:
    print(run_on_bad_line(sample_model(MODELS["kws"]), shared_dir / "data", board, 1000))
