"""Which outputs really replace an input where it is.

Lying exactly where the input was saves the output's bytes, but it also ties two buffers together:
what overlapped the one from above and the other from below must now do both at one place. So an
output that could replace its input is tried apart from it too, one after the other as long as
that makes the arena smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgec.errors import PlanError
from edgec.graph.ir import Function
from edgec.memory.bound import lower_bound_bytes
from edgec.memory.layout import ARENA, merged_places, placement_problem
from edgec.memory.solve import plan_memory
from edgec.options import Io
from edgec.passes.lower_groups import LoweredGroup, Variant

#: Placements that are tried for a plan.
TRIAL_NODES = 2_500


def settle_places(
    function: Function,
    groups: Sequence[LoweredGroup],
    chosen: Sequence[Variant],
    *,
    io: Io = "arena",
    most_instructions: float = 0.0,
) -> tuple[Variant, ...]:
    """Return the variants with `same_place` left only where it does not cost memory.

    Other variants of these groups may take their places too, if all together then need no more
    than `most_instructions`: a choice by live bytes alone cannot see what it costs to tie two
    buffers together.
    """

    known: dict[tuple[object, object], int | None] = {}  # many variants need the same memory

    def peak(variants: Sequence[Variant], below: int | None = None) -> int | None:
        problem = placement_problem(function, groups, variants, io=io)
        if below is not None and lower_bound_bytes(problem.buffers, problem.overlaps) >= below:
            return None
        key = (problem.buffers, problem.overlaps)
        if key not in known:
            try:
                plan = plan_memory(problem, node_limit=TRIAL_NODES)
                known[key] = plan.peak_bytes[ARENA]
            except PlanError:
                known[key] = None
        return known[key]

    best = list(chosen)
    merged = merged_places(function, groups, chosen, io=io)
    candidates = [i for i, g in enumerate(groups) if g.group.output in merged]
    candidates.sort(key=lambda i: -groups[i].group.output.type.nbytes)
    least = peak(best) if candidates else None
    improved = least is not None
    while improved and least is not None:
        improved = False
        for position in candidates:
            others = sum(v.instructions for v in best) - best[position].instructions
            menu = [
                v for v in groups[position].variants if others + v.instructions <= most_instructions
            ]
            options = [replace(best[position], same_place=()), *menu]
            for option in options:
                trial = [*best[:position], option, *best[position + 1 :]]
                found = peak(trial, least)
                if found is not None and found < least:
                    best, least, improved = trial, found, True
    return tuple(best)
