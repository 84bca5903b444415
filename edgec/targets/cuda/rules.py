"""How an NVIDIA GPU runs nests: rules, best first.

Sums of products of int8 take an instruction of four products. Every other nest runs on the GPU as
well: the plain loops of all targets, bound to blocks and threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from edgec.loop.schedule import Schedule
from edgec.targets.common import loops
from edgec.targets.cuda.bind import bound
from edgec.targets.cuda.dots import is_dot, schedule_dots
from edgec.targets.cuda.kernels.dots import DOT
from edgec.targets.rule import Nest, Rule, always


def _on_threads(apply: Callable[[Nest], list[Schedule]]) -> Callable[[Nest], list[Schedule]]:
    return lambda nest: [bound(schedule) for schedule in apply(nest)]


#: Four products at once.
DOTS = Rule("four products", is_dot, schedule_dots, kernels=(DOT,), ends_menu=always)

RULES = (DOTS, *(replace(rule, apply=_on_threads(rule.apply)) for rule in loops.LOOPS))
