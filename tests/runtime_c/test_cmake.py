"""The CMake project of the runtime: an application that links to its targets builds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

APPLICATION = """
#include "ec_link.h"
#include "ec_port.h"
#include "ec_status.h"

void ec_port_init(void) {}
void ec_port_putc(uint8_t byte) { (void)byte; }
int32_t ec_port_getc(void) { return -1; }
uint32_t ec_port_rx_lost(void) { return 0u; }
uint64_t ec_port_ticks(void) { return 0u; }
uint32_t ec_port_ticks_hz(void) { return 1u; }
void ec_port_idle(void) {}
void ec_port_reset(void) {}
uint32_t ec_port_stack_high_water(void) { return 0u; }
uint32_t ec_port_stack_size(void) { return 0u; }

int main(void) {
    static const ec_link_model model = { .name = "none", .board = "host", .version = "0" };
    ec_link_poll(&model);
    return EC_OK;
}
"""

PROJECT = f"""
cmake_minimum_required(VERSION 3.13)
project(application C)
add_subdirectory("{ROOT.as_posix()}" edgec)
add_executable(application application.c)
target_link_libraries(application edgec::link edgec::headers)
"""


def run_cmake(*commands: list[str]) -> str:
    """Run the commands with the `edgec` of these tests on PATH; what the last one printed."""
    scripts = Path(sys.executable).parent
    path = os.pathsep.join([str(scripts), os.environ.get("PATH", "")])
    output = ""
    for command in commands:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, check=False,
            env={**os.environ, "PATH": path},
        )  # fmt: skip
        output = done.stdout + done.stderr
        assert done.returncode == 0, output
    return output


@pytest.fixture
def cmake() -> str:
    program = shutil.which("cmake")
    if program is None:
        pytest.skip("cmake is not installed")
    return program


def test_an_application_links_to_the_runtime(cmake: str, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    (tmp_path / "application.c").write_text(APPLICATION)
    build = tmp_path / "build"
    run_cmake(
        [cmake, "-S", str(tmp_path), "-B", str(build), "-DCMAKE_C_FLAGS=-Werror"],
        [cmake, "--build", str(build)],
        [str(build / "application")],
    )


def test_the_runtime_passes_its_own_tests(cmake: str, tmp_path: Path) -> None:
    build = str(tmp_path / "build")
    run_cmake(
        [cmake, "-S", str(ROOT), "-B", build, "-DCMAKE_C_FLAGS=-Werror"],
        [cmake, "--build", build],
    )
    text = run_cmake([str(Path(cmake).with_name("ctest")), "--test-dir", build, "-V"])
    assert "fixed point: good" in text and "link: good" in text


def test_the_example_application_builds_its_model(cmake: str, tmp_path: Path) -> None:
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("there is no C++ compiler")
    build = tmp_path / "build"
    example = ROOT / "examples" / "cmake"
    made = ["--build", str(build)]
    run_cmake([cmake, "-S", str(example), "-B", str(build)], [cmake, *made])
    assert run_cmake([str(build / "application")]) == "it is a 7\n"
    assert "Compiling" not in run_cmake([cmake, *made])  # nothing changed


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("edgec_add_model(m MODEL m.onnx)", "either BOARD or TARGET"),
        ("edgec_add_model(m TARGET host)", "MODEL is missing"),
        ("edgec_add_model(m MODEL m.onnx BOARD stm33)", "there is no board 'stm33'"),
        ("edgec_add_model(m MODEL m.onnx TARGET host FAST)", "what is 'FAST'"),
    ],
)
def test_wrong_calls_are_said(cmake: str, tmp_path: Path, call: str, message: str) -> None:
    include = f'include("{(ROOT / "cmake" / "edgec.cmake").as_posix()}")'
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.13)\nproject(p C)\n{include}\n{call}\n"
    )
    with pytest.raises(AssertionError, match=message):
        run_cmake([cmake, "-S", str(tmp_path), "-B", str(tmp_path / "build")])


def test_a_board_gives_the_core(cmake: str, tmp_path: Path) -> None:
    include = f'include("{(ROOT / "cmake" / "edgec.cmake").as_posix()}")'
    model = (ROOT / "examples" / "digits" / "digits_int8.onnx").as_posix()
    call = f'edgec_add_model(digits MODEL "{model}" BOARD bbc_microbit OPTIONS --optimize ram)'
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.13)\nproject(p C)\n{include}\n{call}\n"
    )
    build = tmp_path / "build"
    run_cmake([cmake, "-S", str(tmp_path), "-B", str(build)], [cmake, "--build", str(build)])
    header = (build / "edgec" / "digits" / "digits.h").read_text()
    assert "cortex-m0" in header


def test_find_package(cmake: str, tmp_path: Path) -> None:
    model = (ROOT / "examples" / "digits" / "digits_int8.onnx").as_posix()
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(p C)\nfind_package(edgec REQUIRED)\n"
        f'edgec_add_model(digits MODEL "{model}" TARGET host)\n'
    )
    build = str(tmp_path / "build")
    folder = run_cmake([str(Path(sys.executable).with_name("edgec")), "cmake-dir"]).strip()
    run_cmake([cmake, "-S", str(tmp_path), "-B", build, f"-Dedgec_DIR={folder}"])
    assert run_cmake([cmake, "--build", build, "--target", "help"]).count("digits") > 0
