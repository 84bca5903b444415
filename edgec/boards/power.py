"""The power of a board's chip while it computes, and the resulting energy of one inference."""

from __future__ import annotations

from dataclasses import dataclass

from edgec.boards.table import Table
from edgec.errors import BoardError

ENERGY_NOTE = (
    "Millijoules are the typical current of the chip alone, by its data sheet, times supply voltage"
    " and modelled time: wait states, temperature and the single chip make this wrong by up to"
    " about a half either way, and the rest of the board is not in it."
)
"""The note beside every energy figure."""


@dataclass(frozen=True)
class Power:
    """Current in mA and supply in volts at the board's clock, typical, by the chip's data sheet.

    `source` names the table and its conditions.
    """

    current_ma: float
    supply_v: float
    source: str

    @property
    def milliwatts(self) -> float:
        return self.current_ma * self.supply_v


def energy_mj(milliwatts: float | None, cycles: int | None, clock_hz: int) -> float | None:
    """Millijoules of `cycles` at the clock; None where the power or the cycles are not known."""
    if milliwatts is None or cycles is None or not clock_hz:
        return None
    return milliwatts * cycles / clock_hz


def read_power(table: Table) -> Power | None:
    """The table [power] of a board file, if it has one. Raises BoardError."""
    if "power" not in table.names():
        return None
    entry = table.table("power")
    power = Power(
        current_ma=entry.number("current_ma", 0.0),
        supply_v=entry.number("supply_v", 0.0),
        source=entry.text("source"),
    )
    if not (0 < power.current_ma < 1e5 and 0 < power.supply_v < 100):
        raise BoardError(
            f"{entry.where}: {power.current_ma} mA at {power.supply_v} V are not possible",
            hint="current_ma is in milliamperes, supply_v in volts",
        )
    entry.finish()
    return power
