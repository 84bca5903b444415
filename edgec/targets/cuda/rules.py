"""How an NVIDIA GPU runs nests: rules, best first.

Every nest that has loops runs on the GPU: the plain loops of all targets, bound to blocks and
threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from edgec.loop.schedule import Schedule
from edgec.targets.common import loops
from edgec.targets.cuda.bind import bound
from edgec.targets.rule import Nest


def _on_threads(apply: Callable[[Nest], list[Schedule]]) -> Callable[[Nest], list[Schedule]]:
    return lambda nest: [bound(schedule) for schedule in apply(nest)]


RULES = tuple(replace(rule, apply=_on_threads(rule.apply)) for rule in loops.LOOPS)
