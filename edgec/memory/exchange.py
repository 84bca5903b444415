"""Local search over the menus: make moves while one makes the choice cheaper.

A move gives some groups other variants. It is kept if the whole choice then costs less, with the
arena of a new memory plan. Lower bounds reject most moves before a plan is made.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from edgec.errors import PlanError
from edgec.graph.ir import Function
from edgec.loop.microkernel import kernels_of
from edgec.memory.bound import lower_bound_bytes
from edgec.memory.layout import ARENA, merged_places, placement_problem
from edgec.memory.objective import Objective, Rank, Tally, without_frames
from edgec.memory.problem import Buffer, Problem
from edgec.memory.solve import plan_memory
from edgec.options import Io
from edgec.passes.lower_groups import LoweredGroup, Variant

#: Partial plans that the memory planner visits for one choice.
TRIAL_NODES = 2_500
#: Sets of groups that are tried with each kernel, at most.
MOST_PARTS = 16
#: Bytes of constants that a move to int4 weights must save, unless a kernel is no longer needed:
#: the weights of a small int8 layer may fit int4 by chance.
LEAST_SAVED_BYTES = 1024
#: Groups in all plans that are made to improve one choice, counted once for each plan.
MOST_PLANNED = 4_000
#: Problems whose lower bound is computed, at most, for each one that is planned.
PROBLEMS_FOR_A_PLAN = 3
#: Above every rank.
WORST: Rank = (math.inf, math.inf, math.inf, 0, 0)

Variants = tuple[Variant, ...]
#: Variants by the positions of the groups that take them.
Move = Mapping[int, Variant]


class Costs:
    """The cost of choices for these groups in this order."""

    def __init__(
        self, function: Function, groups: Sequence[LoweredGroup], objective: Objective, io: Io
    ) -> None:
        self.function, self.groups, self.objective, self.io = function, groups, objective, io
        #: The arena by the placed buffers; None if there is no plan. Choices share plans.
        self.peaks: dict[tuple[object, object], int | None] = {}
        #: The same by the buffers of each step, in any order of steps. Networks repeat layers: a
        #: move that does not pay in one of equal layers is not planned for the others.
        self.alike: dict[object, int | None] = {}
        #: How many problems were set up.
        self.problems = 0

    def rank(
        self, variants: Variants, tally: Tally | None = None, below: Rank = WORST
    ) -> Rank | None:
        """The rank of a choice; None if it has no plan or its rank is not below `below`."""
        tally = tally or Tally(self.objective, variants)
        rank = self.objective.rank
        if rank(tally, 1) >= below:
            return None
        problem = self.problem(variants)
        self.problems += 1
        if rank(tally, lower_bound_bytes(problem.buffers, problem.overlaps)) >= below:
            return None
        steps = _steps(problem)
        peak = self.alike.get(steps)
        if peak is not None and rank(tally, peak) >= below:
            return None
        self.alike[steps] = peak = self._peak(problem)
        found = WORST if peak is None else rank(tally, peak)
        return found if found < below else None

    def peak_bytes(self, variants: Variants) -> int:
        """The arena of a choice that has a plan."""
        return self._peak(self.problem(variants)) or 0

    def problem(self, variants: Variants) -> Problem:
        """The placement problem."""
        return placement_problem(self.function, self.groups, variants, io=self.io)

    def _peak(self, problem: Problem) -> int | None:
        key = problem.buffers, problem.overlaps
        if key not in self.peaks:
            try:
                plan = plan_memory(problem, node_limit=TRIAL_NODES)
                self.peaks[key] = plan.peak_bytes[ARENA]
            except PlanError:
                self.peaks[key] = None
        return self.peaks[key]

    def stores_in_fewer_bits(self, move: Move, variants: Variants) -> bool:
        """Whether a group would store its weights in fewer bits than before."""
        fact = self.objective.fact
        return any(fact(variants[i]).is_short < fact(v).is_short for i, v in move.items())

    def stores_in_more_bits(self, move: Move, variants: Variants) -> bool:
        """Whether a group would store its weights in more bits than before; their bits are chosen
        for many groups at once, elsewhere."""
        fact = self.objective.fact
        return any(fact(variants[i]).is_short > fact(v).is_short for i, v in move.items())


def _steps(problem: Problem) -> object:
    """The buffers and overlaps of each step; equal if two problems differ in the order alone."""
    permitted: dict[str, list[tuple[str, int]]] = {}
    for overlap in problem.overlaps:
        permitted.setdefault(overlap.second, []).append((overlap.first, overlap.distance_bytes))
    live: dict[str, Buffer] = {}
    found: Counter[object] = Counter()
    waiting = sorted(problem.buffers, key=lambda b: b.start)
    for step, starting in groupby(waiting, key=lambda b: b.start):
        live = {name: b for name, b in live.items() if b.stop > step}
        live |= {b.name: b for b in starting}
        sizes = {n: (b.size_bytes, b.align_bytes, b.start - step, b.stop - step)
                 for n, b in live.items()}  # fmt: skip
        pairs = [
            (sizes[first], sizes[second], distance)
            for second, b in live.items()
            if b.start == step
            for first, distance in permitted.get(second, ())
        ]
        found[tuple(sorted(sizes.values())), tuple(sorted(pairs))] += 1
    return frozenset(found.items())


def exchanged(costs: Costs, variants: Variants, rank: Rank) -> tuple[Rank, Variants]:
    """The choice after all moves that pay, with its rank. rank: of `variants`."""
    improved, most = True, MOST_PLANNED // max(len(variants), 1)
    while improved:
        improved = False
        tally = Tally(costs.objective, variants)
        for move in _moves(costs, variants):
            is_enough = len(costs.peaks) > most or costs.problems > PROBLEMS_FOR_A_PLAN * most
            if is_enough or costs.stores_in_more_bits(move, variants):
                continue
            found = _after(costs, variants, move, tally, rank)
            if found is not None:
                rank, variants = found
                improved = True
    return rank, variants


def _after(
    costs: Costs, variants: Variants, move: Move, tally: Tally, rank: Rank
) -> tuple[Rank, Variants] | None:
    """The choice after a move that pays, and its tally; else None, with the tally unchanged."""
    trial, before = list(variants), (tally.stored_bytes, tally.kernels)
    for position, variant in move.items():
        tally.change(trial[position], -1)
        tally.change(variant, 1)
        trial[position] = variant
    saves = before[0] - tally.stored_bytes >= LEAST_SAVED_BYTES or tally.kernels < before[1]
    found = None
    if saves or not costs.stores_in_fewer_bits(move, variants):
        found = costs.rank(tuple(trial), tally, rank)
    if found is not None:
        return found, tuple(trial)
    for position, variant in move.items():
        tally.change(variant, -1)
        tally.change(variants[position], 1)
    return None


def _moves(costs: Costs, variants: Variants) -> Iterator[Move]:
    """All moves from a choice; moves that change many groups come first."""
    groups = costs.groups
    menus = frozenset().union(*(_calls(v) for g in groups for v in g.variants))
    for name in sorted(menus):
        yield from _without(name, groups, variants)
        yield from _with(name, groups, variants)
    others = {i: without_frames(lowered) for i, lowered in enumerate(groups)}
    yield {i: _fastest(menu.variants) for i, menu in others.items() if menu is not groups[i]}
    merged = merged_places(costs.function, groups, variants, io=costs.io)
    tied = [i for i, lowered in enumerate(groups) if lowered.group.output in merged]
    for position in sorted(tied, key=lambda i: -groups[i].group.output.type.nbytes):
        yield {position: replace(variants[position], in_place=())}
    for position, lowered in enumerate(groups):
        yield from ({position: v} for v in lowered.variants if v is not variants[position])


def _without(name: str, groups: Sequence[LoweredGroup], variants: Variants) -> Iterator[Move]:
    """Moves that stop using a kernel: for kernels that are called already, then for any."""
    called = frozenset().union(*map(_calls, variants)) - {name}
    users = [i for i, variant in enumerate(variants) if name in _calls(variant)]
    for allowed in (called, None):
        menus = {i: [v for v in groups[i].variants if _may_call(v, name, allowed)] for i in users}
        if users and all(menus.values()):
            yield {i: _fastest(menu) for i, menu in menus.items()}
            yield {i: _fastest_within(menu, variants[i]) for i, menu in menus.items()}


def _with(name: str, groups: Sequence[LoweredGroup], variants: Variants) -> Iterator[Move]:
    """Moves that take a kernel: in all groups that can; then where it saves constants; then without
    the groups in which each saved byte costs the most instructions, a few more each time."""
    menus = {i: [v for v in g.variants if name in _calls(v)] for i, g in enumerate(groups)}
    menus = {i: menu for i, menu in menus.items() if menu and name not in _calls(variants[i])}
    yield {i: _fastest(menu) for i, menu in menus.items()}
    takes = {i: _fastest_within(menu, variants[i]) for i, menu in menus.items()}
    yield takes
    prices = {
        i: (v.instructions - variants[i].instructions) / saved
        for i, v in takes.items()
        if (saved := variants[i].constant_bytes - v.constant_bytes) > 0
    }
    dearest = sorted(prices, key=lambda i: -prices[i])
    for first in range(0, len(dearest), -(-len(dearest) // MOST_PARTS) or 1):
        yield {i: takes[i] for i in dearest[first:]}


def _may_call(variant: Variant, name: str, allowed: Collection[str] | None) -> bool:
    calls = _calls(variant)
    return name not in calls and (allowed is None or calls <= frozenset(allowed))


def _calls(variant: Variant) -> frozenset[str]:
    return kernels_of(variant.function)


def _fastest(variants: Sequence[Variant]) -> Variant:
    return min(variants, key=lambda v: v.instructions)


def _fastest_within(variants: Sequence[Variant], now: Variant) -> Variant:
    """The fastest variant with no more scratch than `now`; the fastest of all if there is none."""
    within = [v for v in variants if v.scratch_bytes <= now.scratch_bytes]
    return _fastest(within or variants)
