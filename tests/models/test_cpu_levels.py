"""One library for several levels of x86: each processor runs the best that it has, same bits."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from built_models import DIGITS
from onnx import TensorProto, helper, numpy_helper

from edgec.boards.board import load_board
from edgec.deploy.levels import build_levels, find_levels
from edgec.errors import BoardError
from edgec.options import Options
from edgec.pipeline import read_model
from edgec.runners.engine import open_session
from edgec.targets.core import CORES, is_this_computer

NAMES = "x86-64-v2,x86-64-v3,x86-64-v4+vnni"
LEVELS = find_levels(NAMES)
IS_X86 = is_this_computer(CORES["x86-64-v2"])
EC_ERR_CPU = -8
needs_x86 = pytest.mark.skipif(not IS_X86, reason="this computer is no 64-bit x86 with SSE4")


def test_levels_are_of_one_instruction_set_and_the_best_comes_first() -> None:
    assert [core.name for core in LEVELS] == ["x86-64-v4+vnni", "x86-64-v3", "x86-64-v2"]
    for names in ("x86-64-v3,aarch64", "cortex-m4,cortex-m33"):
        with pytest.raises(BoardError, match="not levels of one instruction set"):
            find_levels(names)


PROGRAM = """
#include "digits.h"
#include <stdio.h>
{levels}
int main(void) {{
    static DIGITS_ARENA(arena);
    digits_context context;
    const digits_memory memory = {{arena, sizeof arena}};
    ec_status status = digits_run(NULL, NULL, NULL);
    context.hash = 0u;
    if (status != EC_ERR_NOT_INITIALIZED || digits_reset(&context) != status) {{
        return 99;
    }}
    status = digits_init(&context, &memory);
    if (status != EC_OK) {{
        return -(int)status;
    }}
    const unsigned hashes[] = {{ {hashes} }};
    for (unsigned i = 0; i < sizeof hashes / sizeof hashes[0]; ++i) {{
        if (hashes[i] == context.hash) {{
            printf("level %u", i);
        }}
    }}
    return -(int)digits_selftest(&context);
}}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program on the library as CMake builds it: its init, self-test and level."""
    folder = tmp_path_factory.mktemp("levels")
    module = read_model(DIGITS, Options())
    build_levels(module, LEVELS, None, Options(model_name="digits"), folder / "digits")
    names = [f"digits_{core.name.replace('-', '_').replace('+', '_')}" for core in LEVELS]
    text = PROGRAM.format(
        levels="\n".join(f'#include "{name}.h"' for name in names),
        hashes=", ".join(f"{name.upper()}_SCHEMA_HASH" for name in names),
    )
    (folder / "main.c").write_text(text)
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(levels C)\nadd_subdirectory(digits)\n"
        "add_executable(program main.c)\ntarget_link_libraries(program digits)\n"
    )
    for words in (["-S", ".", "-B", "out"], ["--build", "out"]):
        subprocess.run(["cmake", *words], cwd=folder, check=True, capture_output=True)
    return folder / "out" / "program"


@needs_x86
@pytest.mark.parametrize(("processor", "level"), [("Nehalem", 2), ("max", 1), ("qemu64", None)])
def test_a_processor_runs_the_best_level_that_it_has(
    processor: str, level: int | None, program: Path
) -> None:
    """QEMU 7.2 has AVX2 and no AVX-512; qemu64 has not even SSE4."""
    emulator = shutil.which("qemu-x86_64")
    if emulator is None:
        pytest.skip("qemu-x86_64 is not installed (Debian package qemu-user)")
    done = subprocess.run(
        [emulator, "-cpu", processor, str(program)], capture_output=True, text=True, check=False
    )
    if level is None:
        assert done.returncode == -EC_ERR_CPU
    else:
        assert (done.returncode, done.stdout) == (0, f"level {level}")


@needs_x86
def test_this_computer_runs_its_best_level(program: Path) -> None:
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    best = next(i for i, core in enumerate(LEVELS) if is_this_computer(core))
    assert done.stdout == f"level {best}"


@needs_x86
def test_sizes_and_outputs_are_those_of_one_level(tmp_path: Path) -> None:
    board = load_board("host")
    options = Options(input_shapes=(("x", (range(1, 4), 6)),), float_sums="ordered")
    module = read_model(_open_dense(tmp_path / "open.onnx"), options)
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    outputs = []
    for number, cores in enumerate((LEVELS, LEVELS[-1:])):
        built = build_levels(module, cores, board, options, tmp_path / str(number))[1]
        with open_session("host", built) as session:
            outputs.append(session.run([x]).outputs[0])
    assert outputs[0].shape == (2, 8)
    assert outputs[0].tobytes() == outputs[1].tobytes()


def _open_dense(path: Path) -> Path:
    """A dense layer of floats with an open batch."""
    weights = np.random.default_rng(1).normal(size=(6, 8)).astype(np.float32)
    float_ = TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "dense",
        [helper.make_tensor_value_info("x", float_, ["N", 6])],
        [helper.make_tensor_value_info("y", float_, ["N", 8])],
        [numpy_helper.from_array(weights, "w")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path
