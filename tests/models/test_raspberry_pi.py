"""The board raspberry_pi: C for 64-bit Arm gives the reference's bits, under qemu-aarch64."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from built_models import DIGITS
from operator_models import MODELS
from sanitized import assert_reference, cases, run_sanitized, write_sources

from edgec.boards.board import load_board
from edgec.boards.toolchain import find_toolchain
from edgec.build.host import build_host_program
from edgec.deploy.project import deploy
from edgec.errors import RunFailed
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.runners.engine import open_session
from edgec.targets.core import is_this_computer

BOARD = load_board("raspberry_pi")
#: Where Debian's cross compiler has the libraries of that Linux.
SYSROOT = "/usr/aarch64-linux-gnu"
NAMES = (
    "network_qdq", "network_float", "network_int16", "network_dynamic_range", "lstm", "lstm_float",
    "svdf", "softmax_float", "log_softmax_float", "exp", "signal_rfft", "signal_noise",
)  # fmt: skip


def emulator() -> list[str]:
    """The command that runs programs for the board; none on a computer of that kind."""
    if is_this_computer(BOARD.core):
        return []
    if shutil.which("aarch64-linux-gnu-gcc") is None:
        pytest.skip("aarch64-linux-gnu-gcc is not installed (Debian package gcc-aarch64-linux-gnu)")
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("qemu-aarch64 is not installed (Debian package qemu-user)")
    return ["qemu-aarch64", "-L", SYSROOT]


@pytest.mark.parametrize("name", NAMES)
def test_same_bits(name: str, tmp_path: Path) -> None:
    command = emulator()
    compiled = compile_model(MODELS[name](tmp_path), BOARD.core)
    project = tmp_path / "project"
    manifest = write_sources(compiled, project)
    program = build_host_program(
        [project / source for source in (*manifest.sources, "driver.c")], project / "program",
        toolchain=find_toolchain(BOARD.core, "gcc"), include_dirs=[project],
        defines=["_POSIX_C_SOURCE=200809L"],
    )  # fmt: skip
    inputs = cases(manifest.inputs, 1)
    found = run_sanitized(program, manifest, inputs, command)
    assert_reference(compiled, manifest, inputs, found)


def test_a_project_is_built_and_says_where_it_runs(tmp_path: Path) -> None:
    emulator()
    compiled = compile_model(DIGITS, BOARD.core, Options(), board_name=BOARD.name)
    built = deploy(compiled, BOARD, tmp_path / "digits")
    assert built.artefact is not None
    assert built.artefact.read_bytes()[18] == 183  # the ELF's machine is AArch64
    if not is_this_computer(BOARD.core):
        with pytest.raises(RunFailed, match="runs on a computer with 64-bit Arm"):
            open_session("host", built)
