"""Cycles in which a core waits for its board's flash, from execution counts.

Counts show how often a line of flash was executed, not in which order, so this is a model. For each
function, the cache keeps the most frequent lines that fit; every other line is read again at each
execution. Loads may read constants in flash or values in RAM: none, half or all of them (minimum,
usual, maximum) read flash, each line once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from edgec.boards.flash_waits import FlashWaits
from edgec.sim.image import CodeSection, Image
from edgec.sim.thumb import Kind, decode
from edgec.sim.timing import Cycles

_WORD_BYTES = 4


def waiting_cycles(image: Image, counts: Mapping[int, int], waits: FlashWaits) -> Cycles:
    """The cycles that executions (by address) wait: minimum, usual number, maximum."""
    missed = executed = 0
    for lines in _lines_of_functions(image, counts, waits.line_bytes).values():
        often = sorted(lines.values(), reverse=True)
        kept = waits.cache_bytes // waits.line_bytes
        missed += sum(often[kept:]) + len(often[:kept])
        executed += sum(often)
    loaded = _loaded_words(image, counts) * _WORD_BYTES / waits.line_bytes
    return Cycles(0.0, missed + loaded / 2, executed + loaded).times(waits.cycles)


def _lines_of_functions(
    image: Image, counts: Mapping[int, int], line_bytes: int
) -> dict[str, dict[int, int]]:
    """Return for each function how often each of its lines was executed."""
    found: dict[str, dict[int, int]] = defaultdict(dict)
    for address, count in counts.items():
        function = image.function_at(address)
        lines = found[function.name if function is not None else ""]
        line = address // line_bytes
        lines[line] = max(lines.get(line, 0), count)
    return found


def _loaded_words(image: Image, counts: Mapping[int, int]) -> int:
    return sum(counts.get(address, 0) * words for address, words in _loads(image.code))


def _loads(sections: tuple[CodeSection, ...]) -> Iterator[tuple[int, int]]:
    """The instructions that load, and how many words each does."""
    for section in sections:
        for located in section.instructions():
            instruction = decode(located.first, located.second)
            if instruction.kind in (Kind.LOAD, Kind.VECTOR_LOAD):
                yield located.address, 1
            elif instruction.kind is Kind.DUAL:
                yield located.address, 2
            elif instruction.kind in (Kind.MULTIPLE, Kind.VECTOR_MULTIPLE):
                yield located.address, instruction.registers
