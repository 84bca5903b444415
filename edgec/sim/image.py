"""The simulator's view of a firmware ELF: segments, code, symbols, and RAM.

Segments are placed at their virtual address, so that initialised data is in RAM without running
the reset handler, and `.bss` is zero.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.build.elf_symbols import FUNCTION, LOCAL, SPECIAL_SECTIONS, elf_symbols
from edgec.errors import RunFailed
from edgec.sim.thumb import Located, sweep

#: Unicorn's page by instruction set; also what makes a neighbour of a region inaccessible.
PAGE_BYTES = {"thumb": 1024, "rv32": 4096}
_INSTRUCTION_SETS = {"EM_ARM": "thumb", "EM_RISCV": "rv32"}
DEFAULT_STACK_BYTES = 64 * 1024
STACK_TOP_SYMBOLS = ("__stack_top", "__StackTop", "_estack", "__stack")
STACK_LIMIT_SYMBOLS = ("__stack_limit", "__StackLimit", "_sstack")
# Private memory of the simulator goes here; no Cortex-M part has code or data in this quarter
# (0x60000000 is the external RAM window, which boards use from its start), nor has a RISC-V one.
_PRIVATE_BASE = 0x7000_0000


@dataclass(frozen=True)
class Symbol:
    """A symbol of the ELF; the Thumb bit of a function's address is cleared."""

    name: str
    address: int
    size: int


@dataclass(frozen=True)
class Segment:
    """One loadable segment at its virtual address; bytes beyond `data` are zero."""

    address: int
    size: int
    data: bytes
    writable: bool
    executable: bool

    @property
    def end(self) -> int:
        return self.address + self.size


@dataclass(frozen=True)
class CodeSection:
    """One executable section with its mapping symbols.

    `marks` are (address, is_code) in rising order: from there on the bytes are instructions (`$t`,
    `$x`) or data such as literal pools (`$d`). Without marks the section is code.
    """

    address: int
    data: bytes
    marks: tuple[tuple[int, bool], ...]

    def runs(self) -> list[tuple[int, int, bool]]:
        end = self.address + len(self.data)
        marks = list(self.marks)
        if not marks or marks[0][0] > self.address:
            marks.insert(0, (self.address, True))
        stops = [address for address, _ in marks[1:]] + [end]
        return [
            (start, stop, code)
            for (start, code), stop in zip(marks, stops, strict=True)
            if start < stop
        ]

    def bytes_between(self, start: int, stop: int) -> bytes:
        return self.data[start - self.address : stop - self.address]

    def instructions(self) -> Iterator[Located]:
        for start, stop, is_code in self.runs():
            if is_code:
                yield from sweep(self.bytes_between(start, stop), start)


@dataclass(frozen=True)
class Region:
    """A page-aligned piece of memory to map."""

    address: int
    size: int
    writable: bool
    executable: bool


@dataclass(frozen=True)
class Image:
    """A firmware ELF as the simulator sees it; isa: "thumb" or "rv32"."""

    path: Path
    segments: tuple[Segment, ...]
    code: tuple[CodeSection, ...]
    symbols: Mapping[str, Symbol]
    functions: tuple[Symbol, ...]  # one per address, rising, disjoint
    entry: int
    isa: str = "thumb"

    def function_at(self, address: int) -> Symbol | None:
        at = bisect.bisect_right(self.functions, address, key=lambda symbol: symbol.address) - 1
        if at < 0:
            return None
        symbol = self.functions[at]
        return symbol if address < symbol.address + max(symbol.size, 1) else None

    def describe(self, address: int) -> str:
        """Return `function+0x12` for a code address, or the plain address."""
        function = self.function_at(address)
        if function is None:
            return f"0x{address:08x}"
        return f"{function.name}+0x{address - function.address:x}"

    def bytes_at(self, address: int, size: int) -> bytes:
        """Return initial bytes of the image, empty where no segment holds them all."""
        for segment in self.segments:
            if segment.address <= address and address + size <= segment.end:
                part = segment.data[address - segment.address :][:size]
                return part + bytes(size - len(part))
        return b""


@dataclass(frozen=True)
class Layout:
    """The memory map of one simulation: regions, the stack, private memory."""

    regions: tuple[Region, ...]
    stack_limit: int
    stack_top: int
    return_address: int
    private_base: int  # free from here on, for CoreSimulator.allocate


def load_image(path: Path) -> Image:
    """Read a 32-bit little-endian ELF executable of Arm or RISC-V.

    Raises RunFailed for a file that cannot be read, is another kind of file, or has nothing to
    load.
    """
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        with path.open("rb") as stream:
            elf = ELFFile(stream)
            isa = _INSTRUCTION_SETS.get(elf["e_machine"])
            if isa is None or elf.elfclass != 32 or not elf.little_endian:
                raise RunFailed(f"{path} is not a 32-bit little-endian ELF file of Arm or RISC-V")
            segments = _read_segments(elf)
            symbols, functions, marks = _read_symbols(path.read_bytes())
            code = _read_code(elf, marks)
            entry = elf["e_entry"]
    except OSError as error:
        raise RunFailed(f"cannot read {path}: {error.strerror or error}") from error
    except (ELFError, ValueError, AttributeError) as error:
        raise RunFailed(f"{path} is not a readable ELF file: {error}") from error
    if not any(segment.executable for segment in segments):
        raise RunFailed(
            f"{path} has no executable segment",
            hint="an object file or a library must be linked first",
        )
    return Image(path, segments, code, symbols, functions, entry & ~1, isa)


