"""Symbols read at once are those that pyelftools reads one by one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from edgec.build.elf_symbols import SPECIAL_SECTIONS, ElfSymbol, elf_symbols

SOURCE = """
extern int far_away(int);
static int near(int x) { return far_away(x) + 1; }
int (*const table[2])(int) = { near, far_away };
int zeros[7];
__attribute__((weak)) int answer(int x) { return near(x) * x; }
"""
TYPES = ("STT_NOTYPE", "STT_OBJECT", "STT_FUNC", "STT_SECTION", "STT_FILE")
BINDINGS = ("STB_LOCAL", "STB_GLOBAL", "STB_WEAK")


def object_of(compiler: str, flags: tuple[str, ...], folder: Path) -> Path:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    (folder / "a.c").write_text(SOURCE)
    command = [compiler, *flags, "-ffunction-sections", "-c", "a.c", "-o", "a.o"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "a.o"


def by_pyelftools(path: Path) -> list[ElfSymbol]:
    found = []
    with path.open("rb") as stream:
        for s in ELFFile(stream).get_section_by_name(".symtab").iter_symbols():
            kind, binding = TYPES.index(s["st_info"]["type"]), BINDINGS.index(s["st_info"]["bind"])
            at = s["st_shndx"]
            section = {"SHN_UNDEF": 0}.get(at, SPECIAL_SECTIONS) if isinstance(at, str) else at
            found.append(ElfSymbol(s.name, s["st_value"], s["st_size"], kind, binding, section))
    return found


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [
        ("arm-none-eabi-gcc", ("-mcpu=cortex-m4", "-mthumb")),
        ("clang", ("--target=riscv32-unknown-elf", "-march=rv32imc")),
        ("gcc", ()),  # of 64 bits
        ("clang", ("--target=mips-unknown-elf",)),  # the most significant byte first
    ],
    ids=["arm", "riscv32", "host", "mips"],
)
def test_symbols_are_those_of_pyelftools(
    compiler: str, flags: tuple[str, ...], tmp_path: Path
) -> None:
    path = object_of(compiler, flags, tmp_path)
    found = [
        s._replace(section=min(s.section, SPECIAL_SECTIONS)) for s in elf_symbols(path.read_bytes())
    ]
    wanted = by_pyelftools(path)
    # Some versions of pyelftools give a section's symbol the name of the section.
    assert [s._replace(name="") if s.kind == 3 else s for s in found] == [
        s._replace(name="") if s.kind == 3 else s for s in wanted
    ]
    assert {"far_away", "near", "table", "zeros", "answer"} <= {s.name for s in found}


def test_what_is_cut_or_damaged_is_refused(tmp_path: Path) -> None:
    data = object_of("gcc", (), tmp_path).read_bytes()
    for damaged in (b"", data[:40], data[:-64], data[:4] + b"\7" + data[5:]):
        with pytest.raises(ValueError, match="table of symbols is damaged"):
            list(elf_symbols(damaged))
