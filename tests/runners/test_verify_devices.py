"""`verify` on devices: a board behind a port, flashed for each build, and pools of emulators."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgec.boards.board import load_board
from edgec.deploy.project import Built
from edgec.errors import RunFailed
from edgec.link.errors import WrongModel
from edgec.options import Options
from edgec.oracle.verify import Runner, verify_model
from edgec.pipeline import compile_model
from edgec.runners.qemu import QemuProcess

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.onnx"
BOARD = "mps2_an386"

pytestmark = [
    pytest.mark.usefixtures("qemu"),
    pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are POSIX only"),
]


class Bench:
    """A "board" at a port: an emulator that holds what was flashed last, until the next.

    The port is a link to the emulator's pseudo-terminal, as the links that systems make for USB.
    """

    def __init__(self, folder: Path) -> None:
        self._link = folder / "port"
        self.port = str(self._link)
        self.flashed: list[str] = []
        self._process: QemuProcess | None = None

    def flash(self, built: Built) -> None:
        self.close()
        assert built.traced is not None
        self._process = QemuProcess(load_board(BOARD), built.traced, uart="pty")
        assert self._process.transport is not None
        self._link.unlink(missing_ok=True)
        self._link.symlink_to(self._process.transport.name)
        self._process.transport.close()
        self.flashed.append(built.project.name)

    def close(self) -> None:
        if self._process is not None:
            self._process.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    one = Bench(tmp_path)
    yield one
    one.close()


@pytest.fixture
def cases(images: list[np.ndarray]) -> list[list[np.ndarray]]:
    return [[image] for image in images[:1]]


def test_every_layer_of_a_board(bench: Bench, cases: list, tmp_path: Path) -> None:
    result = verify_model(
        DIGITS, load_board(BOARD), Options(), Runner("serial", bench.port, bench.flash), cases,
        tmp_path, layers=True,
    )  # fmt: skip
    simulated = verify_model(
        DIGITS, load_board(BOARD), Options(), "core", cases, tmp_path / "core", layers=True
    )
    assert result.mismatches == 0
    assert [row.tensor for row in result.layers] == [row.tensor for row in simulated.layers]
    assert result.uncovered == simulated.uncovered
    assert bench.flashed == ["fused", "unfused"]
    assert len(result.layers) > 5


def test_without_flashing_the_board_holds_one_build(
    bench: Bench, cases: list, tmp_path: Path
) -> None:
    """What the flashed build shows is compared; the rest is named, not taken from another build."""
    from edgec.deploy.project import deploy

    board = load_board(BOARD)
    compiled = compile_model(DIGITS, board.core, Options(), board_name=board.name)
    bench.flash(deploy(compiled, board, tmp_path / "flashed", traced=True))
    result = verify_model(
        DIGITS, board, Options(), Runner("serial", bench.port), cases, tmp_path, layers=True
    )
    assert result.mismatches == 0 and result.layers and result.uncovered
    # A build of the same model with another schedule has the same interface: told apart too.
    with pytest.raises(WrongModel, match="another build of 'digits_int8'"):
        verify_model(
            DIGITS,
            board,
            Options(unfused=True),
            Runner("serial", bench.port),
            cases,
            tmp_path / "b",
        )


def test_a_device_that_computes_something_else_is_named(
    bench: Bench, cases: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One changed weight in flash: the first layer and element that differ are named."""

    def flash_changed(built: Built) -> None:
        from edgec.build.elf import read_elf

        assert built.traced is not None
        weights = read_elf(built.traced).section(".ec_weights")
        assert weights is not None
        data = bytearray(built.traced.read_bytes())
        at = data.find(weights.content[:64])
        data[at + 3] ^= 0x7F
        built.traced.write_bytes(bytes(data))
        bench.flash(built)

    result = verify_model(
        DIGITS, load_board(BOARD), Options(), Runner("serial", bench.port, flash_changed), cases,
        tmp_path, layers=True,
    )  # fmt: skip
    first = result.to_dict()["first_difference"]
    assert result.mismatches > 0 and first is not None
    assert first["operator"] and first["expected"] != first["found"]


def test_pool_of_emulators(tmp_path: Path) -> None:
    pool = tmp_path / "pool.toml"
    pool.write_text('[[device]]\nengine = "qemu"\ncount = 2\n')
    command = [sys.executable, "-m", "edgec", "verify", str(DIGITS), "--board", BOARD,
               "--pool", str(pool), "--random", "5", "--json"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["engine"], report["cases"], report["mismatches"]) == ("qemu x 2", 5, 0)


def test_runs_on_a_pool_are_those_of_one_device(tmp_path: Path) -> None:
    pool = tmp_path / "pool.toml"
    pool.write_text('[[device]]\nengine = "qemu"\n[[device]]\nengine = "core"\n')
    hashes = set()
    for where in (["--pool", str(pool)], ["--engine", "core"]):
        command = [sys.executable, "-m", "edgec", "run", str(DIGITS), "--board", BOARD,
                   "--steps", "4", *where, "--json"]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        hashes.add(json.loads(done.stdout)["output_fnv1a"])
    assert len(hashes) == 1


def test_nobody_answers(cases: list, tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="cannot open the serial port"):
        from edgec.runners.pool import Device, Pool

        with Pool([Device("gone", "serial", str(tmp_path / "none"))]) as pool:
            runner = Runner("serial", pool=pool)
            verify_model(DIGITS, load_board(BOARD), Options(), runner, cases, tmp_path)
