"""The text of a program whose core has stopped it, from `ec_fault` or `ec_trap` in startup.c."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_HEX = "([0-9a-f]{8})"
_TEXT = re.compile(
    f"(fault|trap|abort|exception) {_HEX}(?: pc {_HEX} lr {_HEX}| stack overflow, sp {_HEX})"
)

#: The longest such text, with the line end before it.
FAULT_BYTES = 60

#: Exceptions of Cortex-M (DDI 0403 B1.5.2) are reported as faults, of Cortex-A and -R (DDI 0406C
#: B1.8.1) as aborts, causes of RISC-V (Instruction Set Manual, volume II, table 3.6) as traps, of
#: Xtensa (Instruction Set Architecture Reference Manual, table 4-64) as exceptions.
_EXCEPTIONS = {
    "fault": {2: "NMI", 3: "HardFault", 4: "MemManage", 5: "BusFault", 6: "UsageFault",
              7: "SecureFault"},
    "trap": {0: "misaligned jump", 1: "jump to no code", 2: "illegal instruction", 3: "breakpoint",
             4: "misaligned load", 5: "load from no memory", 6: "misaligned store",
             7: "store to no memory", 11: "call of the system"},
    "abort": {1: "undefined instruction", 2: "call of the system", 3: "jump to no code",
              4: "access to no memory"},
    "exception": {0: "illegal instruction", 1: "call of the system", 9: "misaligned access",
                  14: "jump to no code", 15: "access to no memory", 20: "jump to no code",
                  28: "load from no memory", 29: "store to no memory"},
}  # fmt: skip

Locate = Callable[[int], str]
"""Names the function at an address, "" for none."""


@dataclass(frozen=True)
class Fault:
    """An exception of the core, by its number, and where: at `pc`, called from before `lr`.
    Both are None where the stack holds no frame; `sp` is then where it had come to.

    `kind` is "fault" on Cortex-M, "trap" on RISC-V, "abort" on Cortex-A and -R, "exception" on
    Xtensa, whose numbers mean other things.
    """

    kind: str
    exception: int
    pc: int | None
    lr: int | None
    sp: int | None

    @property
    def name(self) -> str:
        known = _EXCEPTIONS[self.kind].get(self.exception)
        if known is None:
            return f"exception {self.exception}"
        return known if self.kind == "fault" else f"{self.kind} ({known})"

    def explain(self, locate: Locate | None = None) -> tuple[str, ...]:
        """Return where it happened, one line for each address."""
        if self.sp is not None:
            return (f"the stack overflowed its memory: sp 0x{self.sp:08x}",)
        lines = []
        for name, address in (("pc", self.pc), ("lr", self.lr)):
            assert address is not None
            where = locate(address) if locate is not None else ""
            lines.append(f"{name} 0x{address:08x}" + (f" is in {where}" if where else ""))
        return tuple(lines)


def find_fault(text: str) -> Fault | None:
    """Return the first fault that is reported in `text`."""
    found = _TEXT.search(text)
    if found is None:
        return None
    kind, *words = found.groups()
    exception, pc, lr, sp = (None if word is None else int(word, 16) for word in words)
    assert exception is not None
    return Fault(kind, exception, pc, lr, sp)
