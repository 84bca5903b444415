"""Two exported models in one program: on this computer, and in one image for a Cortex-M4."""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from edgec.codegen.project import render
from edgec.deploy.project import deploy_library
from edgec.exporters.formats import Labels
from edgec.exporters.library import Library, read_library
from edgec.exporters.package import export
from edgec.options import Options
from edgec.oracle.peers import SCRIPT
from edgec.pipeline import compile_model
from edgec.sim.core import CoreSimulator
from edgec.targets.core import find_core

CORE = "cortex-m4"
ARM = ("arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard")
#: A program without start-up code: the simulator calls its function.
BARE = ("-nostartfiles", "--specs=nosys.specs", "-Wl,--gc-sections", "-Wl,-e,run_both")
MAIN = """
#include "first.h"
#include "second.h"
static FIRST_ARENA(first_arena);
static SECOND_ARENA(second_arena);
int run_both(void);
int run_both(void) {
    const first_memory memory1 = { first_arena, sizeof first_arena };
    const second_memory memory2 = { second_arena, sizeof second_arena };
    first_context first;
    second_context second;
    if (first_init(&first, &memory1) != EC_OK || second_init(&second, &memory2) != EC_OK) {
        return 1;
    }
    if (first_selftest(&first) != EC_OK || second_selftest(&second) != EC_OK) {
        return 2;
    }
    return first_run(&first, 0, 0) == EC_OK && second_run(&second, 0, 0) == EC_OK ? 0 : 3;
}
#ifdef HOSTED
int main(void) { return run_both(); }
#endif
"""
HEAD = "cmake_minimum_required(VERSION 3.16)\nproject(application C)\n"
TAIL = """add_executable(application main.c)
target_link_libraries(application PRIVATE first::first second::second)
if(CMAKE_CROSSCOMPILING)
  target_link_options(application PRIVATE BARE)
else()
  target_compile_definitions(application PRIVATE HOSTED)
endif()
"""
HOW = {
    "add_subdirectory": "add_subdirectory(../first first)\nadd_subdirectory(../second second)\n",
    "FetchContent": "include(FetchContent)\n"
    'FetchContent_Declare(first SOURCE_DIR "${CMAKE_SOURCE_DIR}/../first")\n'
    'FetchContent_Declare(second SOURCE_DIR "${CMAKE_SOURCE_DIR}/../second")\n'
    "FetchContent_MakeAvailable(first second)\n",
}


def run(command: Sequence[object], cwd: Path) -> None:
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory, repo_root: Path) -> tuple[Library, Library]:
    """Two models for a Cortex-M4 that use some of the same helpers and kernels."""
    folder, made = tmp_path_factory.mktemp("projects"), []
    for name, file in (("first", "digits_int8.onnx"), ("second", "digits_float.onnx")):
        model = repo_root / "examples" / "digits" / file
        options = Options(model_name=name)
        deploy_library(compile_model(model, find_core(CORE), options), folder / name)
        made.append(read_library(folder / name))
    texts = [library.headers[f"{library.name}_runtime.h"].decode() for library in made]
    helpers = [set(re.findall(r"^EC_HELPER .*\b(ec_\w+)\(", text, re.M)) for text in texts]
    assert helpers[0] & helpers[1], helpers
    return made[0], made[1]


def application(libraries: tuple[Library, Library], how: str, folder: Path, bare: str) -> Path:
    for library in libraries:
        export(library, "cmake", folder / library.name, Labels())
    app = folder / "application"
    app.mkdir()
    (app / "main.c").write_text(MAIN)
    (app / "CMakeLists.txt").write_text(HEAD + HOW[how] + TAIL.replace("BARE", bare))
    return app


@pytest.mark.parametrize("how", HOW)
def test_two_cmake_packages_in_a_program(
    how: str, libraries: tuple[Library, Library], tmp_path: Path
) -> None:
    app = application(libraries, how, tmp_path, "")
    run(["cmake", "-S", app, "-B", "b"], tmp_path)
    run(["cmake", "--build", "b"], tmp_path)
    run([tmp_path / "b" / "application"], tmp_path)


def runs_on_the_core(elf: Path) -> bool:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    with CoreSimulator(elf, CORE) as core:
        return core.call("run_both").value == 0


def needs_compiler() -> None:
    if shutil.which(ARM[0]) is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")


def test_two_cmake_packages_in_an_image(libraries: tuple[Library, Library], tmp_path: Path) -> None:
    """With the toolchain file that every project for a board has."""
    needs_compiler()
    (tmp_path / "link.ld").write_text(SCRIPT)
    file = render("toolchain.cmake.j2", core=CORE, prefix="arm-none-eabi-", processor="arm")
    (tmp_path / "toolchain.cmake").write_text(file)
    bare = " ".join([*ARM[1:], *BARE, "-T", str(tmp_path / "link.ld")])
    app = application(libraries, "add_subdirectory", tmp_path, bare)
    flags = f"-DCMAKE_C_FLAGS={' '.join(ARM[1:])} -O2"
    toolchain = f"-DCMAKE_TOOLCHAIN_FILE={tmp_path / 'toolchain.cmake'}"
    run(["cmake", "-S", app, "-B", "b", toolchain, flags], tmp_path)
    run(["cmake", "--build", "b"], tmp_path)
    assert runs_on_the_core(tmp_path / "b" / "application")


def test_packages_of_two_kinds_in_an_image(
    libraries: tuple[Library, Library], tmp_path: Path
) -> None:
    """As Keil and Zephyr would: every source of a CMSIS-Pack and of a module, in one link."""
    needs_compiler()
    first, second = libraries
    export(first, "cmsis-pack", tmp_path / "pack", Labels())
    with zipfile.ZipFile(next((tmp_path / "pack").glob("*.pack"))) as packed:
        packed.extractall(tmp_path / "first")
    export(second, "zephyr", tmp_path / "second", Labels())
    (tmp_path / "main.c").write_text(MAIN)
    (tmp_path / "link.ld").write_text(SCRIPT)
    sources = [path for name in ("first", "second") for path in (tmp_path / name).glob("src/*.c")]
    assert len(sources) == 4
    run(
        [*ARM, "-std=c99", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror",
         "-ffunction-sections", "-I", "first/include", "-I", "second/include", *sources, "main.c",
         *BARE, "-T", "link.ld", "-o", "both.elf"],
        tmp_path,
    )  # fmt: skip
    assert runs_on_the_core(tmp_path / "both.elf")
