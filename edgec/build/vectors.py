"""Addresses of a core's start and of its interrupts, read from an image.

Cortex-M: a vector table of addresses (DDI 0403E B1.5.3). RISC-V: code at the start of the program
that jumps to the reset handler, after the words that a boot ROM looks for; and a trap table of
32 jumps, the first for exceptions, the others for interrupts (mtvec in vectored mode: privileged
architecture 3.1.7). Cortex-A and -R: a table of 8 jumps at the start of the program, first to the
reset handler, then for faults, and for interrupts (DDI 0406C B1.8.1). Xtensa: such a table
too, of jumps that are 16 bytes apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgec.boards.board import Board, MemoryRegion
from edgec.build import riscv, xtensa
from edgec.build.elf import Elf

FIRST_INTERRUPT = 15
"""Exceptions of Cortex-M from SysTick (15) on are interrupts; those below are reset and faults."""

TRAP_TABLE = "ec_trap_table"


@dataclass(frozen=True)
class _Traps:
    """A table of `entries` jumps, some for `interrupts`; alignment in bytes, and
    distance between jumps.
    """

    entries: int
    interrupts: slice
    alignment: int
    stack_alignment: int
    step: int = 4


# The ESP32-C3 asks for this alignment; the architecture alone asks for less.
_RISCV = _Traps(entries=32, interrupts=slice(1, 32), alignment=256, stack_alignment=16)
_CORTEX_AR = _Traps(entries=8, interrupts=slice(6, 7), alignment=32, stack_alignment=8)
_XTENSA = _Traps(entries=8, interrupts=slice(3, 6), alignment=256, stack_alignment=16, step=16)
_TRAPS = {riscv.NAME: _RISCV, xtensa.NAME: _XTENSA}

BOOT_MAGIC = "BOOT_MAGIC"
"""A setting of boards: a word that stands twice before the program, for the boot ROM."""


def interrupt_handlers(elf: Elf) -> tuple[int, ...]:
    """Return the addresses of code that interrupts lead to."""
    table = elf.symbol(TRAP_TABLE)
    if table is not None:
        traps = _traps(elf)
        return tuple(_trap_targets(elf, table.address, traps)[traps.interrupts])
    if elf.instruction_set.NAME in _TRAPS:
        return ()
    vectors = elf.section(".vectors")
    if vectors is None:
        return ()
    words = (
        elf.word(vectors.address + 4 * number) or 0
        for number in range(FIRST_INTERRUPT, vectors.length // 4)
    )
    return tuple(word & ~1 for word in words if word)


def check_vectors(elf: Elf, board: Board) -> list[str]:
    """Return the faults of the program's start."""
    if elf.instruction_set.NAME in _TRAPS or board.core.has("v7ar"):
        return _check_jumps(elf, board)
    return _check_vector_table(elf, board)


def _check_vector_table(elf: Elf, board: Board) -> list[str]:
    table = elf.section(".vectors")
    code = board.memory[board.code]
    if table is None or not table.is_stored:
        return ["there is no vector table (section .vectors)"]
    problems = []
    if table.address != code.origin:
        problems.append(f"the vector table is at 0x{table.address:08x}, not at 0x{code.origin:08x}")
    # DDI 0403E B3.2.5: the table is aligned to its size, rounded up to a power of two.
    if table.address % (1 << (table.length - 1).bit_length()):
        problems.append(f"the vector table at 0x{table.address:08x} is not aligned to its size")
    stack = elf.word(table.address) or 0
    data = board.memory[board.data]
    if not (data.origin < stack <= data.end) or stack % 8:
        problems.append(f"the initial stack pointer 0x{stack:08x} is not in {data.name}")
    reset = elf.word(table.address + 4) or 0
    if reset != elf.entry:
        problems.append(f"the entry 0x{elf.entry:08x} is not the reset vector 0x{reset:08x}")
    text = [s for s in elf.sections if s.is_code]
    for number in range(1, table.length // 4):
        handler = elf.word(table.address + 4 * number) or 0
        if handler == 0 and number > 3:
            continue  # reserved, or an interrupt that is never enabled
        if not handler & 1 or not any(s.holds(handler & ~1) for s in text):
            problems.append(f"vector {number} is 0x{handler:08x}, not the address of Thumb code")
    return problems


def _traps(elf: Elf) -> _Traps:
    return _TRAPS.get(elf.instruction_set.NAME, _CORTEX_AR)


def _jump_target(elf: Elf, at: int) -> int:
    """Target of the jump at an address; -1 if the instruction is no jump."""
    code = (elf.word(at) or 0).to_bytes(4, "little")
    first = next(elf.instruction_set.decode(code, at))
    kind, target = next(iter(elf.instruction_set.transfers([first])))
    return target if kind == "branch" else -1


def _check_jumps(elf: Elf, board: Board) -> list[str]:
    start = elf.section(".vectors")
    if start is None or not start.is_stored:
        return ["there is no start-up code (section .vectors)"]
    problems = []
    origin = board.memory[board.code].code_origin
    if start.address != origin:
        problems.append(f"the start-up code is at 0x{start.address:08x}, not at 0x{origin:08x}")
    at = start.address
    if BOOT_MAGIC in board.config:
        magic = board.config[BOOT_MAGIC]
        if [elf.word(at), elf.word(at + 4)] != [magic, magic]:
            problems.append("the boot ROM's words are not at the start")
        at += 8
    if _jump_target(elf, at) != elf.entry & ~elf.instruction_set.FUNCTION_BIT:
        problems.append(f"0x{at:08x} does not jump to the entry 0x{elf.entry:08x}")
    problems += _check_trap_table(elf, _traps(elf))
    return problems + _check_stack(elf, board.memory[board.data], _traps(elf).stack_alignment)


def _check_trap_table(elf: Elf, traps: _Traps) -> list[str]:
    table = elf.symbol(TRAP_TABLE)
    if table is None:
        return [f"there is no trap table ({TRAP_TABLE})"]
    problems = []
    if table.address % traps.alignment:
        problems.append(f"the trap table at 0x{table.address:08x} is not aligned to its size")
    text = [s for s in elf.sections if s.is_code]
    for number, handler in enumerate(_trap_targets(elf, table.address, traps)):
        if not any(s.holds(handler) for s in text):
            problems.append(f"entry {number} of the trap table is not a jump to code")
    return problems


def _check_stack(elf: Elf, data: MemoryRegion, to: int) -> list[str]:
    stack = elf.symbol("__stack_top")
    if stack is None or not (data.origin < stack.address <= data.end) or stack.address % to:
        return [f"the initial stack pointer is not in {data.name}, aligned to {to} bytes"]
    return []


def _trap_targets(elf: Elf, table: int, traps: _Traps) -> list[int]:
    return [_jump_target(elf, table + traps.step * number) for number in range(traps.entries)]
