"""The symbols of an ELF file, all read at once.

pyelftools decodes field by field, which took a tenth of a firmware's build.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

#: Values of `st_info`: types of symbols, and who sees them: their own file, or all.
FUNCTION, SECTION, FILE = 2, 3, 4
LOCAL, GLOBAL = 0, 1
#: The first section number that stands for something else, such as an absolute value.
SPECIAL_SECTIONS = 0xFF00
_SYMBOL_TABLE = 2


class ElfSymbol(NamedTuple):
    """One entry of a symbol table. section: 0 where the symbol is undefined."""

    name: str
    value: int
    length: int
    kind: int
    binding: int
    section: int


class _Layout(NamedTuple):
    """The formats of one class of ELF files."""

    sections: str  # of the file's header: offset, entry size and count of section headers
    sections_at: int
    section: str  # type, offset, size and link
    symbol: str
    order: tuple[int, ...]  # of name, value, size, info and section among the symbol's fields


_LAYOUTS = {
    1: _Layout("I10xHH", 0x20, "4xI8xIII", "IIIBxH", (0, 1, 2, 3, 4)),
    2: _Layout("Q10xHH", 0x28, "4xI16xQQI", "IBxHQQ", (0, 3, 4, 1, 2)),
}


def elf_symbols(data: bytes) -> Iterator[ElfSymbol]:
    """The symbols of an ELF file with this content; none if it has no table of symbols.

    Raises ValueError for a table that is damaged or not there in full.
    """
    try:
        layout, ends = _LAYOUTS[data[4]], "<" if data[5] == 1 else ">"
        start, step, count = struct.unpack_from(ends + layout.sections, data, layout.sections_at)
        form = struct.Struct(ends + layout.section)
        headers = [form.unpack_from(data, start + step * number) for number in range(count)]
        for kind, offset, size, link in headers:
            if kind == _SYMBOL_TABLE:
                _, first, length, _ = headers[link]
                names = data[first : first + length]
                fields = struct.iter_unpack(ends + layout.symbol, data[offset : offset + size])
                yield from (_symbol([f[at] for at in layout.order], names) for f in fields)
    except (struct.error, LookupError, ValueError) as error:
        raise ValueError(f"its table of symbols is damaged: {error}") from error


def _symbol(fields: list[int], names: bytes) -> ElfSymbol:
    name, value, length, info, section = fields
    text = names[name : names.index(b"\0", name)].decode("utf-8", "replace")
    return ElfSymbol(text, value, length, info & 15, info >> 4, section)
