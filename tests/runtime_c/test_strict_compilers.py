"""The strictest compilers stay silent: clang with every warning it has, and C++ around the header.

clang for a bare Arm target stands for armclang, which is the same compiler with another library;
for bare RISC-V it is what its vendors ship beside GCC.
"""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from operator_models import MODELS

from edgec.boards.board import Board, all_boards
from edgec.boards.board_files import board_header, port_include_dirs, port_sources
from edgec.codegen.manifest import Manifest
from edgec.codegen.project import write_project
from edgec.pipeline import compile_model
from edgec.resources import resource_dir
from edgec.targets.core import find_core

CLANG = "clang"
#: Of -Weverything, what is not wanted, and why.
NOT_WANTED = {
    "declaration-after-statement": "forbids what C99 has and C89 had not",
    "used-but-marked-unused": "helpers that one core calls and another does not are marked unused",
}
#: And in the runtime, which is not emitted.
NOT_WANTED_IN_RUNTIME = {
    **NOT_WANTED,
    "padded": "tells of padding, which is no fault; no structure is sent as it lies in memory",
    "missing-noreturn": "C99 has no word for a function that never returns",
    "reserved-identifier": "names of the linker script and of the run-time ABI, given by others",
    "unused-macros": "values of the serial protocol and registers are listed in full",
}
#: And where kernels of vectors are emitted.
NOT_WANTED_WITH_VECTORS = {
    **NOT_WANTED,
    "unused-macros": "attributes and pieces of assembly come in groups, of which models use some",
}
#: Target triple of each core, as clang without zig spells it.
TRIPLES = {
    "cortex-m0": "armv6m", "cortex-m0plus": "armv6m", "cortex-m3": "armv7m", "cortex-m4": "armv7em",
    "cortex-m4+nofp": "armv7em", "cortex-m7": "armv7em", "cortex-m7+nofp.dp": "armv7em",
    "cortex-m33": "armv8m.main", "cortex-m55": "armv8.1m.main", "rv32imc": "riscv32",
}  # fmt: skip
CORES = ("cortex-m0", "cortex-m4", "cortex-m33", "cortex-m55", "rv32imc")
#: Without it clang for an M55 knows no vectors, and the C beside the assembly is read.
WITH_VECTORS = "--target=thumbv8.1m.main-none-eabihf"


def needs(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed (Debian package {program.replace('++', '')})")
    return found


def strict_command(core_name: str, not_wanted: dict[str, str]) -> list[str]:
    core = find_core(core_name)
    words = ("-mcpu", "-march", "-mabi")
    cpu = [flag.split("+")[0] for flag in core.gcc_flags if flag.startswith(words)]
    fpu = [flag for flag in core.gcc_flags if flag.startswith("-mfpu") and "auto" not in flag]
    return [
        needs(CLANG), f"--target={TRIPLES[core_name]}-none-eabi", *cpu, *fpu,
        "-std=c99", "-ffreestanding", "-fsyntax-only", "-Weverything", "-Werror",
        *(f"-Wno-{word}" for word in not_wanted),
    ]  # fmt: skip


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]


@cache
def emitted(core: str, folder: Path) -> tuple[Path, ...]:
    """Project folders of every operator family, compiled for a core."""
    projects = []
    for name, write in MODELS.items():
        project = folder / core / name
        project.mkdir(parents=True)
        write_project(compile_model(write(project), find_core(core)).program, project)
        projects.append(project)
    return tuple(projects)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("emitted")


@pytest.mark.parametrize(
    "core",  # an M33's C is the M4's
    [pytest.param(core, marks=[pytest.mark.full] * (core == "cortex-m33")) for core in CORES],
)
def test_emitted_c(core: str, folder: Path) -> None:
    sources = [str(c) for project in emitted(core, folder) for c in sorted(project.glob("*.c"))]
    assert len(sources) == 2 * len(MODELS)
    not_wanted = NOT_WANTED_WITH_VECTORS if core == "cortex-m55" else NOT_WANTED
    run([*strict_command(core, not_wanted), *sources])
    if core == "cortex-m55":
        run([*strict_command(core, not_wanted), WITH_VECTORS, *sources])


@pytest.mark.parametrize("flags", [(), ("-DEC_NO_ASM",)], ids=["assembly", "no-assembly"])
def test_dsp_kernels(tmp_path: Path, flags: tuple[str, ...]) -> None:
    runtime = resource_dir("runtime_c")
    headers = sorted(runtime.glob("kernels/dsp/*.h"))
    assert len(headers) > 5
    text = "".join(f'#include "{header.relative_to(runtime)}"\n' for header in headers)
    (tmp_path / "kernels.c").write_text(text)
    folders = [f"-I{runtime}", f"-I{runtime / 'include'}"]
    command = strict_command("cortex-m4", NOT_WANTED_IN_RUNTIME)
    run([*command, *flags, *folders, str(tmp_path / "kernels.c")])


def embedded() -> list[Board]:
    return [board for board in all_boards() if board.core.name in TRIPLES]


def test_runtime(tmp_path: Path) -> None:
    runtime = resource_dir("runtime_c")
    served = sorted([*runtime.glob("link/*.c"), *runtime.glob("mlperf/*.c")])
    assert len(served) > 1 and len(embedded()) > 10
    for board in embedded():
        include = tmp_path / board.name
        include.mkdir()
        (include / "ec_board.h").write_text(board_header(board))
        folders = [include, runtime / "link", runtime / "mlperf", *port_include_dirs(board)]
        run([
            *strict_command(board.core.name, NOT_WANTED_IN_RUNTIME),
            *(f"-I{path}" for path in folders),
            *(str(path) for path in (*served, *port_sources(board))),
        ])  # fmt: skip


USE = """
#include "NAME.h"
#include "NAME.h"
static UPPER_ARENA(arena);
void *use();
void *use() { return arena; }
"""
CPLUSPLUS = {
    "g++": [
        "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow",
        "-Wold-style-cast", "-Wuseless-cast", "-Wzero-as-null-pointer-constant",
    ],
    "clang++": [
        "-Weverything", "-Wno-c++98-compat", "-Wno-c++98-compat-pedantic",
        "-Wno-missing-prototypes",
    ],
}  # fmt: skip


@pytest.mark.parametrize("standard", ["c++11", "c++17", "c++20"])
@pytest.mark.parametrize("compiler", CPLUSPLUS)
def test_headers_in_cplusplus(compiler: str, standard: str, folder: Path) -> None:
    command = [needs(compiler), f"-std={standard}", "-fsyntax-only", "-Werror"]
    for project in emitted("cortex-m4", folder):
        model = Manifest.load(project).model
        text = USE.replace("NAME", model).replace("UPPER", model.upper())
        (project / "use.cpp").write_text(text)
    sources = [str(project / "use.cpp") for project in emitted("cortex-m4", folder)]
    run([*command, *CPLUSPLUS[compiler], *sources])
