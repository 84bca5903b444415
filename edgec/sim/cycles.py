"""Modelled Cortex-M4 cycles from execution counts.

The costs are those of the Cortex-M4 Technical Reference Manual (Arm 100166, instruction set
summary) with zero wait states, the same for every core and every program, so that two programs
can be compared: single load 2, or 1 right after another single load or store (pipelined); single
store 1; LDRD and STRD 3; LDM, STM, PUSH, POP and the VFP forms 1 + registers, 2 more when PC is
loaded; a taken branch 3, one not taken 1; TBB and TBH 4; divide 8 (2 to 12); VDIV and VSQRT 14;
VMLA, VMLS, VFMA, VFMS 3; VMOV of two register pairs 2; everything else 1. There are no wait
states, no contention and no literal-pool effects in it.

A conditional branch is taken as often as it was executed less the executions of the instruction
after it. Two known peculiarities follow the model rather than the machine: `LDR PC` costs a load,
and a conditional BX, BL, SDIV or VMOV in an IT block costs 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgec.sim.image import CodeSection
from edgec.sim.thumb import Instruction, Kind, decode, is_wide, sweep

_FIXED_COST = {
    Kind.OTHER: 1,
    Kind.IT: 1,
    Kind.STORE: 1,
    Kind.VECTOR_STORE: 1,
    Kind.DUAL: 3,
    Kind.BRANCH: 1,
    Kind.CONDITIONAL_BRANCH: 1,
    Kind.TABLE_BRANCH: 4,
    Kind.DIVIDE: 8,
    Kind.VECTOR_DIVIDE: 14,
    Kind.VECTOR_MULTIPLY_ADD: 3,
    Kind.VECTOR_MOVE_PAIR: 2,
}
_REFILL = 2
# Inside an IT block these are written with a condition and then count as any instruction.
_PLAIN_IN_IT = frozenset({Kind.BRANCH, Kind.TABLE_BRANCH, Kind.DIVIDE, Kind.VECTOR_MOVE_PAIR})
_SINGLE = frozenset({Kind.LOAD, Kind.STORE, Kind.VECTOR_LOAD, Kind.VECTOR_STORE})
_B_NARROW, _B_NARROW_MASK = 0xE000, 0xF800


@dataclass(frozen=True)
class Cost:
    """Cycles of one instruction at one address: each execution, and each taken branch."""

    size: int
    cycles: int
    taken: int = 0  # further cycles when taken
    conditional: bool = False  # taken as `CostTable.taken` says, else always


class CostTable:
    """Costs by address of all instructions of an image; built once, in one linear sweep."""

    def __init__(self, sections: tuple[CodeSection, ...]) -> None:
        self.costs: dict[int, Cost] = {}
        self._follower: dict[int, int] = {}
        previous: tuple[int, bool] | None = None  # address, is a single load or store
        for section in sections:
            for start, stop, is_code in section.runs():
                previous = self._sweep(section, start, stop, previous) if is_code else None

    def _sweep(
        self, section: CodeSection, start: int, stop: int, previous: tuple[int, bool] | None
    ) -> tuple[int, bool] | None:
        for located in sweep(section.bytes_between(start, stop), start):
            instruction = decode(located.first, located.second)
            in_it = located.condition is not None
            single = (
                instruction.kind in _SINGLE
                and instruction.plain
                and not (in_it and instruction.kind in (Kind.VECTOR_LOAD, Kind.VECTOR_STORE))
            )
            after_single = previous is not None and previous[1]
            self.costs[located.address] = _cost(
                instruction, located.first, located.second, in_it, after_single
            )
            if previous is not None:
                self._follower[previous[0]] = located.address
            previous = (located.address, single)
        return previous

    def cycles(self, counts: Mapping[int, int]) -> dict[int, int]:
        """Return the modelled cycles spent at each address of `counts` (executions)."""
        result = {}
        for address, count in counts.items():
            cost = self.costs.get(address)
            if cost is None:  # no code there in the ELF
                result[address] = count
                continue
            cycles = count * cost.cycles
            if cost.taken:
                taken = count
                if cost.conditional:
                    taken -= min(count, counts.get(self._follower.get(address, -1), 0))
                cycles += taken * cost.taken
            result[address] = cycles
        return result


def _cost(
    instruction: Instruction, first: int, second: int, in_it: bool, after_single: bool
) -> Cost:
    kind = instruction.kind
    if kind in (Kind.LOAD, Kind.VECTOR_LOAD):
        return Cost(instruction.size, 1 if after_single else 2)
    if kind in (Kind.MULTIPLE, Kind.VECTOR_MULTIPLE):
        return Cost(
            instruction.size, 1 + instruction.registers + (2 if instruction.loads_pc else 0)
        )
    if in_it and kind in _PLAIN_IN_IT:
        if kind is Kind.BRANCH and _is_plain_branch(first, second):  # B becomes B<cond>
            return Cost(instruction.size, 1, _REFILL, True)
        return Cost(instruction.size, 1)
    taken = _REFILL if kind in (Kind.BRANCH, Kind.CONDITIONAL_BRANCH) else 0
    return Cost(instruction.size, _FIXED_COST[kind], taken, kind is Kind.CONDITIONAL_BRANCH)


def _is_plain_branch(first: int, second: int) -> bool:
    if is_wide(first):
        return second & 0xD000 == 0x9000  # B.W; BL has bit 14
    return first & _B_NARROW_MASK == _B_NARROW
