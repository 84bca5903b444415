"""Read a firmware ELF: sections, symbols and the machine code of each function."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgec.build import riscv, thumb, xtensa
from edgec.build.elf_symbols import FILE, FUNCTION, GLOBAL, LOCAL, SECTION, ElfSymbol, elf_symbols
from edgec.build.instruction import Instruction, InstructionSet
from edgec.errors import BuildFailed


@dataclass(frozen=True)
class Section:
    """An allocated section: where it runs (`address`), where it is stored (`load_address`).

    `is_stored` says whether its bytes are in the file (flash), `content` holds them then.
    """

    name: str
    address: int
    load_address: int
    length: int
    is_stored: bool
    is_code: bool
    content: bytes = field(repr=False)

    def holds(self, address: int) -> bool:
        return self.address <= address < self.address + self.length


@dataclass(frozen=True)
class Symbol:
    """A named address; for functions without the Thumb bit. `file` is known for local ones."""

    name: str
    address: int
    length: int
    is_function: bool
    section: str
    file: str = ""


@dataclass(frozen=True)
class Elf:
    """The parts of an ELF file that edgec reads.

    `undefined` are names that the linker left open; `stack_sizes` maps a function's address to
    the frame that clang states for it; `code_marks` are (address, is code) in order of address,
    from the mapping symbols `$t` or `$x` and `$d`; `instruction_set` reads its machine code.
    """

    path: Path
    entry: int
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    undefined: tuple[str, ...]
    stack_sizes: dict[int, int]
    code_marks: tuple[tuple[int, bool], ...]
    instruction_set: InstructionSet = thumb

    def section(self, name: str) -> Section | None:
        return next((s for s in self.sections if s.name == name), None)

    def symbol(self, name: str) -> Symbol | None:
        return next((s for s in self.symbols if s.name == name), None)

    def word(self, address: int) -> int | None:
        """Return the stored 32-bit word at `address`, or None if nothing is stored there."""
        for section in self.sections:
            if section.is_stored and section.holds(address):
                at = address - section.address
                return int.from_bytes(section.content[at : at + 4], "little")
        return None

    def functions(self) -> tuple[Symbol, ...]:
        """Return one symbol per function, in order of address; lengths reach the next one if 0.

        Of several names for one address, the first global one stays.
        """
        found: dict[int, Symbol] = {}
        code = [s for s in self.sections if s.is_code]
        for symbol in self.symbols:
            if not symbol.is_function or not any(s.holds(symbol.address) for s in code):
                continue
            known = found.get(symbol.address)
            if known is None or (known.file and not symbol.file):
                found[symbol.address] = symbol
        ordered = [found[address] for address in sorted(found)]
        ends = [*(s.address for s in ordered[1:]), 0][: len(ordered)]
        result = []
        for symbol, end in zip(ordered, ends, strict=True):
            length = symbol.length
            if length == 0:
                home = next(s for s in code if s.holds(symbol.address))
                limit = home.address + home.length
                length = (end if symbol.address < end <= limit else limit) - symbol.address
            result.append(replace(symbol, length=length))
        return tuple(result)

    def describe_address(self, address: int) -> str:
        """Return the function at `address`, and how far into it; "" where there is none."""
        plain = address & ~1  # Thumb addresses are odd
        for symbol in self.functions():
            if symbol.address <= plain < symbol.address + symbol.length:
                return f"{symbol.name} + {plain - symbol.address}"
        return ""

    def instructions(self, function: Symbol) -> Iterator[Instruction]:
        """Yield the instructions of `function`, leaving out the literals between them."""
        section = next(s for s in self.sections if s.is_code and s.holds(function.address))
        end = function.address + function.length
        marks = self.code_marks
        starts = [address for address, _ in marks]
        at = function.address
        index = bisect_right(starts, at) - 1
        while at < end:
            is_code = index < 0 or marks[index][1]
            stop = min(end, marks[index + 1][0]) if index + 1 < len(marks) else end
            if is_code:
                low = at - section.address
                yield from self.instruction_set.decode(section.content[low : low + stop - at], at)
            at = stop
            index += 1

    def literals(self, function: Symbol) -> Iterator[int]:
        """Yield the 32-bit words between the instructions of `function`."""
        end = function.address + function.length
        starts = [address for address, _ in self.code_marks]
        index = max(0, bisect_right(starts, function.address) - 1)
        for number in range(index, len(starts)):
            address, is_code = self.code_marks[number]
            if address >= end:
                break
            stop = min(end, starts[number + 1] if number + 1 < len(starts) else end)
            if not is_code:
                for at in range((max(address, function.address) + 3) // 4 * 4, stop - 3, 4):
                    yield self.word(at) or 0


def _read_uleb(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return value, at


def _read_stack_sizes(data: bytes) -> dict[int, int]:
    """Return frames by function address; LLVM's .stack_sizes is (address, uleb128 size)."""
    sizes: dict[int, int] = {}
    at = 0
    while at + 4 < len(data):
        address = int.from_bytes(data[at : at + 4], "little") & ~1
        size, at = _read_uleb(data, at + 4)
        sizes[address] = max(size, sizes.get(address, 0))
    return sizes


