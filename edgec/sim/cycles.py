"""Modelled cycles from execution counts.

`edgec.sim.timing` has the costs of instructions; this module adds them up over an image. Programs
for any core are compared by the Cortex-M4's table: single load 2, or 1 right after another single
load or store (pipelined); single store 1; LDRD and STRD 3; LDM, STM, PUSH, POP and the VFP forms 1
+ registers, 2 more when PC is loaded; a taken branch 3, one not taken 1; TBB and TBH 4; divide 8 (2
to 12); VDIV and VSQRT 14; VMLA, VMLS, VFMA, VFMS 3; VMOV of two register pairs 2; everything else
1. It has no wait states, no contention and no literal-pool effects.

A conditional branch is taken as often as it was executed less the executions of the instruction
after it. Two known peculiarities follow the model rather than the machine: `LDR PC` costs a load,
and a conditional BX, BL, SDIV or VMOV in an IT block costs 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from edgec.sim.image import CodeSection
from edgec.sim.thumb import Instruction, Kind, decode, sweep
from edgec.sim.timing import CORTEX_M4, ONE, Cycles, Timing, exactly

# Inside an IT block these are written with a condition and then count as any instruction.
_PLAIN_IN_IT = frozenset(
    {Kind.CALL, Kind.EXCHANGE, Kind.TABLE_BRANCH, Kind.DIVIDE, Kind.VECTOR_MOVE_PAIR}
)
_SINGLE = frozenset({Kind.LOAD, Kind.STORE, Kind.VECTOR_LOAD, Kind.VECTOR_STORE})
_NOTHING = exactly(0)


class Cost(NamedTuple):
    """Cycles of one instruction at one address: each execution, and each taken branch."""

    size: int
    cycles: Cycles
    taken: Cycles = _NOTHING  # further cycles when taken
    conditional: bool = False  # taken as `CostTable.taken` says, else always


class CostTable:
    """Costs by address of all instructions of an image; built once, in one linear sweep."""

    def __init__(self, sections: tuple[CodeSection, ...], timing: Timing = CORTEX_M4) -> None:
        self.costs: dict[int, Cost] = {}
        self._timing = timing
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
            self.costs[located.address] = _cost(self._timing, instruction, in_it, after_single)
            if previous is not None:
                self._follower[previous[0]] = located.address
            previous = (located.address, single)
        return previous

    def cycles(self, counts: Mapping[int, int]) -> dict[int, int]:
        """Return the usual cycles spent at each address of `counts` (executions)."""
        return {
            address: round(self._spent(address, count, counts).usual)
            for address, count in counts.items()
        }

    def total(self, counts: Mapping[int, int]) -> Cycles:
        """Return the cycles of all executions, with the least and the most they may be."""
        least = usual = most = 0.0
        for address, count in counts.items():
            spent = self._spent(address, count, counts)
            least, usual, most = least + spent.least, usual + spent.usual, most + spent.most
        low, high = self._timing.spread
        return Cycles(least * low, usual, most * high)

    def _spent(self, address: int, count: int, counts: Mapping[int, int]) -> Cycles:
        cost = self.costs.get(address)
        if cost is None:  # no code there in the ELF
            return exactly(count)
        spent = cost.cycles.times(count)
        if cost.taken is _NOTHING:
            return spent
        not_taken = counts.get(self._follower.get(address, -1), 0) if cost.conditional else 0
        return spent.plus(cost.taken.times(count - min(count, not_taken)))


def _cost(timing: Timing, instruction: Instruction, in_it: bool, after_single: bool) -> Cost:
    kind, size = instruction.kind, instruction.size
    if kind in (Kind.LOAD, Kind.VECTOR_LOAD):
        return Cost(size, timing.load_next if after_single else timing.load)
    if kind in (Kind.MULTIPLE, Kind.VECTOR_MULTIPLE):
        moved = exactly(1 + instruction.registers)
        return Cost(size, moved.plus(timing.pc) if instruction.loads_pc else moved)
    if in_it and kind in _PLAIN_IN_IT:
        return Cost(size, ONE)
    # In an IT block B becomes B<cond>.
    conditional = kind is Kind.CONDITIONAL_BRANCH or (in_it and kind is Kind.BRANCH)
    taken = timing.taken.get(kind, _NOTHING)
    return Cost(size, timing.costs.get(kind, ONE), taken, conditional)
