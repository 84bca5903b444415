"""The board regions where a buffer may live, the cost of each, and their free bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from edgec.boards.board import Board, MemoryRegion
from edgec.errors import PlanError
from edgec.graph.ir import Function
from edgec.loop.traffic import Traffic, add_traffic, traffic, wait_cycles
from edgec.memory.layout import (
    ARENA,
    STATE,
    merged_places,
    outside_values,
    scratch_name,
    state_places,
)
from edgec.memory.placements import Placements, make_placements
from edgec.memory.problem import Buffer, Problem, Region
from edgec.options import Io
from edgec.passes.fuse_groups import storage
from edgec.passes.lower_groups import LoweredGroup, Variant

#: Estimated RAM and flash of start-up, link and main, until a build measures them.
VARIABLES_BYTES = 2 * 1024
PROGRAM_BYTES = 16 * 1024


@dataclass(frozen=True)
class BoardRegions:
    """A board, the placements, and by region the bytes that nothing may be placed in."""

    board: Board
    placements: Placements = field(default_factory=Placements)
    reserved: Mapping[str, int] = field(default_factory=dict)

    @property
    def rams(self) -> tuple[MemoryRegion, ...]:
        """RAM that buffers may use, the region of variables first."""
        own = [r for r in self.board.memory.values() if r.kind == "ram" and not r.hardware_only]
        return tuple(sorted(own, key=lambda region: region.name != self.board.data))

    def taken_bytes(self, name: str) -> int:
        """The other content of a region: stack, variables, the rest of the program."""
        if name in self.reserved:
            return self.reserved[name]
        if name == self.board.data:
            return self.board.stack_bytes + VARIABLES_BYTES
        return PROGRAM_BYTES if name == self.board.code else 0

    def room_bytes(self, region: MemoryRegion) -> int:
        """Bytes of a region that a plan may use."""
        return max(region.length - self.taken_bytes(region.name), 0)

    def has_choice(self, *, copies: bool) -> bool:
        """Whether weights or code may lie elsewhere than usual."""
        flash = [r for r in self.board.memory.values() if r.kind == "flash" and not r.hardware_only]
        has_some = any(what.startswith(("weights", "code")) for what, _ in self.placements.entries)
        usual = self.board.memory[self.board.code]
        waits = usual.wait_states or usual.fetch_wait_states or usual.width_bytes < 4
        return has_some or len(flash) > 1 or (copies and bool(waits))

    def plan_name(self, region: str) -> str:
        """A board region's name in the memory plan."""
        return ARENA if region == self.board.data else region


def board_regions_of(
    board: Board | None, given: Sequence[tuple[str, str]], reserved: Mapping[str, int]
) -> BoardRegions | None:
    """The regions of a build; None without a microcontroller board.

    Raises PlanError for a placement that the board cannot keep, or one without a board.
    """
    if board is None or not board.core.is_embedded:
        if given:
            raise PlanError(
                f"--place {given[0][0]}={given[0][1]}: there is no board with regions",
                hint="give --board and a microcontroller",
            )
        return None
    return BoardRegions(board, make_placements(board, given), reserved)


def with_board_regions(
    problem: Problem,
    function: Function,
    groups: Sequence[LoweredGroup],
    chosen: Sequence[Variant],
    board_regions: BoardRegions,
    io: Io,
) -> Problem:
    """The problem with the board's regions, and each buffer's regions and costs.

    States stay together: one placement moves all of them. Raises PlanError for a placement of a
    value that has no buffer.
    """
    rams = board_regions.rams
    free = {b.name for b in problem.buffers if b.regions == (ARENA,)}
    inside = _names_of(function, groups, chosen, io)
    names = {n: {n} | inside.get(n, set()) for n in free}
    board_regions.placements.require_matches("tensor", sorted(set().union(*names.values())))
    chosen_state = board_regions.placements.region("state", [])
    if len(rams) < 2:
        return problem
    reserved_names = {r.name for r in rams[1:]} & {ARENA, STATE}
    if reserved_names:
        name = board_regions.board.name
        raise PlanError(f"board {name}: a second RAM cannot be called {reserved_names.pop()}")
    is_level = len({(r.wait_states, r.width_bytes) for r in rams}) == 1
    counted = {} if is_level else buffer_traffic(function, groups, chosen, io)
    state_bytes = sum(b.size_bytes + 16 for b in problem.buffers if b.regions == (STATE,))
    state_region = chosen_state or board_regions.board.data
    room = {r.name: board_regions.room_bytes(r) for r in rams}
    room[state_region] -= state_bytes
    states = {value for state in function.states for value in (state.before, state.after)}
    callers = outside_values(function, storage(function), io) - states
    room[board_regions.board.data] -= sum(value.type.nbytes + 16 for value in callers)  # of main
    if room[state_region] < 0:
        raise PlanError(f"the model's states need {state_bytes:,} bytes, {state_region} has less")

    def placed(buffer: Buffer) -> Buffer:
        if buffer.regions != (ARENA,):
            return buffer
        wanted = board_regions.placements.region("tensor", sorted(names[buffer.name]))
        usable = [r for r in rams if wanted is None or r.name == wanted]
        costs = [
            wait_cycles(counted.get(buffer.name, {}), r.wait_states, r.width_bytes) for r in usable
        ]
        regions = tuple(board_regions.plan_name(r.name) for r in usable)
        return replace(buffer, regions=regions, costs=tuple(costs))

    others = tuple(region for region in problem.regions if region.name != ARENA)
    regions = tuple(Region(board_regions.plan_name(r.name), max(room[r.name], 0)) for r in rams)
    buffers = tuple(placed(buffer) for buffer in problem.buffers)
    return replace(problem, buffers=buffers, regions=regions + others)


def buffer_traffic(
    function: Function, groups: Sequence[LoweredGroup], chosen: Sequence[Variant], io: Io
) -> dict[str, Traffic]:
    """Return each buffer's accesses in one inference, by its name."""
    roots = storage(function)
    places = {**merged_places(function, groups, chosen, io=io), **state_places(function)}
    total: dict[str, Traffic] = {}
    for position, variant in enumerate(chosen):
        scratch_of = {
            param: scratch_name(position, place.name)
            for place in variant.scratch
            for param in place.offsets
        }
        counts = traffic(variant.function, variant.callees)
        for param, value in zip(variant.function.params, variant.args, strict=True):
            name = scratch_of.get(param.name)
            if value is not None:
                root = roots.get(value, value)
                name = places.get(root, root).name
            if name is not None:
                add_traffic(total.setdefault(name, {}), counts[param.name])
    return total


def _names_of(
    function: Function, groups: Sequence[LoweredGroup], chosen: Sequence[Variant], io: Io
) -> dict[str, set[str]]:
    """Return the values in each buffer, by its name: their names here and in the model's file."""
    roots = storage(function)
    merged = merged_places(function, groups, chosen, io=io)
    names: dict[str, set[str]] = {}
    for value in function.values():
        root = roots.get(value, value)
        known = names.setdefault(merged.get(root, root).name, set())
        known.add(value.name)
        if value.origin is not None:
            known.add(value.origin.tensor)
    return names
