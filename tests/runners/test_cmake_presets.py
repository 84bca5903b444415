"""CMake alone builds a generated project, into the same program as edgec."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgec.boards.board import Board, load_board
from edgec.build.image import measure
from edgec.deploy.project import Built, deploy
from edgec.options import Options
from edgec.oracle.frameworks import open_oracle
from edgec.pipeline import compile_model
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs


def need_tools(board: Board) -> None:
    for program in ("cmake", "make", board.core.gcc_programs[0]):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


def make_preset(project: Path, preset: str) -> Path:
    """Configure and build; returns the folder with the program."""
    for command in (["cmake", "--preset", preset, "-G", "Unix Makefiles"],
                    ["cmake", "--build", "--preset", preset]):  # fmt: skip
        done = subprocess.run(
            command, cwd=project, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return project / f"build-{preset}"


@pytest.mark.usefixtures("qemu")
def test_debug_preset_of_a_model_with_assembly(
    sample_model: Callable[[str], Path], tmp_path: Path
) -> None:
    """-Og aligns no functions, which the kernels' computed jumps must not mind."""
    board = load_board("mps2_an386")
    need_tools(board)
    model = sample_model("mlperf_kws_dscnn_int8.tflite")
    compiled = compile_model(model, board.core, Options(), board=board)
    built = deploy(compiled, board, tmp_path / "project")
    elf = make_preset(built.project, "debug") / "mlperf_kws_dscnn_int8_firmware.elf"
    inputs = generate_inputs(1, [(v.type.shape, v.type.dtype) for v in compiled.module.main.inputs])
    with open_session("qemu", replace(built, artefact=elf)) as session:
        (found,) = session.run(inputs).outputs
    assert np.array_equal(found, open_oracle(model).run(inputs).outputs[0])


@pytest.mark.usefixtures("qemu")
@pytest.mark.parametrize("board", ["mps2_an386", "qemu_riscv32"])
def test_presets(
    digits: Callable[..., Built], images: list[np.ndarray], tmp_path: Path, board: str
) -> None:
    need_tools(load_board(board))
    built = digits(board)
    project = tmp_path / "project"
    shutil.copytree(built.project, project)
    elfs = {}
    for preset in ("release", "debug"):
        elfs[preset] = make_preset(project, preset) / "digits_int8_firmware.elf"
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
