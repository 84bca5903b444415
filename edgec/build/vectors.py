"""Where a core starts and where interrupts lead, read from an image.

Cortex-M: a vector table of addresses (DDI 0403E B1.5.3). RISC-V: code at the start of the program
that jumps to the reset handler, after the words that a boot ROM looks for; and a trap table of
32 jumps, the first for exceptions, the others for interrupts (mtvec in vectored mode: privileged
architecture 3.1.7).
"""

from __future__ import annotations

from edgec.boards.board import Board
from edgec.build import riscv
from edgec.build.elf import Elf

FIRST_INTERRUPT = 15
"""Exceptions of Cortex-M from SysTick (15) on are interrupts; those below are reset and faults."""

TRAP_TABLE = "ec_trap_table"
TRAP_ENTRIES = 32
TRAP_ALIGNMENT = 256  # what the ESP32-C3 asks for; the architecture alone asks for less
BOOT_MAGIC = "BOOT_MAGIC"
"""A setting of boards: a word that stands twice before the program, for the boot ROM."""


def interrupt_handlers(elf: Elf) -> tuple[int, ...]:
    """Return the addresses of code that interrupts lead to."""
    if elf.instruction_set.NAME == riscv.NAME:
        table = elf.symbol(TRAP_TABLE)
        return () if table is None else tuple(_trap_targets(elf, table.address)[1:])
    vectors = elf.section(".vectors")
    if vectors is None:
        return ()
    words = (
        elf.word(vectors.address + 4 * number) or 0
        for number in range(FIRST_INTERRUPT, vectors.length // 4)
    )
    return tuple(word & ~1 for word in words if word)


def check_vectors(elf: Elf, board: Board) -> list[str]:
    """Return what is wrong with how the program starts."""
    if elf.instruction_set.NAME == riscv.NAME:
        return _check_riscv_start(elf, board)
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


def _check_riscv_start(elf: Elf, board: Board) -> list[str]:
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
    first = next(iter(riscv.decode(start.content[at - start.address :], at)), None)
    target = None if first is None else riscv.flow(first)
    if target != ("branch", elf.entry):
        problems.append(f"0x{at:08x} does not jump to the entry 0x{elf.entry:08x}")
    table = elf.symbol(TRAP_TABLE)
    if table is None:
        return [*problems, f"there is no trap table ({TRAP_TABLE})"]
    if table.address % TRAP_ALIGNMENT:
        problems.append(f"the trap table at 0x{table.address:08x} is not aligned to its size")
    text = [s for s in elf.sections if s.is_code]
    for number, handler in enumerate(_trap_targets(elf, table.address)):
        if not any(s.holds(handler) for s in text):
            problems.append(f"entry {number} of the trap table is no jump to code")
    stack = elf.symbol("__stack_top")
    data = board.memory[board.data]
    if stack is None or not (data.origin < stack.address <= data.end) or stack.address % 16:
        problems.append(f"the initial stack pointer is not in {data.name}, aligned to 16 bytes")
    return problems


def _trap_targets(elf: Elf, table: int) -> list[int]:
    """Where each entry of the trap table jumps to, -1 where it does not."""
    targets = []
    for number in range(TRAP_ENTRIES):
        at = table + 4 * number
        code = (elf.word(at) or 0).to_bytes(4, "little")
        kind, target = riscv.flow(next(riscv.decode(code, at)))
        targets.append(target if kind == "branch" else -1)
    return targets
