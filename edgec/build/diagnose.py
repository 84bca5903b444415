"""Turn the output of compilers and linkers into one clear BuildFailed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from edgec.boards.board import Board
from edgec.build.elf_symbols import LOCAL, elf_symbols
from edgec.errors import BuildFailed, DoesNotFit

_ERROR = re.compile(r"(?:^|[ :])(?:fatal )?error: ", re.IGNORECASE)
_OVERFLOW = (
    re.compile(r"region [`'](?P<region>\w+)' overflowed by (?P<bytes>\d+) bytes"),
    re.compile(r"will not fit in region '(?P<region>\w+)': overflowed by (?P<bytes>\d+) bytes"),
)
_UNDEFINED = (
    re.compile(r"undefined reference to [`'](?P<name>[\w.$]+)'"),
    re.compile(r"undefined symbol: (?P<name>[\w.$]+)"),
)
MAX_LINES = 8
"""At most this many lines of a compiler's output are shown."""


def explain_compiler(source: Path, output: str) -> BuildFailed:
    """Return the error for a source file that did not compile: its first messages."""
    lines = [line.rstrip() for line in output.splitlines() if _ERROR.search(line)]
    if not lines:
        lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    more = len(lines) - MAX_LINES
    details = lines[:MAX_LINES] + ([f"and {more} more"] if more > 0 else [])
    return BuildFailed(
        f"the C compiler refused {source.name}",
        details=tuple(details),
        hint=f"the file is {source}",
    )


def find_overflows(output: str) -> dict[str, int]:
    """Return by how many bytes each memory region overflowed, from a linker's output."""
    over: dict[str, int] = {}
    for pattern in _OVERFLOW:
        for match in pattern.finditer(output):
            name = match["region"]
            over[name] = max(over.get(name, 0), int(match["bytes"]))
    return over


def explain_linker(output: str, board: Board, objects: list[Path]) -> BuildFailed:
    """Return the error for an image that did not link: an overfull region or missing symbols."""
    over = find_overflows(output)
    if over:
        return _explain_overflow(over, board, objects)
    missing: dict[str, None] = {}
    for pattern in _UNDEFINED:
        missing.update({match["name"]: None for match in pattern.finditer(output)})
    if missing:
        return BuildFailed(
            f"nothing in the build defines {', '.join(missing)}",
            hint="firmware has no libc: only memcpy, memmove, memset and memcmp are there",
        )
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    return BuildFailed("the linker refused the program", details=tuple(lines[:MAX_LINES]))


def _explain_overflow(over: dict[str, int], board: Board, objects: list[Path]) -> DoesNotFit:
    details = []
    kinds = set()
    for name, excess in over.items():
        region = board.memory[name]
        kinds.add(region.kind)
        details.append(
            f"{name}: {region.length + excess} bytes are needed, the board has {region.length}"
        )
        biggest = biggest_symbols(objects, region.kind)
        if name == board.data:
            biggest = [*biggest, ("(stack)", board.stack_bytes)]
            biggest.sort(key=lambda item: -item[1])
        details += [f"  {size:>8} {symbol}" for symbol, size in biggest]
    hints = []
    if "flash" in kinds:
        hints.append("build with --optimize size, or shrink the model's weights")
    if "ram" in kinds:
        hints.append("build with --io rows, --io caller or --optimize ram, or reserve less stack")
    names = ", ".join(f"{name} by {excess} bytes" for name, excess in over.items())
    error = DoesNotFit(
        f"the program does not fit {board.name}: it exceeds {names}",
        details=tuple(details),
        hint="; ".join([*hints, "or choose a board with more memory"]),
    )
    error.over = over
    return error


def biggest_symbols(objects: list[Path], kind: str, count: int = 5) -> list[tuple[str, int]]:
    """Return (name, bytes) of the largest symbols of object files that go to flash or to ram."""
    from elftools.elf.elffile import ELFFile

    found: list[tuple[str, int]] = []
    for path in objects:
        with path.open("rb") as stream:
            elf = ELFFile(stream)
            table: Any = elf.get_section_by_name(".symtab")
            for symbol in table.iter_symbols() if table is not None else ():
                index = symbol["st_shndx"]
                if not isinstance(index, int) or not symbol.name or symbol["st_size"] == 0:
                    continue
                home = elf.get_section(index)
                is_arena = home.name.startswith(".ec_arena")
                is_ram = is_arena or bool(home.header.sh_flags & 1)  # SHF_WRITE
                if is_ram == (kind == "ram"):
                    found.append((symbol.name, symbol["st_size"]))
    return sorted(found, key=lambda item: (-item[1], item[0]))[:count]


def undefined_names(objects: list[Path]) -> dict[str, str]:
    """Return each undefined name of object files, with one file that uses it."""
    used: dict[str, str] = {}
    defined: set[str] = set()
    for path in objects:
        for symbol in elf_symbols(path.read_bytes()):
            if not symbol.name or symbol.binding == LOCAL:
                continue
            if symbol.section == 0:
                used.setdefault(symbol.name, path.stem)
            else:
                defined.add(symbol.name)
    return {name: file for name, file in used.items() if name not in defined}
