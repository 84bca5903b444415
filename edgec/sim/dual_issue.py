"""Modelled cycles of a Cortex-M7, which starts up to two instructions in a cycle, in order.

Arm publishes no timings of it. Units and latencies come from LLVM's model of the core
(`ARMScheduleM7.td`; `llvm-mca -mcpu=cortex-m7 -instruction-tables` prints them). In a straight line
of code an instruction starts when its operands are ready, when fewer than two have started in that
cycle, and when a unit of its kind is free; its cost is the time since the start of the instruction
before it. A line starts with all registers ready.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from edgec.errors import ToolMissing
from edgec.sim.cycles import CostTable
from edgec.sim.image import CodeSection
from edgec.sim.timing import Cycles, Timing, exactly


class Use(NamedTuple):
    """An instruction's use of the core's units.

    width: how many of its kind start in one cycle; latency: cycles until its result can be read;
    busy: cycles until the next instruction can start, if more than the pair's.
    """

    unit: str
    width: int
    latency: int
    busy: int = 0


_ALU = Use("alu", 2, 1)
_SHIFTED = Use("shift", 1, 2)
#: By the beginning of the mnemonic: the first row that fits, and `_ALU` for all else.
_USES: tuple[tuple[tuple[str, ...], Use], ...] = (
    (("vdiv", "vsqrt"), Use("float", 1, 16, 14)),
    (("vfma", "vfms", "vfnm", "vmla", "vmls", "vnml"), Use("float", 1, 6)),
    (("vldr", "ldr"), Use("load", 2, 2)),
    (("vstr", "str"), Use("store", 1, 1)),
    (("vmov", "vmrs", "vmsr", "vcmp"), Use("float", 2, 3)),
    (("v",), Use("float", 1, 3)),
    (("sdiv", "udiv"), Use("divide", 1, 7, 6)),
    (("mul", "mla", "mls", "sml", "smm", "smu", "uml", "umu", "uma"), Use("multiply", 1, 2)),
    (("ssat", "usat"), Use("shift", 1, 3)),
    (("sbfx", "ubfx", "bfi", "bfc", "pkh", "sxta", "uxta", "qadd", "qsub"), _SHIFTED),
    (("lsl", "lsr", "asr", "ror", "rrx", "sxt", "uxt", "rev", "rbit"), Use("shift", 1, 1)),
    (("sadd", "ssub", "uadd", "usub", "shadd", "shsub", "uhadd", "sel"), Use("simd", 1, 1)),
    (("b", "cb", "tb"), Use("branch", 1, 1)),
)  # fmt: skip
#: Several registers move two at a time.
_SEVERAL = ("ldm", "stm", "push", "pop", "vldm", "vstm", "vpush", "vpop")
_SHIFTS = (", lsl #", ", lsr #", ", asr #", ", ror #")
#: The cost of a wrongly predicted branch: the pipeline has six stages.
_WRONG = Cycles(3, 5, 8)


class DualIssueTable(CostTable):
    """The costs of a core that starts two instructions at once; see `CostTable`.

    The rarer direction of a conditional branch is predicted wrongly. Raises ToolMissing without
    Capstone, which reports the registers of instructions.
    """

    def __init__(self, sections: tuple[CodeSection, ...], timing: Timing) -> None:
        super().__init__(sections, timing)
        for section in sections:
            for start, stop, is_code in section.runs():
                if is_code:
                    self._schedule(section.bytes_between(start, stop), start)

    def _schedule(self, code: bytes, address: int) -> None:
        instructions = list(_decoded(code, address))
        starts = {target for each in instructions if (target := _target(each)) is not None}
        pipeline, follows = _Pipeline(), False
        for each in instructions:
            if not follows or each.address in starts:
                pipeline = _Pipeline()
            cost = self.costs.get(each.address)
            if cost is not None:
                taken = pipeline.start(each)
                self.costs[each.address] = cost._replace(cycles=exactly(taken))
            follows = _use(each).unit != "branch"

    def _spent(self, address: int, count: int, counts: Any) -> Cycles:
        spent = super()._spent(address, count, counts)
        cost = self.costs.get(address)
        if cost is None or not cost.conditional:
            return spent
        not_taken = min(count, counts.get(self._follower.get(address, -1), 0))
        return spent.plus(_WRONG.times(min(not_taken, count - not_taken)))


class _Pipeline:
    """Cycles at which the instructions of a straight line start."""

    def __init__(self) -> None:
        self._cycle = -1
        self._ready: dict[int, int] = {}
        self._units: list[str] = ["full", "full"]

    def start(self, instruction: Any) -> int:
        """The cycles from the start of the previous instruction to the start of this one."""
        use = _use(instruction)
        read, written = instruction.regs_access()
        at = max([self._cycle, *(self._ready.get(register, 0) for register in read)])
        if at == self._cycle and not self._fits(use):
            at += 1
        passed = at - self._cycle
        self._units = [*(self._units if not passed else ()), use.unit]
        self._cycle = at
        for register in written:
            self._ready[register] = at + use.latency
        if use.busy:
            self._cycle, self._units = at + use.busy - 1, ["full", "full"]
            passed += use.busy - 1
        return passed

    def _fits(self, use: Use) -> bool:
        return len(self._units) < 2 and self._units.count(use.unit) < use.width


def _use(instruction: Any) -> Use:
    mnemonic = instruction.mnemonic
    if mnemonic.startswith(_SEVERAL):
        registers = len(instruction.operands) - (0 if "p" in mnemonic[:3] else 1)
        return Use("load", 1, 2, max((registers + 1) // 2, 1))
    found = next((use for begins, use in _USES if mnemonic.startswith(begins)), _ALU)
    is_shifted = found is _ALU and any(shift in instruction.op_str for shift in _SHIFTS)
    return _SHIFTED if is_shifted else found


def _target(instruction: Any) -> int | None:
    """Target of a direct branch."""
    if _use(instruction).unit != "branch" or not instruction.operands:
        return None
    last = instruction.operands[-1]
    return int(last.imm) if last.type == 2 else None  # CS_OP_IMM


def _decoded(code: bytes, address: int) -> Iterator[Any]:
    try:
        capstone: Any = importlib.import_module("capstone")
    except ImportError:
        raise ToolMissing(
            "modelled cycles of this core need the Python package capstone",
            hint="pip install 'edgec[sim]'",
        ) from None
    mode = capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS
    disassembler = capstone.Cs(capstone.CS_ARCH_ARM, mode)
    disassembler.detail = True
    disassembler.skipdata = True
    for each in disassembler.disasm(code, address):
        if each.id:
            yield each
