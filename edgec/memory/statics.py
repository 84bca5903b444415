"""Places weights, tables and code in regions other than the board's default.

The cost in a region is the cycles that one inference waits for accesses there. Data stored in flash
can be used from RAM: then it is copied from the default region before the model runs. Since that
takes RAM, it needs a pin, or `--optimize time`, which uses faster RAM that activations leave free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgec.boards.board import MemoryRegion
from edgec.errors import PlanError
from edgec.loop.traffic import Traffic, wait_cycles
from edgec.memory.board_regions import BoardRegions
from edgec.memory.placements import Kind
from edgec.memory.problem import Buffer, Problem, Region
from edgec.memory.regions import assign_regions


@dataclass(frozen=True)
class Static:
    """Weights or code: `size_bytes`, and the accesses or executions of one inference.

    names: for pins; the first is its own.
    """

    kind: Kind
    names: tuple[str, ...]
    size_bytes: int
    accesses: Traffic
    instructions: float = 0.0

    @property
    def name(self) -> str:
        return self.names[0]

    def cycles_in(self, region: MemoryRegion) -> float:
        """The wait cycles of one inference in a region."""
        waits = wait_cycles(self.accesses, region.wait_states, region.width_bytes)
        return waits + self.instructions * region.fetch_wait_states


def place_statics(
    statics: Sequence[Static], memory: BoardRegions, peak_bytes: Mapping[str, int], *, copies: bool
) -> dict[tuple[Kind, str], str]:
    """Return the regions, by (kind, name), that are not the default one, `board.code`.

    peak_bytes: taken by activations and states in each region of the board. copies: faster RAM may
    be used. Raises PlanError for a placement that matches nothing, or a region that is too small.
    """
    board = memory.board
    for kind in ("weights", "code"):
        known = sorted({n for s in statics if s.kind == kind for n in s.names})
        memory.placements.require_matches(kind, known)
    usual = board.memory[board.code]
    regions = [usual, *(r for r in board.memory.values() if r is not usual)]
    regions = [r for r in regions if r.kind != "boot" and not r.hardware_only]
    buffers, placed = [], set()
    for number, static in enumerate(statics):
        wanted = memory.placements.region(static.kind, static.names)
        usable = [r for r in regions if _may_hold(r, static, usual, copies)]
        if wanted is not None:
            usable = [board.memory[wanted]]
            placed.add(number)
        costs = tuple(static.cycles_in(r) for r in usable)
        names = tuple(r.name for r in usable)
        buffers.append(Buffer(str(number), static.size_bytes, 0, 1, 4, names, costs=costs))
    room = {r.name: max(memory.room_bytes(r) - peak_bytes.get(r.name, 0), 0) for r in regions}
    problem = Problem(tuple(buffers), (), tuple(Region(name, n) for name, n in room.items()))
    region_of = assign_regions(problem).region_of
    for name in {region_of[str(number)] for number in placed} - {usual.name}:
        _require_room(name, [s for n, s in enumerate(statics) if region_of[str(n)] == name], room)
    found = {(s.kind, s.name): region_of[str(number)] for number, s in enumerate(statics)}
    return {key: region for key, region in found.items() if region != usual.name}


def _may_hold(region: MemoryRegion, static: Static, usual: MemoryRegion, copies: bool) -> bool:
    """Whether a region may hold something that has no placement."""
    if region is usual:
        return True
    if region.kind == "flash":
        return static.kind == "weights"  # code elsewhere needs longer calls
    is_faster = static.cycles_in(region) < static.cycles_in(usual)
    return copies and is_faster and (static.kind == "weights" or "x" in region.access)


def _require_room(name: str, inside: Sequence[Static], room: Mapping[str, int]) -> None:
    need = sum(-(-static.size_bytes // 4) * 4 for static in inside)
    if need > room[name]:
        largest = sorted(inside, key=lambda s: (-s.size_bytes, s.name))[:5]
        raise PlanError(
            f"the data placed in region {name} needs {need:,} bytes, {room[name]:,} are left there",
            details=tuple(f"  {s.size_bytes:>9,} {s.kind} {s.name}" for s in largest),
            hint="place less there",
        )
