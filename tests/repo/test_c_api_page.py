"""docs/c_api.md: its C compiles against a generated model, and it names what headers have.

docs/c_reference.md has all that they declare.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from open_functions import perceptron
from operator_models import MODELS
from repo_files import REPO_ROOT

from edgec.codegen.project import write_project
from edgec.graph.ir import Module
from edgec.options import Options
from edgec.pipeline import compile_model, compile_module
from edgec.targets.core import find_core

PAGE = (REPO_ROOT / "docs" / "c_api.md").read_text("utf-8")
#: Of the page's blocks of C, what stands around them, and how the model was compiled.
AROUND = {
    "recognize(": ("{}", ("kws",), "arena"),
    "SHARED_BYTES": ("{}", ("kws", "vww"), "arena"),
    "camera_line(": (
        "void camera_line(void *to);\nint fed(void);\n"
        "static kws_context model;\nstatic uint8_t line[KWS_INPUT_0_ROW_BYTES];\n"
        "int fed(void) {{\n{}\n    return 0;\n}}\n",
        ("kws",),
        "rows",
    ),
    "kws_set_size(": (
        "static kws_context model;\n"
        "int sized(const void *const *inputs, void *const *outputs);\n"
        "int sized(const void *const *inputs, void *const *outputs) {{\n"
        "    uint32_t rows;\n{}\n    return (int)rows;\n}}\n",
        ("kws",),
        "open",
    ),
    "boxes = kws_output_extent(": (
        "static kws_context model;\nint chosen(void);\n"
        "int chosen(void) {{\n    uint32_t boxes;\n{}\n    return (int)boxes;\n}}\n",
        ("kws",),
        "chosen",
    ),
}
#: Named on the page and made by other builds: with state, and for a board.
ELSEWHERE = {"KWS_STATE", "kws_firmware"}


def blocks() -> list[str]:
    return re.findall(r"^```c\n(.*?)^```", PAGE, re.M | re.S)


def write_models(names: tuple[str, ...], io: str, folder: Path) -> Path:
    """Projects of a small model under these names: int8, with rows to be fed int16, or open."""
    folder.mkdir()
    for name in names:
        if io == "open":
            module = Module({"main": perceptron()}, source=name)
            options = Options(model_name=name)
            write_project(compile_module(module, find_core("cortex-m4"), options).program, folder)
            continue
        known = {"rows": "network_int16", "chosen": "nonzero"}
        model = MODELS[known.get(io, "average_pool")](folder)
        io = "arena" if io == "chosen" else io
        options = Options(model_name=name, io=io)  # type: ignore[arg-type]
        write_project(compile_model(model, find_core("cortex-m4"), options).program, folder)
    return folder


def test_the_code_compiles(tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    assert len(blocks()) == len(AROUND)
    for number, block in enumerate(blocks()):
        around, names, io = next(value for key, value in AROUND.items() if key in block)
        folder = write_models(names, io, tmp_path / str(number))
        code = around.format(block.replace("{ ... }", "{ return -1; }"))
        headers = "".join(f'#include "{name}.h"\n' for name in names)
        (folder / "use.c").write_text(f"#include <string.h>\n{headers}{code}")
        done = subprocess.run(
            ["gcc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
             "-Wno-unused-variable", folder / "use.c"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


def test_what_it_names_exists_and_the_reference_has_it(tmp_path: Path) -> None:
    text, declared = "", set()
    for number, (_, names, io) in enumerate(AROUND.values()):
        folder = write_models(names, io, tmp_path / str(number))
        text += "".join(
            path.read_text() for path in folder.iterdir() if path.suffix in (".c", ".h")
        )
        header = (folder / "kws.h").read_text("utf-8")
        declared |= set(re.findall(r"^#define (KWS_\w+)|\b(kws_\w+)\(", header, re.M))
    # A state is declared by models that have one, the firmware by a board's project.
    named = set(re.findall(r"\b(?:kws|KWS|EC)_\w+", PAGE)) - ELSEWHERE
    assert len(named) > 25
    assert not {name for name in named if name not in text}
    reference = (REPO_ROOT / "docs" / "c_reference.md").read_text("utf-8")
    found = {macro or function for macro, function in declared}
    # Names that come from a model's own: of its inputs, outputs and sizes, by name and number.
    own = re.compile(r"KWS_(INPUT|OUTPUT|SIZE)_|KWS_CAST|kws_(input|output)_\d")
    general = {name for name in found if not own.match(name)}
    assert len(general) > 16
    assert not {
        name for name in general if f"{name}`" not in reference and f"{name}(" not in reference
    }
