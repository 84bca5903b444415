"""Outputs in place that lie a few rows above their input, so that the next layer may move down.

A pointwise layer by blocks of pixels puts its output some rows below its input. In a chain with
depthwise layers in place, each pointwise layer would take these rows again:

    pointwise      |   input   |        depthwise, raised    |   input   |
                 |  output   |                                 |  output   |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import lcm

from edgec.errors import PlanError
from edgec.graph.ir import Function
from edgec.memory.bound import lower_bound_bytes
from edgec.memory.layout import SCRATCH, StoredValues, replaced_inputs, variant_distances
from edgec.memory.problem import Plan, Problem
from edgec.memory.solve import plan_memory
from edgec.options import Io, Options
from edgec.passes.lower_groups import LoweredGroup, Variant

#: Nodes of a search that shows whether raising takes fewer bytes: where it does, few are enough.
FEW_NODES = 50


@dataclass(frozen=True)
class Planned:
    """A plan, and the variants and the problem that it is for."""

    variants: tuple[Variant, ...]
    problem: Problem
    plan: Plan

    @property
    def ram_bytes(self) -> int:
        """The bytes of all regions."""
        return sum(self.plan.peak_bytes.values())


def smallest_plan(
    function: Function,
    groups: Sequence[LoweredGroup],
    chosen: Sequence[Variant],
    options: Options,
    problem_of: Callable[[Sequence[Variant]], Problem],
) -> Planned:
    """The plan, with outputs in place raised where that takes less memory. Raises PlanError.

    Each output in place is raised by what its last reader goes down, or none is.
    """

    raised = raise_outputs(function, groups, chosen, options.io)
    try:
        found = _planned(chosen, problem_of(chosen), options.plan_nodes)
    except PlanError:
        return _planned(raised or chosen, problem_of(raised or chosen), options.plan_nodes)
    if not raised:
        return found
    problem = _scratch_first(problem_of(raised))
    if lower_bound_bytes(problem.buffers, problem.overlaps) >= found.ram_bytes:
        return found
    try:
        if _planned(raised, problem, FEW_NODES).ram_bytes >= found.ram_bytes:
            return found
        return _planned(raised, problem, options.plan_nodes)
    except PlanError:
        return found


def _planned(variants: Sequence[Variant], problem: Problem, node_limit: int) -> Planned:
    return Planned(tuple(variants), problem, plan_memory(problem, node_limit=node_limit))


def _scratch_first(problem: Problem) -> Problem:
    """Fix scratch at the arena's start, whose address is there already, where it is its group's
    only buffer of scratch.
    """
    alone = Counter(b.start for b in problem.buffers if b.name.startswith(SCRATCH))
    buffers = (
        replace(b, fixed_offset=0) if b.name.startswith(SCRATCH) and alone[b.start] == 1 else b
        for b in problem.buffers
    )
    return replace(problem, buffers=tuple(buffers))


def raise_outputs(
    function: Function, groups: Sequence[LoweredGroup], chosen: Sequence[Variant], io: Io
) -> tuple[Variant, ...]:
    """Raise each output in place by what its last reader goes down; empty where none does."""
    stored = StoredValues(function, groups, io=io)
    found = list(chosen)
    for variant, output, _ in replaced_inputs(function, groups, chosen, io):
        last = stored.stop[output] - 1
        distances = variant_distances(chosen[last], groups[last].group.output, stored.roots)
        down_bytes = distances.get(output, 0)
        if variant.row_bytes and down_bytes > 0:
            step = lcm(variant.row_bytes, stored.aligns[output])
            position = stored.start[output]
            found[position] = replace(variant, raised_bytes=-(-down_bytes // step) * step)
    return tuple(found) if any(variant.raised_bytes for variant in found) else ()
