"""RISC-V's instructions, as far as the simulator needs them: their sizes, and calls."""

from __future__ import annotations

from edgec.build.instruction import sign_extend
from edgec.sim.cycles import Cost, CostTable
from edgec.sim.image import CodeSection
from edgec.sim.timing import ONE

_COMPRESSED_JUMP, _JUMP = 0x2001, 0xEF  # C.JAL; JAL with the link register ra


def is_wide(first: int) -> bool:
    """Whether an instruction has 32 bits, by its first 16: 16-bit instructions do not end in 11."""
    return first & 3 == 3


def find_call(before: bytes, return_address: int) -> tuple[int, int] | None:
    """The call that ends the four bytes before a return address: where it is, where it leads."""
    wide = int.from_bytes(before, "little")
    if wide & 0xFFF == _JUMP:
        offset = _bits(wide, (21, 10, 1), (20, 1, 11), (12, 8, 12), (31, 1, 20))
        return return_address - 4, return_address - 4 + sign_extend(offset, 21) & 0xFFFFFFFF
    short = wide >> 16
    if short & 0xE003 == _COMPRESSED_JUMP:
        offset = _bits(
            short, (3, 3, 1), (11, 1, 4), (2, 1, 5), (7, 1, 6), (6, 1, 7), (9, 2, 8), (8, 1, 10),
            (12, 1, 11),
        )  # fmt: skip
        return return_address - 2, return_address - 2 + sign_extend(offset, 12) & 0xFFFFFFFF
    return None


def _bits(word: int, *fields: tuple[int, int, int]) -> int:
    """Assemble fields of a word, each given by first bit, number of bits and target bit."""
    return sum((word >> start & (1 << count) - 1) << to for start, count, to in fields)


class InstructionTable(CostTable):
    """Every instruction takes one cycle: there is no model of a RISC-V core's pipeline."""

    def _sweep(
        self, section: CodeSection, start: int, stop: int, previous: tuple[int, bool] | None
    ) -> None:
        code = section.bytes_between(start, stop)
        at = 0
        while at + 2 <= len(code):
            size = 4 if is_wide(int.from_bytes(code[at : at + 2], "little")) else 2
            self.costs[start + at] = Cost(size, ONE)
            at += size