#: By the ELF's machine.
INSTRUCTION_SETS: dict[str, InstructionSet] = {
    "EM_ARM": thumb, "EM_RISCV": riscv, "EM_XTENSA": xtensa,
}  # fmt: skip


def read_elf(path: Path) -> Elf:
    """Read the ELF file of a 32-bit microcontroller at `path`. Raises BuildFailed if it is none."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        with path.open("rb") as stream:
            elf = ELFFile(stream)
            code = INSTRUCTION_SETS.get(elf.header.e_machine)
            if code is None or elf.elfclass != 32:
                raise BuildFailed(
                    f"{path} is not an ELF file for Cortex-M, 32-bit RISC-V or Xtensa"
                )
            return _read(path, elf, code)
    except (OSError, ELFError, ValueError) as error:
        raise BuildFailed(f"cannot read the ELF file {path}: {error}") from error


def _read(path: Path, elf: Any, code: InstructionSet) -> Elf:
    names = {index: section.name for index, section in enumerate(elf.iter_sections())}
    symbols, marks, undefined, source = [], {}, [], ""
    for symbol in elf_symbols(path.read_bytes()):
        if symbol.kind == FILE:
            source = symbol.name
        elif symbol.section == 0:
            if symbol.name and symbol.binding == GLOBAL:
                undefined.append(symbol.name)
        elif symbol.name[:2] in ("$t", "$d", "$a", "$x"):
            marks[symbol.value] = symbol.name[:2] in ("$t", "$x")
        elif symbol.name and symbol.kind != SECTION:
            symbols.append(_symbol(symbol, names, source, code))
    stated = elf.get_section_by_name(".stack_sizes")
    return Elf(
        path=path,
        entry=elf.header.e_entry,
        sections=tuple(_sections(elf)),
        symbols=tuple(symbols),
        undefined=tuple(undefined),
        stack_sizes=_read_stack_sizes(stated.data()) if stated is not None else {},
        code_marks=tuple(sorted(marks.items())),
        instruction_set=code,
    )


def _sections(elf: Any) -> Iterator[Section]:
    segments = [s.header for s in elf.iter_segments() if s.header.p_type == "PT_LOAD"]
    for section in elf.iter_sections():
        header = section.header
        if not header.sh_flags & 2 or header.sh_size == 0:  # SHF_ALLOC
            continue
        load = header.sh_addr
        for segment in segments:
            if segment.p_vaddr <= header.sh_addr < segment.p_vaddr + max(1, segment.p_memsz):
                load = header.sh_addr - segment.p_vaddr + segment.p_paddr
        is_stored = header.sh_type != "SHT_NOBITS"
        yield Section(
            name=section.name,
            address=header.sh_addr,
            load_address=load,
            length=header.sh_size,
            is_stored=is_stored,
            is_code=bool(header.sh_flags & 4),  # SHF_EXECINSTR
            content=section.data() if is_stored else b"",
        )


def _symbol(symbol: ElfSymbol, names: dict[int, str], file: str, code: InstructionSet) -> Symbol:
    is_function = symbol.kind == FUNCTION
    return Symbol(
        name=symbol.name,
        address=symbol.value & ~code.FUNCTION_BIT if is_function else symbol.value,
        length=symbol.length,
        is_function=is_function,
        section=names.get(symbol.section, ""),
        file=file if symbol.binding == LOCAL else "",
    )
