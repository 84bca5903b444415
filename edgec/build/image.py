"""The sizes of a firmware image, read from its ELF: flash, RAM, code, weights, stack, functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgec.boards.board import Board
from edgec.build.elf import Elf, Section, read_elf
from edgec.build.stack import FunctionSize, bound_stack, read_stack_usage

WEIGHTS_PREFIX = ".ec_weights"
"""Sections of weights and per-channel tables start with this."""

ARENA_PREFIX = ".ec_arena"
"""Sections of activations start with this."""


@dataclass(frozen=True)
class SectionSize:
    """A section of the image and the board's region that it lies in ("" if in none)."""

    name: str
    address: int
    bytes: int
    region: str
    is_stored: bool


@dataclass(frozen=True)
class Image:
    """Sizes of a firmware image, all in bytes.

    `flash_bytes` is all that is stored: vectors, code, constants, weights, initial values.
    `weights_bytes` are the `.ec_weights*` sections, `code_bytes` all the rest of flash.
    `arena_bytes` are the `.ec_arena*` sections; `stack_bytes` is the bound from the call graph,
    None if there is none (`stack_notes` has the reason, and omitted calls), and
    `stack_reserved_bytes` the linker script's reserve. `ram_bytes` is variables + arena + the bound
    of the stack, or the reserve without a bound.
    """

    elf: Path
    flash_bytes: int
    ram_bytes: int
    code_bytes: int
    weights_bytes: int
    arena_bytes: int
    variables_bytes: int
    stack_bytes: int | None
    stack_reserved_bytes: int
    stack_notes: tuple[str, ...]
    sections: tuple[SectionSize, ...]
    functions: tuple[FunctionSize, ...]

    def function(self, name: str) -> FunctionSize | None:
        """Return the function called `name`, or a compiler's clone such as `name.constprop.0`.

        The first of several static functions with one name; None if there is none.
        """
        exact = next((f for f in self.functions if f.name == name), None)
        clones = (f for f in self.functions if f.name.startswith(f"{name}."))
        return exact if exact is not None else next(clones, None)


def measure(elf: Path | Elf, board: Board, *, stack_usage: list[Path] | None = None) -> Image:
    """Return the sizes of an image for `board`.

    stack_usage: gcc's `.su` files, by default from the ELF's folder and from `objects/` there.
    Raises BuildFailed if the file is not an ELF of a microcontroller.
    """
    read = read_elf(elf) if isinstance(elf, Path) else elf
    if stack_usage is None:
        folder = read.path.parent
        stack_usage = sorted([*folder.glob("*.su"), *folder.glob("objects/*.su")])
    bound = bound_stack(read, board.core, read_stack_usage(stack_usage))
    sections = tuple(_section(section, board) for section in read.sections)

    def total(holds: Callable[[SectionSize], bool]) -> int:
        return sum(section.bytes for section in sections if holds(section))

    flash = total(lambda s: s.is_stored)
    weights = total(lambda s: s.is_stored and s.name.startswith(WEIGHTS_PREFIX))
    reserved = total(lambda s: s.name == ".stack")
    arena = total(lambda s: s.name.startswith(ARENA_PREFIX))
    ram = {region.name for region in board.memory.values() if region.kind == "ram"}
    others = (".stack", ARENA_PREFIX)
    variables = total(lambda s: s.region in ram and not s.name.startswith(others))
    stack = reserved if bound.total_bytes is None else bound.total_bytes
    return Image(
        elf=read.path,
        flash_bytes=flash,
        ram_bytes=variables + arena + stack,
        code_bytes=flash - weights,
        weights_bytes=weights,
        arena_bytes=arena,
        variables_bytes=variables,
        stack_bytes=bound.total_bytes,
        stack_reserved_bytes=reserved,
        stack_notes=bound.notes,
        sections=sections,
        functions=bound.functions,
    )


def _section(section: Section, board: Board) -> SectionSize:
    region = board.region_at(section.address)
    name = region.name if region is not None else ""
    return SectionSize(section.name, section.address, section.length, name, section.is_stored)
