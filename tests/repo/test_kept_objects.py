"""What the tests compile once is what they would compile again."""

from __future__ import annotations

from pathlib import Path

import pytest
from kept_objects import KeptObjects, key_of

from edgec.boards.toolchain import Toolchain, find_toolchain
from edgec.targets.core import host_core

SOURCE = '#include "part.h"\nint f(void);\nint f(void) { return PART; }\n'


@pytest.fixture
def compiler() -> Toolchain:
    return find_toolchain(host_core())


def command_of(
    compiler: Toolchain, folder: Path, text: str = SOURCE, part: int = 1, *flags: str
) -> list[str]:
    """A command that compiles a C file and its header in a folder of their own."""
    folder.mkdir()
    (folder / "a.c").write_text(text)
    (folder / "part.h").write_text(f"#define PART {part}\n")
    how = {"flags": ["-O1", *flags], "include_dirs": [folder]}
    return compiler.compile_command(folder / "a.c", folder / "a.o", **how)


def test_a_key_depends_on_all_that_an_object_does(compiler: Toolchain, tmp_path: Path) -> None:
    def key(name: str, text: str = SOURCE, part: int = 1, *flags: str) -> str | None:
        return key_of(compiler, command_of(compiler, tmp_path / name, text, part, *flags))

    first = key("first")
    assert first is not None and key("elsewhere") == first
    others = [key("text", SOURCE + "\n"), key("header", SOURCE, 2), key("flag", SOURCE, 1, "-DX")]
    assert len({first, *others}) == 4 and None not in others
    # Objects with debug data name their folder, and what a macro includes is not known.
    assert key("debug", SOURCE, 1, "-g") is None
    assert key("macro", "#define P <stddef.h>\n#include P\n" + SOURCE) is None
    # What every emitted file begins with.
    config = "#ifdef EC_CONFIG_FILE\n#include EC_CONFIG_FILE\n#endif\n" + SOURCE
    assert key("config", config) is not None
    assert key("given", config, 1, '-DEC_CONFIG_FILE="a.h"') is None


def test_kept_objects_are_the_compilers(compiler: Toolchain, tmp_path: Path) -> None:
    kept, folder = KeptObjects(tmp_path / "kept"), tmp_path / "one"
    (tmp_path / "kept").mkdir()
    command = command_of(compiler, folder)
    assert kept.run(compiler, command, folder).returncode == 0
    made = (folder / "a.o").read_bytes()
    assert len(list((tmp_path / "kept").iterdir())) == 1
    again = command_of(compiler, tmp_path / "two")
    assert kept.run(compiler, again, tmp_path / "two").returncode == 0
    assert (tmp_path / "two" / "a.o").read_bytes() == made
    wrong = command_of(compiler, tmp_path / "three", "int f(void) { return x; }\n")
    done = kept.run(compiler, wrong, tmp_path / "three")
    assert done.returncode and "error" in done.stderr
    assert len(list((tmp_path / "kept").iterdir())) == 1