def _read_segments(elf: Any) -> tuple[Segment, ...]:
    segments = []
    for segment in elf.iter_segments():
        if segment["p_type"] == "PT_LOAD" and segment["p_memsz"]:
            segments.append(
                Segment(
                    segment["p_vaddr"],
                    segment["p_memsz"],
                    segment.data(),
                    bool(segment["p_flags"] & 2),
                    bool(segment["p_flags"] & 1),
                )
            )
    return tuple(sorted(segments, key=lambda segment: segment.address))


def _read_symbols(
    data: bytes,
) -> tuple[dict[str, Symbol], tuple[Symbol, ...], dict[int, list[tuple[int, bool]]]]:
    """Return symbols by name, functions by address, mapping symbols by section index."""
    symbols: dict[str, Symbol] = {}
    functions: dict[int, tuple[int, Symbol]] = {}
    marks: dict[int, list[tuple[int, bool]]] = {}
    for entry in elf_symbols(data):
        name, section = entry.name, entry.section
        if not name or section == 0:
            continue
        is_placed = section < SPECIAL_SECTIONS
        if name[0] == "$":  # $t, $d, $a, $x, also with a suffix ($d.7)
            if is_placed and name[1:2] in "tdax":
                marks.setdefault(section, []).append((entry.value, name[1] != "d"))
            continue
        is_function = entry.kind == FUNCTION
        address = entry.value & ~1 if is_function else entry.value
        symbol = Symbol(name, address, entry.length)
        is_local = entry.binding == LOCAL
        if not is_local or name not in symbols:  # a global name wins over a file's static
            symbols[name] = symbol
        if is_function and is_placed:
            # Of aliases keep the global one, then the longest.
            rank = (0 if is_local else 1 << 32) + symbol.size
            if address not in functions or functions[address][0] < rank:
                functions[address] = (rank, symbol)
    ordered = [functions[address][1] for address in sorted(functions)]
    return symbols, tuple(_disjoint(ordered)), marks


def _disjoint(functions: list[Symbol]) -> list[Symbol]:
    """Extend functions of unknown size to the next function, and make names unique."""
    result = []
    seen: set[str] = set()
    for index, symbol in enumerate(functions):
        follower = functions[index + 1].address if index + 1 < len(functions) else None
        size = symbol.size
        if follower is not None and (size == 0 or symbol.address + size > follower):
            size = follower - symbol.address
        # Statics of two files may share a name; costs are reported by name.
        name = symbol.name if symbol.name not in seen else f"{symbol.name}@0x{symbol.address:x}"
        seen.add(name)
        result.append(Symbol(name, symbol.address, size))
    return result


def _read_code(elf: Any, marks: dict[int, list[tuple[int, bool]]]) -> tuple[CodeSection, ...]:
    sections = []
    for index, section in enumerate(elf.iter_sections()):
        flags = section["sh_flags"]
        if section["sh_type"] == "SHT_PROGBITS" and flags & 4 and flags & 2:  # EXEC, ALLOC
            sections.append(
                CodeSection(section["sh_addr"], section.data(), tuple(sorted(marks.get(index, ()))))
            )
    return tuple(sorted(sections, key=lambda section: section.address))


def plan_layout(image: Image) -> Layout:
    """Decide what to map: the segments, the stack, and a page to return to.

    The linker script defines the stack (`__stack_limit` to `__stack_top`); without a limit it ends
    at the highest data below it, at most 64 KB; without a top it is 64 KB of private memory. Pages
    between these pieces stay unmapped.
    """
    private, page_bytes = _PRIVATE_BASE, PAGE_BYTES[image.isa]
    top = _first_symbol(image, STACK_TOP_SYMBOLS)
    limit = _first_symbol(image, STACK_LIMIT_SYMBOLS)
    if top is None:
        limit = private + page_bytes
        top = limit + DEFAULT_STACK_BYTES
        private = top
    else:
        top &= ~15  # AAPCS: 8-byte aligned at a public interface; RISC-V: 16
        if limit is None or limit >= top:
            below = [s.end for s in image.segments if s.writable and s.end <= top]
            limit = max([top - DEFAULT_STACK_BYTES, *below])
    return_address = private + page_bytes
    private = return_address + 2 * page_bytes
    wanted = [Region(s.address, s.size, s.writable, s.executable) for s in image.segments]
    wanted.append(Region(limit, top - limit, True, False))
    wanted.append(Region(return_address, page_bytes, False, True))
    return Layout(_merge_pages(wanted, page_bytes), limit, top, return_address, private)


def _first_symbol(image: Image, names: tuple[str, ...]) -> int | None:
    return next((image.symbols[name].address for name in names if name in image.symbols), None)


def _merge_pages(wanted: list[Region], page_bytes: int) -> tuple[Region, ...]:
    """Round to pages; pages of two regions get the rights of both."""
    rights: dict[int, tuple[bool, bool]] = {}
    for region in wanted:
        first = region.address // page_bytes
        last = (region.address + max(region.size, 1) - 1) // page_bytes
        for page in range(first, last + 1):
            writable, executable = rights.get(page, (False, False))
            rights[page] = (writable or region.writable, executable or region.executable)
    merged: list[Region] = []
    for page in sorted(rights):
        writable, executable = rights[page]
        previous = merged[-1] if merged else None
        if (
            previous is not None
            and previous.address + previous.size == page * page_bytes
            and (previous.writable, previous.executable) == (writable, executable)
        ):
            merged[-1] = Region(previous.address, previous.size + page_bytes, writable, executable)
        else:
            merged.append(Region(page * page_bytes, page_bytes, writable, executable))
    return tuple(merged)
