"""The instruction sets of the simulator in Unicorn's words: registers, exceptions, calls.

Runs in the worker process only, because Unicorn is GPL.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgec.sim import riscv, thumb

# The bindings are untyped in part; as Any they are so throughout.
unicorn: Any = importlib.import_module("unicorn")
_arm: Any = importlib.import_module("unicorn.arm_const")
_riscv: Any = importlib.import_module("unicorn.riscv_const")


@dataclass(frozen=True)
class InstructionSet:
    """One instruction set. models: Unicorn's number of a core, by its name.

    arguments: registers of the first arguments; the first two return results. code_bit: set in a
    function's address (Thumb). flags: the register with the state of IT blocks, if any. call: from
    the four bytes before a return address to the addresses of the call instruction and of the
    called function, or None.
    """

    arch: int
    mode: int
    models: Mapping[str, int]
    pc: int
    sp: int
    link: int
    arguments: tuple[int, ...]
    stack_alignment: int
    return_code: bytes
    is_wide: Callable[[int], bool]
    call: Callable[[bytes, int], tuple[int, int] | None]
    exceptions: Mapping[int, str] = field(repr=False)
    code_bit: int = 0
    flags: int | None = None
    global_pointer: int | None = None


#: Thumb mode with a CPU model traps instructions that a core lacks; Unicorn's M-class mode is one
#: permissive core. Exceptions: QEMU's numbers for M-profile (target/arm/cpu.h).
THUMB = InstructionSet(
    unicorn.UC_ARCH_ARM,
    unicorn.UC_MODE_THUMB,
    models={
        f"cortex-{name}": getattr(_arm, f"UC_CPU_ARM_CORTEX_{name.upper()}")
        for name in ("m0", "m3", "m4", "m7", "m33")
    },
    pc=_arm.UC_ARM_REG_PC,
    sp=_arm.UC_ARM_REG_SP,
    link=_arm.UC_ARM_REG_LR,
    arguments=tuple(getattr(_arm, f"UC_ARM_REG_R{n}") for n in range(4)),
    stack_alignment=8,
    return_code=b"\x70\x47",  # BX LR
    is_wide=thumb.is_wide,
    call=thumb.find_call,
    exceptions={
        1: "undefined", 2: "svc", 3: "fetch", 4: "unaligned", 7: "breakpoint",
        17: "no_coprocessor", 18: "invalid_state", 19: "stack_overflow", 22: "unaligned",
        23: "divide_by_zero",
    },
    code_bit=1,
    flags=_arm.UC_ARM_REG_XPSR,
)  # fmt: skip

#: Exceptions: mcause of The RISC-V Instruction Set Manual, volume II, table "mcause values".
RV32 = InstructionSet(
    unicorn.UC_ARCH_RISCV,
    unicorn.UC_MODE_RISCV32,
    models={"rv32imc": _riscv.UC_CPU_RISCV32_SIFIVE_E31},
    pc=_riscv.UC_RISCV_REG_PC,
    sp=_riscv.UC_RISCV_REG_SP,
    link=_riscv.UC_RISCV_REG_RA,
    arguments=tuple(getattr(_riscv, f"UC_RISCV_REG_A{n}") for n in range(8)),
    stack_alignment=16,
    return_code=b"\x82\x80",  # c.jr ra
    is_wide=riscv.is_wide,
    call=riscv.find_call,
    exceptions={
        0: "unaligned", 1: "fetch", 2: "undefined", 3: "breakpoint", 4: "unaligned",
        6: "unaligned", 8: "svc", 9: "svc", 11: "svc", 12: "fetch",
    },
    global_pointer=_riscv.UC_RISCV_REG_GP,
)  # fmt: skip

SETS = {"thumb": THUMB, "rv32": RV32}
