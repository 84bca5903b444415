"""A generated project builds by itself with CMake, into the program that edgec built."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgec.build.image import measure
from edgec.deploy import Built
from edgec.runners.engine import open_session
from edgec.target.board import load_board


@pytest.mark.usefixtures("qemu")
@pytest.mark.parametrize("board", ["mps2_an386", "qemu_riscv32"])
def test_presets(
    digits: Callable[..., Built], images: list[np.ndarray], tmp_path: Path, board: str
) -> None:
    for program in ("cmake", "make", load_board(board).core.gcc_programs[0]):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    built = digits(board)
    project = tmp_path / "project"
    shutil.copytree(built.project, project)
    elfs = {}
    for preset in ("release", "debug"):
        for command in (["cmake", "--preset", preset, "-G", "Unix Makefiles"],
                        ["cmake", "--build", "--preset", preset]):  # fmt: skip
            done = subprocess.run(
                command, cwd=project, capture_output=True, text=True, timeout=300, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
        elfs[preset] = project / f"build-{preset}" / "digits_int8_firmware.elf"
    assert built.image is not None and built.board is not None and built.artefact is not None
    ours, theirs = built.image, measure(elfs["release"], built.board)
    if b"GCC:" in built.artefact.read_bytes():  # not where edgec took clang
        # The same code in another order; on RISC-V near calls are shorter than far ones.
        allowed = ours.code_bytes // 100 if built.board.core.isa == "rv32" else 0
        assert abs(theirs.code_bytes - ours.code_bytes) <= allowed
        assert theirs.weights_bytes == ours.weights_bytes
    with open_session("qemu", built) as session:
        expected = session.run([images[0]]).outputs[0]
    for elf in elfs.values():
        with open_session("qemu", replace(built, artefact=elf)) as session:
            assert np.array_equal(session.run([images[0]]).outputs[0], expected)
