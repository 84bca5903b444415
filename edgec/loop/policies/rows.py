"""Functions that first reduce rows (softmax), and those without temporaries."""

from __future__ import annotations

from edgec.loop.ir import Block, For
from edgec.loop.policies.common import decompose, find_param, largest_divisor, output_loops
from edgec.loop.rewrite import loops_of, walk
from edgec.loop.schedule import Schedule

#: Elements in straight code, so that the loop's own instructions are shared.
UNROLLED_ELEMENTS = 4


def schedule_elements(schedule: Schedule, straight: int) -> None:
    """One stage without temporaries: `straight` elements at a time; a sum stays a plain loop."""
    loops = output_loops(schedule.func, "out", "out")
    if not loops or loops[-1] not in loops_of(schedule.func.body):
        return
    factor = largest_divisor(find_param(schedule.func, "out").shape[-1], straight)
    if factor > 1:
        _, inner = schedule.split(loops[-1], factor)
        schedule.unroll(inner)


def schedule_rows(schedule: Schedule, straight: int) -> None:
    """Temporaries of one element per row (softmax) become registers; others stay in scratch.

    Between those, pairs such as complex numbers are straight code.
    """
    func = schedule.func
    rank = len(find_param(func, "out").shape)
    names = [b for b in func.params if b.scope == "scratch"]
    if names and rank > 1 and all(len(b.shape) == rank - 1 for b in names):
        for buffer in reversed(names):
            schedule.compute_at(buffer.name, f"out_d{rank - 2}")
        for buffer in names:
            loops = {s.var.name for s, _ in walk(schedule.func.body) if isinstance(s, For)}
            if f"{buffer.name}_k" in loops:
                decompose(schedule, buffer.name)
    elif straight > 1:
        for name, loop in loops_of(func.body).items():
            if (loop.stop - loop.start).constant == 2 and isinstance(loop.body, Block):
                schedule.unroll(name)
