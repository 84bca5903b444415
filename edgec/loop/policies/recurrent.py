"""Layers with a memory: dot products whose inputs lie one behind the other, one sum at a time."""

from __future__ import annotations

from edgec.loop.policies.common import decompose, find_param, largest_divisor
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule

#: Functions that this policy knows, and the loop in which each needs its sums.
SUMS_AT = {"lstm": "gates_c", "svdf_time": "out_d1"}


def schedule_sums(schedule: Schedule, straight: int) -> None:
    """Each sum in a register, where it is used; `straight` products at a time.

    for gates_c in 0..80 {                         for gates_c in 0..80 {
      acc[gates_c] = bias[gates_c]                   sum = bias[gates_c]
      for acc_k in 0..20 {                           for acc_k_o in 0..5 {
        acc[gates_c] = acc[gates_c] + ...     ->       sum = sum + ...      four times
    """
    schedule.compute_at("acc", SUMS_AT[schedule.func.name])
    decompose(schedule, "acc")
    if "acc_k" not in loops_of(schedule.func.body):  # one product
        return
    taps = find_param(schedule.func, "w").elements // find_param(schedule.func, "bias").elements
    factor = largest_divisor(taps, straight)
    if factor > 1:
        _, inner = schedule.split("acc_k", factor)
        schedule.unroll(inner)
