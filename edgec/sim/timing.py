"""The cycles of each instruction on each simulated core, from its manual, without memory waits.

If a manual states a range, `Cycles` has its two ends and the usual number, and so has a sum. Arm
publishes no timings for the Cortex-M23, M33 and M7: `spread` is the uncertainty of a sum there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from edgec.sim.thumb import Kind


class Cycles(NamedTuple):
    """Cycles: minimum, usual number, maximum."""

    least: float
    usual: float
    most: float

    def times(self, count: float) -> Cycles:
        return Cycles(self.least * count, self.usual * count, self.most * count)

    def plus(self, other: Cycles) -> Cycles:
        return Cycles(*(a + b for a, b in zip(self, other, strict=True)))


def exactly(cycles: float) -> Cycles:
    """Return a cost whose three numbers are equal."""
    return Cycles(cycles, cycles, cycles)


ONE = exactly(1)


@dataclass(frozen=True)
class Timing:
    """The cycles of instructions on one core.

    costs: the kinds that do not take one cycle (1 + registers, for several registers). load: one
    register; load_next: directly after another single load or store. taken: extra cycles of a taken
    branch, by kind; pc: extra cycles of loading the PC by POP or LDM. spread: a sum may be wrong
    by these factors, in addition to the ranges of its parts.
    """

    source: str
    load: Cycles
    load_next: Cycles
    costs: Mapping[Kind, Cycles]
    taken: Mapping[Kind, Cycles]
    pc: Cycles
    spread: tuple[float, float] = (1.0, 1.0)
    is_dual: bool = False
    """Whether the core starts two instructions at once, see `edgec.sim.dual_issue`."""


_BRANCHES = (Kind.BRANCH, Kind.CONDITIONAL_BRANCH, Kind.CALL, Kind.EXCHANGE)
#: "P: the number of cycles required for a pipeline refill. This ranges from 1 to 3."
_REFILL = Cycles(1, 2, 3)
_COMMON = {Kind.DUAL: exactly(3), Kind.TABLE_BRANCH: Cycles(3, 4, 5), Kind.DIVIDE: Cycles(2, 8, 12)}
_FLOATS = {
    Kind.VECTOR_DIVIDE: exactly(14),
    Kind.VECTOR_MULTIPLY_ADD: exactly(3),
    Kind.VECTOR_MOVE_PAIR: exactly(2),
}

CORTEX_M4 = Timing(
    "Arm 100166, Cortex-M4 Technical Reference Manual, instruction set summary",
    load=exactly(2),
    load_next=ONE,
    costs=_COMMON | _FLOATS,
    taken=dict.fromkeys(_BRANCHES, _REFILL),
    pc=_REFILL,
)
_CORTEX_M0 = Timing(
    "Arm DDI 0432, Cortex-M0 Technical Reference Manual, table 3-1; a multiply takes one cycle, not"
    " 32 as in the smallest chips",
    load=exactly(2),
    load_next=exactly(2),
    costs={Kind.STORE: exactly(2)},
    taken=dict.fromkeys(_BRANCHES, exactly(2)) | {Kind.CALL: exactly(3)},
    pc=exactly(3),
)
_CORTEX_M0PLUS = Timing(
    "Arm DDI 0484, Cortex-M0+ Technical Reference Manual, table 3-1; a multiply takes one cycle,"
    " not 32 as in the smallest chips",
    load=exactly(2),
    load_next=exactly(2),
    costs={Kind.STORE: exactly(2)},
    taken=dict.fromkeys(_BRANCHES, ONE) | {Kind.CALL: exactly(2)},
    pc=exactly(2),
)
#: Its pipeline has two stages, too. It adds a divide to ARMv6-M, which edgec's code does not use.
_CORTEX_M23 = replace(
    _CORTEX_M0PLUS,
    source="the Cortex-M0+'s: Arm publishes no timings for the Cortex-M23, with the same code",
    spread=(0.9, 1.1),
)
_CORTEX_M3 = Timing(
    "Arm DDI 0337, Cortex-M3 Technical Reference Manual, table 3-1",
    load=exactly(2),
    load_next=ONE,
    costs={
        **_COMMON,
        Kind.MULTIPLY_ADD: exactly(2),
        Kind.LONG_MULTIPLY: Cycles(3, 4, 5),
        Kind.LONG_MULTIPLY_ADD: Cycles(4, 6, 7),
    },
    taken=dict.fromkeys(_BRANCHES, _REFILL),
    pc=_REFILL,
)
#: It starts some pairs of 16-bit instructions at once: 4.02 CoreMark/MHz, where the M4 has 3.42
#: (Arm's product pages).
_CORTEX_M33 = replace(
    CORTEX_M4,
    source="the Cortex-M4's: Arm publishes no timings for the Cortex-M33, which may be up to 20 %"
    " faster, since it starts some pairs of instructions at once",
    spread=(0.8, 1.1),
)
#: `edgec.sim.dual_issue` finds the costs of its other instructions from their pairs.
_CORTEX_M7 = Timing(
    "LLVM's model of the Cortex-M7 (ARMScheduleM7.td), since Arm publishes no timings",
    load=ONE,
    load_next=ONE,
    costs={},
    taken=dict.fromkeys(_BRANCHES, Cycles(0, 1, 2)),
    pc=Cycles(1, 3, 8),
    spread=(0.85, 1.4),
    is_dual=True,
)

TIMINGS: Mapping[str, Timing] = {
    "cortex-m0": _CORTEX_M0,
    "cortex-m0plus": _CORTEX_M0PLUS,
    "cortex-m3": _CORTEX_M3,
    "cortex-m4": CORTEX_M4,
    "cortex-m4+nofp": CORTEX_M4,
    "cortex-m7": _CORTEX_M7,
    "cortex-m7+nofp.dp": _CORTEX_M7,
    "cortex-m23": _CORTEX_M23,
    "cortex-m33": _CORTEX_M33,
}
"""By the core's name. A core without an entry has no cycle model."""
