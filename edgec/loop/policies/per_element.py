"""Depthwise convolution and pools in plain loops: one accumulator at a time."""

from __future__ import annotations

from edgec.loop.policies.common import gather_temporaries, output_loops
from edgec.loop.schedule import Schedule


def schedule_per_element(schedule: Schedule) -> None:
    """Depthwise convolution and pools: one accumulator at a time, in a register."""
    last = output_loops(schedule.func, "out", "out")[-1]
    gather_temporaries(schedule, last)
    schedule.decompose_reduction("acc", "acc_kh")
