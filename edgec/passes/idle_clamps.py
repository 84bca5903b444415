"""Removes clamps that can never fire, as the inputs' intervals prove.

A bound that no result reaches becomes the dtype's limit, which needs no clamp: a maximum pool after
a ReLU need not clamp again, and functions that differ only in such bounds become one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgec.graph.ir import Function, Node, Value
from edgec.graph.traits import Interval
from edgec.passes.channel_intervals import channel_intervals, node_interval
from edgec.passes.rewriter import Rewriter


@dataclass(frozen=True)
class IdleClamp:
    """A clamp to [minimum, maximum] of a value that without it lies in [low, high]."""

    value: str
    minimum: int
    maximum: int
    low: int
    high: int


def drop_idle_clamps(function: Function) -> tuple[Function, tuple[IdleClamp, ...]]:
    """The function without bounds that are never reached, and the removed bounds."""
    intervals = channel_intervals(function)
    found: list[IdleClamp] = []

    def visit(rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]) -> Sequence[Value] | None:
        idle = _idle(node, intervals)
        if idle is None:
            return None
        found.append(idle)
        bounds = np.iinfo(node.output.type.dtype)
        attrs = replace(
            node.attrs,
            minimum=int(bounds.min) if idle.low >= idle.minimum else idle.minimum,
            maximum=int(bounds.max) if idle.high <= idle.maximum else idle.maximum,
        )
        return rewriter.remake(node, inputs, attrs)

    rewritten = Rewriter(function).run(visit)
    return (rewritten, tuple(found)) if found else (function, ())


def _idle(node: Node, intervals: dict[Value, Interval]) -> IdleClamp | None:
    """The clamp of a node, if one of its bounds is never reached."""
    if not node.op.clamps or node.output.type.is_float:
        return None
    bounds, attrs = np.iinfo(node.output.type.dtype), node.attrs
    minimum, maximum = int(attrs.minimum), int(attrs.maximum)
    if minimum <= bounds.min and maximum >= bounds.max:
        return None
    free = replace(attrs, minimum=int(bounds.min), maximum=int(bounds.max))
    interval = node_interval(replace(node, attrs=free), intervals)
    if interval is None or not interval[0].size:
        return None
    low, high = int(interval[0].min()), int(interval[1].max())
    if not (bounds.min < minimum <= low or high <= maximum < bounds.max):
        return None
    return IdleClamp(node.output.name, minimum, maximum, low, high)
