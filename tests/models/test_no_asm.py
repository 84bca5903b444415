"""`--no-asm`: the same bits from C alone, in few enough instructions."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from built_models import DIGITS, MODELS
from goals import BASELINE_CORES, GOALS, missed

from edgec.boards.board import load_board
from edgec.boards.toolchain import available_toolchains
from edgec.deploy.project import deploy, deploy_library
from edgec.loop.microkernel import kernels_of
from edgec.numerics.fixed_point import Rounding
from edgec.options import Compiler, Optimize, Options
from edgec.pipeline import compile_model
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs
from edgec.targets.core import find_core

#: Those that are not nearest to it.
REST = sorted(MODELS.keys() - {"kws"})
#: The same with default options.
REST_BY_DEFAULT = sorted(MODELS.keys() - {"ad", "person_detect"})


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("match", ["tflm", "onnx"])
def test_the_same_bits_without_assembly(
    tmp_path: Path, compiler: Compiler, match: Rounding
) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    board = load_board("mps2_an386")
    if compiler == "gcc" and shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    if compiler == "clang" and not any(t.is_zig for t in available_toolchains(board.core)):
        pytest.skip("ziglang is not installed")
    outputs, instructions = [], []
    for no_asm in (False, True):
        options = Options(compiler=compiler, match=match, optimize="time", no_asm=no_asm)
        compiled = compile_model(DIGITS, board.core, options, board_name=board.name)
        assert any("dsp" in n for v in compiled.chosen for n in kernels_of(v.function))
        built = deploy(compiled, board, tmp_path / str(no_asm))
        text = (built.project / f"{compiled.program.model}_runtime.h").read_text()
        assert ("#define EC_NO_ASM 1" in text) == no_asm
        types = [(p.shape, p.dtype) for p in built.manifest.inputs]
        with open_session("core", built) as session:
            assert session.selftest() == 0
            result = session.run(generate_inputs(1, types))
        outputs.append(result.outputs)
        assert result.instructions is not None
        instructions.append(result.instructions)
    for with_assembly, without in zip(*outputs, strict=True):
        assert np.array_equal(with_assembly, without)
    # Plain loops, without the DSP instructions, take 2.5 times as many.
    assert instructions[1] < 2.25 * instructions[0]


@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m0"])
def test_assembly_is_left_out_at_the_compilers_command_line(tmp_path: Path, core: str) -> None:
    """The C of a normal build, with -DEC_NO_ASM, as its comment promises."""
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    compiled = compile_model(DIGITS, find_core("cortex-m4"), Options(optimize="time"))
    deploy_library(compiled, tmp_path / "library")
    source = tmp_path / "library" / f"{compiled.program.model}.c"
    flags = (f"-mcpu={core}", "-mthumb", "-std=c99", "-O2", "-Wall", "-Wextra", "-Werror")
    command = ["arm-none-eabi-gcc", *flags, "-DEC_NO_ASM", "-c", "-o", tmp_path / "model.o", source]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "optimize"),
    [
        ("kws", "time"),
        ("ad", "balanced"),
        ("person_detect", "balanced"),
        *(pytest.param(name, "time", marks=pytest.mark.full) for name in REST),
        *(pytest.param(name, "balanced", marks=pytest.mark.full) for name in REST_BY_DEFAULT),
    ],
)
def test_instructions_beside_the_baseline(
    tmp_path: Path,
    name: str,
    optimize: Optimize,
    shared_dir: Path,
    sample_model: Callable[[str], Path],
) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    board = load_board("mps2_an386")
    options = Options(compiler="gcc", optimize=optimize, no_asm=True)
    model = sample_model(MODELS[name])
    stated = json.loads((shared_dir / "baselines.json").read_text(encoding="utf-8"))
    compiled = compile_model(model, board.core, options, board_name=board.name)
    built = deploy(compiled, board, tmp_path / name)
    types = [(p.shape, p.dtype) for p in built.manifest.inputs]
    with open_session("core", built) as session:
        assert session.selftest() == 0
        found = session.run(generate_inputs(1, types)).instructions
    theirs = stated["tflm_cmsis_nn"][BASELINE_CORES[board.name]][name]["instructions"]
    assert found is not None
    assert not missed("ratio_without_assembly", name, board.name, found / theirs)


def test_every_model_has_a_goal() -> None:
    assert GOALS["ratio_without_assembly"]["mps2_an386"].keys() == MODELS.keys()


def test_vectors_of_the_m55_are_left_out() -> None:
    options = Options(no_asm=True, optimize="time")
    compiled = compile_model(DIGITS, load_board("mps3_an547").core, options)
    used = {name for variant in compiled.chosen for name in kernels_of(variant.function)}
    assert used and not any("mve" in name for name in used)
