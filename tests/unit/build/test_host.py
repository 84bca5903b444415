"""Host libraries and programs, with and without sanitizers."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from edgec.boards.toolchain import Toolchain, find_toolchain
from edgec.build.host import build_host_library, build_host_program, library_name
from edgec.errors import BuildFailed, ToolMissing
from edgec.targets.core import find_core, host_core


@pytest.fixture(params=["gcc", "zig"])
def toolchain(request: pytest.FixtureRequest) -> Toolchain:
    try:
        return find_toolchain(host_core(), request.param)
    except ToolMissing as error:
        pytest.skip(error.message)


def test_library_is_called(toolchain: Toolchain, tmp_path: Path) -> None:
    source = tmp_path / "add.c"
    source.write_text("int add(int a, int b);\nint add(int a, int b) { return a + b + ADDEND; }\n")
    library = build_host_library(
        [source], tmp_path / library_name("add"), toolchain=toolchain, defines=["ADDEND=5"]
    )
    assert ctypes.CDLL(str(library)).add(2, 3) == 10


OVERRUN = """
int main(int argc, char **argv);
int main(int argc, char **argv) {
    int data[4] = {1, 2, 3, 4};
    (void)argv;
    return data[argc + 3];
}
"""


def test_sanitizer_stops_an_overrun(toolchain: Toolchain, tmp_path: Path) -> None:
    source = tmp_path / "main.c"
    source.write_text(OVERRUN)
    # zig has the runtime of the undefined-behaviour sanitizer only.
    words = ["undefined"] if toolchain.is_zig else ["address", "undefined"]
    program = build_host_program(
        [source], tmp_path / "main", toolchain=toolchain, sanitize=words, flags=["-O1"]
    )
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "main.c" in done.stderr


def test_refusals(toolchain: Toolchain, tmp_path: Path) -> None:
    source = tmp_path / "main.c"
    source.write_text("int main(void) { return x; }")
    with pytest.raises(BuildFailed, match=r"refused main\.c"):
        build_host_program([source], tmp_path / "main", toolchain=toolchain)
    assert not (tmp_path / "main").exists()
    with pytest.raises(BuildFailed, match="'thread' is not one of"):
        build_host_program([source], tmp_path / "main", toolchain=toolchain, sanitize=["thread"])


def test_wrong_toolchain_is_refused(tmp_path: Path) -> None:
    try:
        toolchain = find_toolchain(find_core("cortex-m4"))
    except ToolMissing as error:
        pytest.skip(error.message)
    with pytest.raises(BuildFailed, match="not for this computer"):
        build_host_library([], tmp_path / "a.so", toolchain=toolchain)
