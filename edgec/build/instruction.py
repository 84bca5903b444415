"""Shared by the readers of machine code: an instruction, and the readers' interface."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

Flow = Literal["", "call", "branch", "indirect_call", "indirect_branch"]


@dataclass(frozen=True)
class Instruction:
    """One instruction: its `address`, its half-words, and `second` = -1 if it has only one."""

    address: int
    first: int
    second: int = -1

    @property
    def length(self) -> int:
        return 2 if self.second < 0 else 4


def decode_halves(
    code: bytes, address: int, is_long: Callable[[int], bool]
) -> Iterator[Instruction]:
    """Yield instructions of one or two half-words; `is_long` decides by the first half-word.

    A 32-bit instruction cut off at the end is yielded as its first half-word alone.
    """
    at = 0
    while at + 2 <= len(code):
        first = int.from_bytes(code[at : at + 2], "little")
        if is_long(first) and at + 4 <= len(code):
            yield Instruction(address + at, first, int.from_bytes(code[at + 2 : at + 4], "little"))
            at += 4
        else:
            yield Instruction(address + at, first)
            at += 2


def sign_extend(value: int, bits: int) -> int:
    """Return the number that the lowest `bits` bits, all of `value`, are in two's complement."""
    return value - (1 << bits) if value >> (bits - 1) else value


class InstructionSet(Protocol):
    """Decodes the machine code of a family of cores; the modules `thumb`, `riscv` and `xtensa`
    are."""

    NAME: str
    """The word that `target.core.Core.isa` has for it."""

    FUNCTION_BIT: int
    """What a pointer to a function has set in its lowest bit."""

    def decode(self, code: bytes, address: int) -> Iterator[Instruction]:
        """Yield the instructions of `code`, which starts at `address` and holds no literals."""

    def transfers(self, instructions: Iterable[Instruction]) -> Iterator[tuple[Flow, int]]:
        """Yield how control leaves each instruction of a function, and to where (0: unknown)."""

    def frame_growth(self, instruction: Instruction) -> int | None:
        """Return by how many bytes it lowers the stack pointer; None if that is unknown."""

    def holds_vectors(self, instructions: Iterable[Instruction]) -> bool:
        """Return whether a function's frame may hold vectors, which compilers leave out of it."""

    def made_constants(self, instructions: Iterable[Instruction]) -> set[int]:
        """Return the addresses that instructions of a function may put together."""

    def loaded_places(self, instructions: Iterable[Instruction]) -> set[int]:
        """Return the fixed addresses that instructions of a function load words from, as far as
        they are outside of it."""

    def needs(self, instruction: Instruction) -> str:
        """Return the feature word that a core must have; "" if every one of the family has it."""
