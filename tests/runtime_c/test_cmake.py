"""The CMake project of the runtime: an application that links to its targets builds."""

from __future__ import annotations

import shutil
import subprocess
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


def test_an_application_links_to_the_runtime(tmp_path: Path) -> None:
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("cmake is not installed")
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    (tmp_path / "application.c").write_text(APPLICATION)
    build = tmp_path / "build"
    for command in (
        [cmake, "-S", str(tmp_path), "-B", str(build), "-DCMAKE_C_FLAGS=-Werror"],
        [cmake, "--build", str(build)],
        [str(build / "application")],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
