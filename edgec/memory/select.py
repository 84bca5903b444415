"""Choose one variant of every group, looking at the whole memory problem.

A variant changes the bytes needed during its own step only: its scratch lives there, and the
inputs it may overlap die there. So the least peak of a choice, by live bytes, is the maximum over
the steps of a number that depends on one group each, and choosing is exact without enumeration:
for a limit in bytes, every group takes its fastest variant within the limit. Placement can
need more than live bytes; then the next limits are tried, as long as they can still win, and if few
choices can win at all, all of them: slower variants within a limit may lie better.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from edgec.errors import PlanError
from edgec.memory.bound import lower_bound_bytes
from edgec.memory.problem import DEFAULT_REGION, Buffer, Overlap, Plan, Problem, Region
from edgec.memory.solve import plan_memory

if TYPE_CHECKING:
    from edgec.graph.ir import Function
    from edgec.options import Io
from edgec.passes.lower_groups import LoweredGroup, Variant

Optimize = Literal["time", "ram", "size", "balanced"]

# `balanced` may cost this much more than `time`, in instructions.
BALANCED_SLOWDOWN = 1.03
#: Placements that are tried for the plan of a choice.
TRIAL_NODES = 10_000
#: Choices of which all are planned, where placement needs more than live bytes.
MOST_CHOICES = 100


@dataclass(frozen=True)
class Choice:
    """One variant of a group, as memory and time see it.

    `overlaps` are legal if this variant runs; `flash_bytes`, of code and constants, is an estimate.
    """

    scratch_bytes: int
    instructions: int
    flash_bytes: int = 0
    overlaps: tuple[Overlap, ...] = ()


@dataclass(frozen=True)
class Menu:
    """What a group that runs at `step` can be; its scratch becomes a buffer `scratch`."""

    step: int
    scratch: str
    choices: tuple[Choice, ...]
    align_bytes: int = 16
    regions: tuple[str, ...] = (DEFAULT_REGION,)

    def buffers(self, choice: Choice) -> tuple[Buffer, ...]:
        """Return the buffers that exist because of a choice."""
        if not choice.scratch_bytes:
            return ()
        size, step = choice.scratch_bytes, self.step
        return (Buffer(self.scratch, size, step, step + 1, self.align_bytes, self.regions),)


@dataclass(frozen=True)
class Selection:
    """The index taken from each menu, the problem that results, and its plan.

    No choice from the menus has a peak below `lower_bound_bytes` (with several regions: of all
    together).
    """

    indices: tuple[int, ...]
    problem: Problem
    plan: Plan
    instructions: int
    lower_bound_bytes: int


def select_variants(
    menus: Sequence[Menu],
    buffers: Sequence[Buffer],
    optimize: Optimize = "balanced",
    *,
    regions: tuple[Region, ...] = (Region(DEFAULT_REGION),),
    node_limit: int = TRIAL_NODES,
) -> Selection:
    """Return the choice that suits `optimize`, planned.

    time: the fewest instructions, then the smallest peak. ram: the smallest peak, then the fewest
    instructions. size: the least flash, then the smallest peak. balanced: the smallest peak within
    BALANCED_SLOWDOWN of the fewest instructions. A region's capacity comes before all of these:
    raises PlanError only if no choice that was tried fits.
    """
    table = _Table(menus, buffers, regions, node_limit)
    least = table.least_peak
    if optimize == "time":
        limits = [math.inf, *reversed(table.limits)]
        return table.first_that_fits(limits, lambda c: c.instructions)
    if optimize == "size":
        limits = [math.inf, *reversed(table.limits)]
        return table.first_that_fits(limits, lambda c: c.flash_bytes)
    budget = math.inf
    if optimize == "balanced":
        budget = BALANCED_SLOWDOWN * table.instructions(table.fastest(math.inf))
    best: Selection | None = None
    tried: set[tuple[int, ...]] = set()
    for limit in [least, *(limit for limit in table.limits if limit > least)]:
        if best is not None and limit > _peak(best):
            break
        indices = table.fastest(limit)
        if indices is None or indices in tried or table.instructions(indices) > budget:
            continue
        tried.add(indices)
        found = table.plan(indices)
        if found is not None and (best is None or _rank(found) < _rank(best)):
            best = found
    if best is None:  # no choice within the budget fits the capacity: the budget yields
        return table.first_that_fits(list(reversed(table.limits)), lambda c: c.instructions)
    if _peak(best) > least:
        for indices in table.few_below(_peak(best)):
            if indices not in tried and table.instructions(indices) <= budget:
                found = table.plan(indices)
                if found is not None and _rank(found) < _rank(best):
                    best = found
    return best


def choose_variants(
    groups: Sequence[LoweredGroup],
    optimize: Optimize,
    function: Function | None = None,
    *,
    io: Io = "arena",
    capacity_bytes: int | None = None,
) -> tuple[Variant, ...]:
    """Return the variant to emit for each lowered group.

    With `function` the choice sees the lifetimes of all values; without it, each group is judged
    by its own scratch and instructions.
    """
    from edgec.memory.layout import (
        ALIGN_BYTES,
        ARENA,
        StoredValues,
        scratch_align_bytes,
        scratch_name,
    )

    if all(len(lowered.variants) == 1 for lowered in groups):
        return tuple(lowered.variants[0] for lowered in groups)
    buffers: tuple[Buffer, ...] = ()
    permitted: dict[tuple[int, int], tuple[Overlap, ...]] = {}
    if function is not None:
        stored = StoredValues(function, groups, io=io)
        buffers = stored.buffers()
        for position, lowered in enumerate(groups):
            for at, variant in enumerate(lowered.variants):
                known = stored.overlaps(position, variant, with_same_place=True)
                permitted[position, at] = tuple(known)
    menus = [
        Menu(
            position,
            scratch_name(position),
            tuple(
                Choice(
                    v.scratch_bytes,
                    v.instructions,
                    v.code_bytes + v.constant_bytes if optimize == "size" else 0,
                    permitted.get((position, at), ()),
                )
                for at, v in enumerate(lowered.variants)
            ),
            max(
                (scratch_align_bytes(v, place) for v in lowered.variants for place in v.places),
                default=ALIGN_BYTES,
            ),
            (ARENA,),
        )
        for position, lowered in enumerate(groups)
    ]
    selection = select_variants(menus, buffers, optimize, regions=(Region(ARENA, capacity_bytes),))
    return tuple(lowered.variants[i] for lowered, i in zip(groups, selection.indices, strict=True))


def _peak(selection: Selection) -> int:
    return sum(selection.plan.peak_bytes.values())


def _rank(selection: Selection) -> tuple[int, int]:
    return _peak(selection), selection.instructions


class _Table:
    """Live bytes of every choice at its step, and the choices that limits on them leave."""

    def __init__(
        self,
        menus: Sequence[Menu],
        buffers: Sequence[Buffer],
        regions: tuple[Region, ...],
        node_limit: int,
    ) -> None:
        self.menus = menus
        self.fixed = tuple(buffers)
        self.regions = regions
        self.node_limit = node_limit
        self.needs: list[list[int]] = []
        live_at: dict[int, list[Buffer]] = {}
        for b in buffers:
            for step in range(b.start, b.stop):
                live_at.setdefault(step, []).append(b)
        for menu in menus:
            live = live_at.get(menu.step, [])
            self.needs.append(
                [
                    lower_bound_bytes([*live, *menu.buffers(choice)], choice.overlaps)
                    for choice in menu.choices
                ]
            )
        self.limits: list[float] = sorted({float(need) for row in self.needs for need in row})
        # Steps without a menu bound the peak too; nothing may overlap there.
        others = {b.start for b in buffers} - {menu.step for menu in menus}
        alone = [lower_bound_bytes(live_at[t]) for t in others]
        self.least_peak = max([*alone, *(min(row) for row in self.needs)], default=0)
        self.refused: PlanError | None = None

    def fastest(self, limit: float) -> tuple[int, ...] | None:
        """Return for each menu the fastest choice within the limit, or None if one has none."""
        return self.cheapest(limit, lambda choice: choice.instructions)

    def cheapest(self, limit: float, cost: Callable[[Choice], int]) -> tuple[int, ...] | None:
        """The same for any cost; equals are decided by bytes needed, then by menu order."""
        indices = []
        for menu, needs in zip(self.menus, self.needs, strict=True):
            within = [i for i, need in enumerate(needs) if need <= limit]
            if not within:
                return None
            indices.append(min(within, key=lambda i: (cost(menu.choices[i]), needs[i], i)))
        return tuple(indices)

    def few_below(self, peak: float) -> list[tuple[int, ...]]:
        """All choices that can have so small a peak, if they are few; else none of them."""
        within = [[i for i, need in enumerate(row) if need <= peak] for row in self.needs]
        if math.prod(map(len, within)) > MOST_CHOICES:
            return []
        return list(itertools.product(*within))

    def instructions(self, indices: tuple[int, ...] | None) -> int:
        """Return the instructions of a choice."""
        assert indices is not None
        return sum(m.choices[i].instructions for m, i in zip(self.menus, indices, strict=True))

    def plan(self, indices: tuple[int, ...]) -> Selection | None:
        """Plan a choice; None, keeping the reason, if it does not fit."""
        buffers: list[Buffer] = list(self.fixed)
        overlaps: list[Overlap] = []
        for menu, i in zip(self.menus, indices, strict=True):
            buffers += menu.buffers(menu.choices[i])
            overlaps += menu.choices[i].overlaps
        problem = Problem(tuple(buffers), tuple(overlaps), self.regions)
        try:
            plan = plan_memory(problem, node_limit=self.node_limit)
        except PlanError as error:
            self.refused = error
            return None
        total = self.instructions(indices)
        return Selection(indices, problem, plan, total, self.least_peak)

    def first_that_fits(self, limits: Sequence[float], cost: Callable[[Choice], int]) -> Selection:
        """Return the plan of the cheapest choice for the first limit that gives one."""
        tried: set[tuple[int, ...]] = set()
        for limit in limits or [math.inf]:
            indices = self.cheapest(limit, cost)
            if indices is None or indices in tried:
                continue
            tried.add(indices)
            found = self.plan(indices)
            if found is not None:
                return found
        if self.refused is not None:
            raise self.refused
        raise PlanError("a group offers no variant at all")
