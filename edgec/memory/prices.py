"""Decide what runs by prices: `--optimize time=1,flash=0.5,ram=0.2`.

One objective, `Prices.cost`, over everything that may run. A named level is decided by itself.
For prices

1. every level is decided, and with `ram` the point of the front of memory and instructions that
   costs least; the cheapest of these is the start;
2. groups exchange their variants one by one, and all that call a kernel give it up together, as
   long as that makes the whole cheaper. A kernel's code counts once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import get_args

from edgec.graph.ir import Function
from edgec.loop.microkernel import kernels_of
from edgec.memory.channel_order import decide_order, flash_bytes
from edgec.memory.choose import Choice, peak_bytes
from edgec.memory.layout import ARENA, placement_problem
from edgec.memory.pieces import Pieces
from edgec.memory.solve import plan_memory
from edgec.options import Optimize, Options, Prices
from edgec.passes.lower_groups import LoweredGroup, Variant
from edgec.targets.core import Core
from edgec.targets.target import target_for

#: Placements that are tried for the plan of a choice.
TRIAL_NODES = 400

#: Models of fewer instructions are compared with what is fastest, which has to save this part.
SMALL_MODEL, LEAST_GAIN = 20_000, 0.1

Variants = tuple[Variant, ...]
#: Other variants for those of all groups.
Move = Callable[[Variants], Variants]


@dataclass(frozen=True)
class Decision:
    """What runs. options: with the level whose code it is. function: as its kernels need it."""

    options: Options
    function: Function
    choice: Choice


def decide_by_prices(
    function: Function, core: Core, options: Options, limit_bytes: int | None = None
) -> Decision:
    """What runs, by a named level or by prices.

    limit_bytes: what the arena should not exceed. Raises PlanError as `decide`.
    """
    prices = options.optimize
    if not isinstance(prices, Prices):
        one = _of_level(function, core, options, prices, limit_bytes)
        return _or_plain(function, core, one, limit_bytes) if prices == "balanced" else one
    levels: tuple[Optimize, ...] = get_args(Optimize)
    found = [_of_level(function, core, options, level, limit_bytes) for level in levels]
    found += _of_front(function, core, found, prices, limit_bytes)
    costs = [_Costs(decision, prices, limit_bytes) for decision in found]
    best, of_best = min(
        zip(found, costs, strict=True), key=lambda pair: pair[1].planned(pair[0].choice.variants)
    )
    variants = _exchanged(best, of_best)
    return replace(best, choice=replace(best.choice, variants=variants))


def _or_plain(function: Function, core: Core, found: Decision, limit_bytes: int | None) -> Decision:
    """Of small models, what is fastest, where that is much faster and takes no more of anything."""
    if _instructions(found.choice.variants) > SMALL_MODEL:
        return found
    fast = _of_level(function, core, found.options, "time", limit_bytes)
    one, other = (
        (
            _instructions(d.choice.variants), flash_bytes(d.choice.variants),
            peak_bytes(d.function, d.choice.groups, d.choice.variants, d.options),
        ) for d in (fast, found)
    )  # fmt: skip
    is_better = one[0] <= (1 - LEAST_GAIN) * other[0] and one[1] <= other[1] and one[2] <= other[2]
    return replace(fast, options=found.options) if is_better else found


def _of_level(
    function: Function, core: Core, options: Options, level: Optimize, limit_bytes: int | None
) -> Decision:
    options = replace(options, optimize=level)
    return Decision(
        options, *decide_order(function, target_for(core, options), options, limit_bytes)
    )


def _of_front(
    function: Function,
    core: Core,
    found: Sequence[Decision],
    prices: Prices,
    limit_bytes: int | None,
) -> list[Decision]:
    """The point of the front of `ram` that costs least, if that is not the one it took."""
    ram = next(decision for decision in found if decision.options.optimize == "ram")
    front, taken = ram.choice.front, ram.choice.taken
    if not front:
        return []
    flash = flash_bytes(ram.choice.variants)
    cheapest = min(
        range(len(front)),
        key=lambda i: prices.cost(front[i].instructions, flash, front[i].need_bytes),
    )
    limit = front[cheapest].need_bytes
    if cheapest == taken or (limit_bytes is not None and limit > limit_bytes):
        return []
    return [_of_level(function, core, ram.options, "ram", limit)]


class _Costs:
    """What choices of one decision's variants cost."""

    def __init__(self, decision: Decision, prices: Prices, limit_bytes: int | None) -> None:
        self.decision = decision
        self.prices = prices
        self.limit = math.inf if limit_bytes is None else limit_bytes
        #: By what is placed, which many choices share.
        self.peaks: dict[tuple[object, object], int] = {}

    def least(self, variants: Variants, ram_bytes: int = 1) -> float:
        """The price where the arena takes this."""
        return self.prices.cost(_instructions(variants), flash_bytes(variants), ram_bytes)

    def planned(self, variants: Variants) -> tuple[float, float]:
        """By how much the arena breaks the limit, and the price."""
        peak = self.peak_bytes(variants)
        return max(0, peak - self.limit), self.least(variants, peak)

    def peak_bytes(self, variants: Variants) -> int:
        decision, io = self.decision, self.decision.options.io
        problem = placement_problem(decision.function, decision.choice.groups, variants, io=io)
        key = problem.buffers, problem.overlaps
        if key not in self.peaks:
            self.peaks[key] = plan_memory(problem, node_limit=TRIAL_NODES).peak_bytes[ARENA]
        return self.peaks[key]


def _exchanged(decision: Decision, costs: _Costs) -> Variants:
    """The variants, with others in their place as long as the whole gets cheaper by that."""
    best = decision.choice.variants
    cost, improved = costs.planned(best), True
    moves, needs = _moves(decision.choice.groups), _needs(decision)
    while improved:
        improved = False
        for move in moves:
            trial = move(best)
            # Most moves are too dear before their plan is made.
            need = max((needs.get(id(variant), 0) for variant in trial), default=0)
            if costs.least(trial, need) >= cost[1]:
                continue
            found = costs.planned(trial)
            if found < cost:
                best, cost, improved = trial, found, True
    return best


def _needs(decision: Decision) -> dict[int, int]:
    """What the step of each variant needs at least, by the variant's identity."""
    groups = decision.choice.groups
    pieces = Pieces(decision.function, groups, {}, io=decision.options.io)
    singles = (piece for position in range(len(groups)) for piece in pieces.singles(position))
    return {id(piece.variant): piece.bound_bytes for piece in singles}


def _moves(groups: Sequence[LoweredGroup]) -> list[Move]:
    """To give up each kernel, and to take each variant of each group."""
    variants = [(position, v) for position, g in enumerate(groups) for v in g.variants]
    kernels = sorted(frozenset().union(*(kernels_of(v.function) for _, v in variants)))
    without = [partial(_without, name, groups) for name in kernels]
    return [*without, *(partial(_with, *pair) for pair in variants)]


def _with(position: int, variant: Variant, variants: Variants) -> Variants:
    return (*variants[:position], variant, *variants[position + 1 :])


def _without(name: str, groups: Sequence[LoweredGroup], variants: Variants) -> Variants:
    """The fastest variants that do not call a kernel, where there are such."""
    found = []
    for lowered, variant in zip(groups, variants, strict=True):
        others = [v for v in lowered.variants if name not in kernels_of(v.function)]
        calls = name in kernels_of(variant.function)
        found.append(min(others, key=lambda v: v.instructions) if calls and others else variant)
    return tuple(found)


def _instructions(variants: Sequence[Variant]) -> int:
    return sum(variant.instructions for variant in variants)
