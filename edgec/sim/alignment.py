"""Catch LDM, LDRD, VLDR and their like at an address that is not a multiple of four."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from edgec.sim.counters import BLOCK_CALLBACK
from edgec.sim.native import PASS_UNALIGNED, load

unicorn: Any = importlib.import_module("unicorn")
arm_const: Any = importlib.import_module("unicorn.arm_const")
uclib: Any = importlib.import_module("unicorn.unicorn_py3.unicorn").uclib

REGISTERS = (
    *(getattr(arm_const, f"UC_ARM_REG_R{n}") for n in range(13)),
    arm_const.UC_ARM_REG_SP,
    arm_const.UC_ARM_REG_LR,
    arm_const.UC_ARM_REG_PC,
)
_MOST_TABLE_BYTES = 1 << 23

# (address of the instruction, number of its base register, condition of its IT block or None)
AlignedInstruction = tuple[int, int, int | None]
RawHook = tuple[ctypes.c_void_p, ctypes.c_void_p, int, int]  # callback, user data, begin, end


class AlignmentWatch:
    """Hooks for one engine, with the same lifetime."""

    def __init__(
        self,
        uc: Any,
        instructions: list[AlignedInstruction],
        on_fault: Callable[[int, int], None],
        native: bool,
    ) -> None:
        """`on_fault(pc, base address)` is called for each unaligned access."""
        self._uc = uc
        self._on_fault = on_fault
        self._instructions = {
            address: (register, condition) for address, register, condition in instructions
        }
        self._callback = BLOCK_CALLBACK(self._check)
        self._table = np.zeros(0, np.uint8)
        self._record = np.zeros(6, np.uint64)
        self._native = native

    def hooks(self) -> list[RawHook]:
        """Return the instruction hooks to install: one where machine code works, else many."""
        if not self._instructions:
            return []
        callback = ctypes.cast(self._callback, ctypes.c_void_p)
        start, stop = min(self._instructions), max(self._instructions) + 4
        if self._native and stop - start <= 2 * _MOST_TABLE_BYTES:
            with contextlib.suppress(OSError):
                entry = ctypes.c_void_p(load(PASS_UNALIGNED))
                self._table = np.zeros((stop - start) // 2, np.uint8)
                for address, (register, _) in self._instructions.items():
                    self._table[(address - start) // 2] = REGISTERS[register]
                read_register = ctypes.cast(uclib.uc_reg_read, ctypes.c_void_p)
                self._record[:] = (
                    read_register.value or 0,
                    callback.value or 0,
                    self._table.ctypes.data,
                    start,
                    stop - start,
                    0,
                )
                return [(entry, ctypes.c_void_p(self._record.ctypes.data), start, stop - 1)]
        return [
            (callback, ctypes.c_void_p(0), address, address)
            for address in sorted(self._instructions)
        ]

    def _check(self, _uc: int, address: int, _size: int, _data: int) -> None:
        register, condition = self._instructions[address]
        base = self._uc.reg_read(REGISTERS[register])
        if base & 3 and (condition is None or self._holds(condition)):
            self._on_fault(address, base)

    def _holds(self, condition: int) -> bool:
        """Evaluate a condition on the flags (DDI 0403, A7.3)."""
        flags = self._uc.reg_read(arm_const.UC_ARM_REG_XPSR) >> 28
        n, z, c, v = (bool(flags >> bit & 1) for bit in (3, 2, 1, 0))
        result = (z, c, n, v, c and not z, n == v, n == v and not z, True)[condition >> 1]
        return result != bool(condition & 1) or condition >= 14
