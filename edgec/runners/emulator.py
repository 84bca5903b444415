"""QEMU's program for a board, and the error if it is not installed."""

from __future__ import annotations

import shutil

from edgec.boards.board import Board
from edgec.errors import RunFailed, ToolMissing

PROGRAMS = {
    "thumb": ("qemu-system-arm", "qemu-system-arm"),
    "rv32": ("qemu-system-riscv32", "qemu-system-misc"),
    "xtensa": ("qemu-system-xtensa", "qemu-system-misc"),
}
"""For each instruction set of boards the program, and its Debian package."""


def missing_emulator(board: Board) -> RunFailed | ToolMissing | None:
    """Return why `board` cannot be emulated on this computer, or None if it can."""
    other = "--engine core" if board.core.is_simulated else ""
    if board.qemu is None:
        hint = f"use {other}, or a real board" if other else "use a real board"
        return RunFailed(f"QEMU does not emulate {board.name}", hint=hint)
    program, package = PROGRAMS[board.core.isa]
    if shutil.which(program) is None:
        return ToolMissing(
            f"{program} is not installed",
            hint=f"install QEMU (Debian: apt install {package})" + (other and f", or use {other}"),
        )
    return None


def find_emulator(board: Board) -> str:
    """Return the path of the program. Raises what `missing_emulator` returns."""
    problem = missing_emulator(board)
    if problem is not None:
        raise problem
    return shutil.which(PROGRAMS[board.core.isa][0]) or ""
