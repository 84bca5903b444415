"""A package built as a shared library: what it shows, who finds it, and that its ABI stays."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from package_commands import run

from edgec.deploy.project import deploy_library
from edgec.exporters.formats import Labels
from edgec.exporters.library import Library, read_library
from edgec.exporters.package import export
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.targets.core import host_core

LABELS = Labels("1.2.3", "acme", "https://example.org/acme")
#: Sizes and places of the fields of public structs, and status codes, on 64-bit systems. A program
#: keeps running with a newer library of the same major version only while these stay.
ABI = Path(__file__).parent / "abi.txt"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shared libraries of ELF")


def library_of(model: Path, name: str, folder: Path, **more: object) -> Library:
    options = Options(model_name=name, **more)  # type: ignore[arg-type]
    deploy_library(compile_model(model, host_core(), options), folder / name)
    return read_library(folder / name)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory, repo_root: Path) -> Library:
    model = repo_root / "examples" / "digits" / "digits_int8.onnx"
    return library_of(model, "digits", tmp_path_factory.mktemp("projects"))


@pytest.fixture(scope="module")
def installed(digits: Library, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prefix of an installation of the shared library."""
    folder = tmp_path_factory.mktemp("shared")
    export(digits, "cmake", folder / "digits", LABELS)
    run("cmake", "-S", "digits", "-B", "b", "-DBUILD_SHARED_LIBS=ON", cwd=folder)
    run("cmake", "--build", "b", cwd=folder)
    run("cmake", "--install", "b", "--prefix", folder / "prefix", cwd=folder)
    return folder / "prefix"


def test_it_shows_the_public_functions_and_their_version(digits: Library, installed: Path) -> None:
    (library,) = installed.glob("lib*/libdigits.so.1.2.3")
    table = run("nm", "-D", "--defined-only", library, cwd=installed)
    shown = re.findall(r" [A-Z] (\w+)@@(\w+)", table)
    assert len(shown) == len(table.splitlines()) - 1  # and the version itself
    assert shown == [(name, "DIGITS_1") for name in sorted(digits.functions)]
    names = {"init", "input", "output", "run", "reset", "selftest"}
    assert set(digits.functions) == {f"digits_{name}" for name in names}
    assert "libdigits.so.1]" in run("readelf", "-d", library, cwd=installed)


#: The same text in C and in C++.
PROGRAM = """
#include "digits.h"
static DIGITS_ARENA(arena);
int main(void) {
    const digits_memory memory = { arena, sizeof arena };
    digits_context model;
    if (digits_init(&model, &memory) != EC_OK || digits_selftest(&model) != EC_OK) {
        return 1;
    }
    return digits_run(&model, 0, 0) == EC_OK ? 0 : 2;
}
"""


def test_pkg_config_finds_it(installed: Path, tmp_path: Path) -> None:
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    (folder,) = installed.glob("lib*/pkgconfig")
    words = ["env", f"PKG_CONFIG_PATH={folder}", "pkg-config", "digits"]
    assert run(*words, "--modversion", cwd=tmp_path).strip() == "1.2.3"
    found = run(*words, "--cflags", "--libs", cwd=tmp_path).split()
    (tmp_path / "main.c").write_text(PROGRAM)
    run("gcc", "-std=c99", "main.c", *found, f"-Wl,-rpath,{folder.parent}", cwd=tmp_path)
    assert "libdigits.so.1 " in run("ldd", "./a.out", cwd=tmp_path)
    run("./a.out", cwd=tmp_path)


def test_find_package_finds_it_for_cpp(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(application CXX)\n"
        "find_package(digits 1.2 REQUIRED)\nadd_executable(application main.cpp)\n"
        "target_link_libraries(application PRIVATE digits::digits)\n"
    )
    run("cmake", "-B", "b", f"-DCMAKE_PREFIX_PATH={installed}", ".", cwd=tmp_path)
    run("cmake", "--build", "b", cwd=tmp_path)
    assert "libdigits.so.1 " in run("ldd", "b/application", cwd=tmp_path)
    run("b/application", cwd=tmp_path)


def _open_dense(path: Path) -> Path:
    """A dense layer of floats with an open batch."""
    weights = np.ones((6, 8), np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "dense",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 8])],
        [numpy_helper.from_array(weights, "w")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def _prints(header: str) -> list[str]:
    """Lines of C that print what a header's structs and enumerations are in memory."""
    lines = []
    for body, name in re.findall(r"^typedef struct \w+ \{\n(.*?)\n\} (\w+);", header, re.M | re.S):
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        for field in re.findall(r"(\w+)(?:\[\d+\])?;", body):
            lines.append(f'printf("  {field} %zu\\n", offsetof({name}, {field}));')
    for body in re.findall(r"enum \w* ?\{(.*?)\}", header, re.S):
        for value in re.findall(r"^ *(EC_\w+)", body, re.M):
            lines.append(f'printf("{value} %d\\n", (int){value});')
    return lines


@pytest.mark.skipif(sys.maxsize < 1 << 32, reason="the file is of 64-bit systems")
def test_the_abi_is_that_of_the_checked_file(
    digits: Library, sample_model: object, tmp_path: Path
) -> None:
    wake = library_of(sample_model("mww_vad_int8.tflite"), "wake", tmp_path)  # type: ignore[operator]
    sizes = (("x", (range(1, 4), 6)),)
    dense = library_of(_open_dense(tmp_path / "x.onnx"), "dense", tmp_path, input_shapes=sizes)
    headers: dict[str, bytes] = {}
    for library in (digits, wake, dense):
        headers |= library.headers
    for name, data in headers.items():
        (tmp_path / name).write_bytes(data)
    public = ("ec_status.h", "digits.h", "wake.h", "dense.h")
    prints = [line for name in public for line in _prints(headers[name].decode())]
    text = "".join(f'#include "{name}"\n' for name in public)
    text += "#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n" + "\n".join(prints)
    (tmp_path / "main.c").write_text(text + "\nreturn 0;\n}\n")
    run("gcc", "-std=c11", "-I.", "main.c", "-o", "main", cwd=tmp_path)
    assert run("./main", cwd=tmp_path) == ABI.read_text(encoding="ascii")
