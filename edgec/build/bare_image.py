"""An image of functions for a simulated core: each in a C file of its own, all linked together.

Workers import this and no more of the compiler than they need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from edgec.boards.toolchain import Toolchain
from edgec.errors import BuildFailed

#: How the C file of every function begins.
HEAD = """#include <stddef.h>
#include <stdint.h>

void Reset_Handler(void);
"""
#: Needed once in every image: a start that nobody runs, and the C library's functions that
#: compilers call.
START = (
    HEAD
    + """
void Reset_Handler(void) { for (;;) { } }
void *memcpy(void *to, const void *from, size_t bytes);
void *memcpy(void *to, const void *from, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) { ((volatile char *)to)[i] = ((const char *)from)[i]; }
    return to;
}
void *memmove(void *to, const void *from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes) {
    volatile char *a = to;
    const char *b = from;
    if (a < b) { for (size_t i = 0; i < bytes; ++i) { a[i] = b[i]; } }
    else { for (size_t i = bytes; i > 0; --i) { a[i - 1] = b[i - 1]; } }
    return to;
}
void *memset(void *to, int value, size_t bytes);
void *memset(void *to, int value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) { ((volatile char *)to)[i] = (char)value; }
    return to;
}
void __aeabi_memcpy(void *to, const void *from, size_t bytes);
void __aeabi_memcpy(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
void __aeabi_memcpy4(void *to, const void *from, size_t bytes);
void __aeabi_memcpy4(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
void __aeabi_memclr4(void *to, size_t bytes);
void __aeabi_memclr4(void *to, size_t bytes) { memset(to, 0, bytes); }
"""
)
SCRIPT = """
ENTRY(Reset_Handler)
SECTIONS {
  . = 0; .text : { KEEP(*(.text*)) *(.rodata*) *(.srodata*) }
  . = 0x20000000; .data : { *(.data*) *(.sdata*) *(.bss*) *(.sbss*) }
  . = 0x30000000; .room : { *(COMMON) }
  __stack_limit = 0x20010000; __stack_top = 0x20020000;
  /DISCARD/ : { *(.comment) *(.ARM.attributes) *(.ARM.exidx*) *(.ARM.extab*) *(.stack_sizes) }
}
"""


def build_image(
    folder: Path,
    toolchain: Toolchain,
    level: str,
    texts: Sequence[str],
    start: str = START,
    files: Mapping[str, str] | None = None,
) -> Path:
    """Compile and link C files; returns the ELF. files: more of them, and headers, by name.

    Raises BuildFailed.
    """
    named = {f"part{number}.c": text for number, text in enumerate((start, *texts))}
    every = {folder / name: text for name, text in {**(files or {}), **named}.items()}
    for path, text in every.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    sources = [path for path in every if path.suffix in (".c", ".S")]
    objects = [source.with_suffix(".o") for source in sources]
    how: dict[str, Any] = {"flags": (level,), "include_dirs": [folder]}
    for source, target in zip(sources, objects, strict=True):
        _run(toolchain, toolchain.compile_command(source, target, **how), folder)
    (folder / "link.ld").write_text(SCRIPT, encoding="ascii")
    elf = folder / "image.elf"
    # Nothing calls the functions: the script keeps them.
    _run(toolchain, toolchain.link_command(objects, folder / "link.ld", elf), folder)
    return elf


def code_bytes(folder: Path, number: int) -> int:
    """Bytes of all code of a C file that `build_image` compiled into a folder, counted from 0."""
    with (folder / f"part{number + 1}.o").open("rb") as stream:
        sections = list(ELFFile(stream).iter_sections())
    executable = SH_FLAGS.SHF_EXECINSTR
    return sum(each["sh_size"] for each in sections if each["sh_flags"] & executable)


def _run(toolchain: Toolchain, command: Sequence[str], folder: Path) -> None:
    done = toolchain.run(command, folder)
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        raise BuildFailed(
            "the C compiler refused a function in a file of its own",
            details=tuple(lines[:6]),
            hint="see the C file; if `edgec tune` made it, this is a bug in edgec",
        )
