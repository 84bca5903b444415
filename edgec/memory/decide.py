"""Decide what runs: the order of the groups, a variant of each, what streams, short weights.

| optimize | a variant of each group | order | streams |
|---|---|---|---|
| time | the fewest instructions | as given | no |
| balanced | the fastest that fit where values would lie apart | the smallest arena | to save much |
| ram | `choose`: a point of the front of memory and instructions | the smallest arena | yes |
| size | the least flash | the smallest arena | no |

A limit of the arena, and an input that is fed by rows, always take the front.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgec.errors import PlanError
from edgec.graph.ir import Function
from edgec.memory.bound import lower_bound_bytes
from edgec.memory.choose import Choice, choose, peak_bytes, streamed_if_smaller
from edgec.memory.layout import placement_problem
from edgec.memory.places import settle_places
from edgec.memory.reorder import orders
from edgec.memory.select import BALANCED_SLOWDOWN, choose_variants
from edgec.memory.short_weights import MOST_GROWTH, with_short_weights
from edgec.memory.spare_kernels import (
    spare_bytes,
    spare_float_kernels,
    spare_kernels,
    take_small_kernels,
)
from edgec.options import Optimize, Options
from edgec.passes.lower_groups import LoweredGroup, Variant
from edgec.targets.target import Target

#: `balanced` takes a larger arena than it would need where the code becomes this many times as fast
#: by it, and at least this many instructions less: some ten milliseconds.
MUCH_FASTER = 2.0
MANY_INSTRUCTIONS = 1_000_000


def decide(
    function: Function,
    groups: Sequence[LoweredGroup],
    target: Target,
    options: Options,
    limit_bytes: int | None = None,
) -> Choice:
    """What runs. limit_bytes: what the arena should not exceed. Raises PlanError as `choose`."""
    choice = _Deciding(function, target, options).decide(tuple(groups), limit_bytes)
    if options.level != "balanced":
        return choice
    most_growth = MOST_GROWTH if limit_bytes is None else 0.0
    variants = with_short_weights(
        function, choice.groups, choice.variants, io=options.io, most_growth=most_growth
    )
    return replace(choice, variants=variants)


def decide_alone(
    function: Function, groups: Sequence[LoweredGroup], target: Target, options: Options
) -> tuple[Variant, ...]:
    """A variant of each group, in the order given, where nothing streams."""
    return _Deciding(function, target, options).alone(tuple(groups))


@dataclass(frozen=True)
class _Deciding:
    function: Function
    target: Target
    options: Options

    @property
    def is_balanced(self) -> bool:
        return self.options.level == "balanced"

    @property
    def trades(self) -> bool:
        """Whether what takes scratch or code is weighed against instructions."""
        return self.is_balanced and self.target.core.has_pairs

    def decide(self, groups: tuple[LoweredGroup, ...], limit_bytes: int | None) -> Choice:
        optimize = self.options.level
        if optimize == "size" and limit_bytes is not None and self.fits(groups, limit_bytes):
            limit_bytes = None  # then the least code, not the front
        if optimize == "ram" or self.options.io == "rows" or limit_bytes is not None:
            return choose(self.function, groups, self.target, self.options, limit_bytes=limit_bytes)
        if optimize == "time":
            return Choice(groups, self.alone(groups), (), None)
        groups, alone = self.in_best_order(groups)
        # Row-by-row code is about 50 % larger where every kernel is a plain loop.
        if self.trades:
            return streamed_if_smaller(self.function, groups, self.target, self.options, alone)
        return Choice(groups, alone, (), None)

    def fits(self, groups: tuple[LoweredGroup, ...], limit_bytes: int) -> bool:
        return self.peak_bytes(groups, self.alone(groups)) <= limit_bytes

    def in_best_order(
        self, groups: tuple[LoweredGroup, ...]
    ) -> tuple[tuple[LoweredGroup, ...], tuple[Variant, ...]]:
        """The groups in the order in which the arena is smallest, with a choice of their own."""
        pairs = [(order, self.alone(order)) for order in orders(self.function, groups)]
        return pairs[0] if len(pairs) == 1 else min(pairs, key=lambda pair: self.peak_bytes(*pair))

    def peak_bytes(self, groups: Sequence[LoweredGroup], chosen: Sequence[Variant]) -> int:
        return peak_bytes(self.function, groups, chosen, self.options)

    def alone(self, groups: tuple[LoweredGroup, ...]) -> tuple[Variant, ...]:
        """A variant of each group; then kernels and places that do not pay are given up."""
        io, optimize = self.options.io, self.options.level
        chosen = self.fastest_in_place(groups) if self.is_balanced else self.first_choice(groups)
        if optimize == "size":
            chosen = take_small_kernels(groups, chosen)
        if self.is_balanced:
            chosen = spare_float_kernels(groups, chosen)
            chosen = spare_bytes(self.function, groups, chosen, io=io)
        most = math.inf if optimize == "ram" else 0.0
        if self.trades:
            chosen = spare_kernels(self.function, groups, chosen, io=io)
            fewest = sum(min(v.instructions for v in lowered.variants) for lowered in groups)
            most = BALANCED_SLOWDOWN * fewest
        return settle_places(self.function, groups, chosen, io=io, most_instructions=most)

    def first_choice(self, groups: tuple[LoweredGroup, ...]) -> tuple[Variant, ...]:
        return choose_variants(groups, self.options.level, self.function, io=self.options.io)

    def fastest_in_place(self, groups: tuple[LoweredGroup, ...]) -> tuple[Variant, ...]:
        """The fastest variants that fit where values without any scratch would lie apart.

        Where fast variants take much scratch or code, it takes what is almost the fastest with
        less of them.
        """
        function, io = self.function, self.options.io
        menus = [_without_slow_variants(lowered) for lowered in groups] if self.trades else groups
        plain = [min(lowered.variants, key=lambda v: v.scratch_bytes) for lowered in groups]
        limit = lower_bound_bytes(placement_problem(function, groups, plain, io=io).buffers)
        wanted: Optimize = "balanced" if self.trades else "time"
        try:
            found = choose_variants(menus, wanted, function, io=io, capacity_bytes=limit)
        except PlanError:
            found = choose_variants(groups, "ram", function, io=io)
        return self.much_faster(groups, menus, found) if self.trades else found

    def much_faster(
        self,
        groups: tuple[LoweredGroup, ...],
        menus: Sequence[LoweredGroup],
        chosen: tuple[Variant, ...],
    ) -> tuple[Variant, ...]:
        """The fastest variants wherever they lie, if they halve the time and are worth the bytes.

        A part of the time is worth as large a part of the arena.
        """
        fewest = sum(min(v.instructions for v in lowered.variants) for lowered in menus)
        instructions = sum(v.instructions for v in chosen)
        if instructions < max(MUCH_FASTER * fewest, fewest + MANY_INSTRUCTIONS):
            return chosen
        fast = choose_variants(menus, "balanced", self.function, io=self.options.io)
        after = sum(v.instructions for v in fast) * self.peak_bytes(groups, fast)
        return fast if after < instructions * self.peak_bytes(groups, chosen) else chosen


def _without_slow_variants(lowered: LoweredGroup) -> LoweredGroup:
    """The fastest variant, and those that need less scratch.

    A place in memory below an input is worth less than time, as long as values fit apart.
    """
    fastest = min(lowered.variants, key=lambda v: v.instructions)
    kept = [v for v in lowered.variants if v is fastest or v.scratch_bytes < fastest.scratch_bytes]
    return LoweredGroup(lowered.group, tuple(kept))
