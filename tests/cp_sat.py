"""The placement problem for OR-Tools' CP-SAT: another solver to compare ours with."""

from __future__ import annotations

from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from edgec.memory.instance import NEVER, Instance, IntArray

#: A limit of CP-SAT's work, in units that take about a second.
MOST_WORK = 60


def solve_with_cp_sat(
    instance: Instance, bound_bytes: int, capacity_bytes: int | None = None
) -> tuple[IntArray | None, int]:
    """Return (offsets in granules or None, proven lower bound of the peak in bytes).

    If it is proven that no plan fits `capacity_bytes`, the bound is above it.
    """
    if not len(instance):
        return np.zeros(0, dtype=np.int64), bound_bytes
    model: Any = cp_model.CpModel()
    g = instance.granule
    horizon = capacity_bytes
    if horizon is None:
        room = int((instance.size + instance.align).sum()) * g
        horizon = room + instance.peak_bytes(instance.lo)
    highest = instance.highest_offsets(horizon)
    offsets: list[Any] = []
    for i, b in enumerate(instance.buffers):
        align, low, high = int(instance.align[i]), int(instance.lo[i]), int(highest[i])
        if b.fixed_offset is None:
            low = 0
        if high < low:
            return None, horizon + 1
        steps = model.new_int_var(low // align, high // align, "")
        offsets.append(steps * align)
    peak = model.new_int_var(bound_bytes, horizon, "peak")
    for i in range(len(instance)):
        model.add(peak >= offsets[i] * g + int(instance.size_bytes[i]))
    plain = np.where(instance.sep > NEVER, instance.size[:, None], NEVER)
    is_plain = (instance.sep == plain).all(axis=1) & (instance.sep == plain).all(axis=0)
    for a in range(len(instance)):
        for b_index in instance.gaps[a]:
            if b_index <= a or (is_plain[a] and is_plain[b_index]):
                continue  # the stacks of sections say it already
            above = model.new_bool_var("")
            model.add(
                offsets[b_index] >= offsets[a] + int(instance.sep[a, b_index])
            ).only_enforce_if(above)
            model.add(
                offsets[a] >= offsets[b_index] + int(instance.sep[b_index, a])
            ).only_enforce_if(~above)
    # The stack of each section is a no-overlap of intervals: much stronger than pairs alone.
    for section in instance.sections:
        stack = [
            model.new_fixed_size_interval_var(offsets[i], int(instance.size[i]), "")
            for i in section.members
            if is_plain[i]
        ]
        if len(stack) > 1:
            model.add_no_overlap(stack)
    model.minimize(peak)
    solver: Any = cp_model.CpSolver()
    solver.parameters.max_deterministic_time = MOST_WORK
    solver.parameters.random_seed = 1
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None, horizon + 1
    proven = max(bound_bytes, int(np.ceil(solver.best_objective_bound - 1e-6)))
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, proven
    return np.array([solver.value(o) for o in offsets], dtype=np.int64), proven
