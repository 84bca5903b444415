"""Wait cycles of a board's chip for its flash, from its reference manual."""

from __future__ import annotations

from dataclasses import dataclass

from edgec.boards.table import Table
from edgec.errors import BoardError


@dataclass(frozen=True)
class FlashWaits:
    """The cost of reading flash at the board's clock.

    cycles: of a read, beyond the first. line_bytes: of one read. cache_bytes: of the instruction
    cache; 0 without one. `source` names the chapter.
    """

    cycles: float
    line_bytes: int
    cache_bytes: int
    source: str


def read_flash_waits(table: Table) -> FlashWaits | None:
    """The table [flash_waits] of a board file, if it has one. Raises BoardError."""
    if "flash_waits" not in table.names():
        return None
    entry = table.table("flash_waits")
    waits = FlashWaits(
        cycles=entry.number("cycles", 0.0),
        line_bytes=entry.integer("line_bytes"),
        cache_bytes=entry.integer("cache_bytes", 0),
        source=entry.text("source"),
    )
    if waits.line_bytes not in (4, 8, 16, 32, 64) or waits.cycles > 1000 or waits.cache_bytes < 0:
        raise BoardError(
            f"{entry.where}: {waits.cycles:g} cycles for a line of {waits.line_bytes} bytes, with a"
            f" cache of {waits.cache_bytes}, are not possible",
            hint="line_bytes is 4, 8, 16, 32 or 64; cycles are at most 1,000",
        )
    entry.finish()
    return waits
