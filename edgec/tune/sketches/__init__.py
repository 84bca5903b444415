"""Spaces of schedules: each says which nests it is for, and writes them as decisions have it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgec.loop.schedule import Schedule
from edgec.targets.rule import Nest
from edgec.tune.decisions import Decisions
from edgec.tune.sketches.channel_windows import sums_channels, write_channel_windows
from edgec.tune.sketches.elements import is_elementwise, write_elements
from edgec.tune.sketches.products import is_product, write_product


@dataclass(frozen=True)
class Sketch:
    """One space. write: raises ScheduleError where decisions do not fit the nest."""

    name: str
    match: Callable[[Nest], bool]
    write: Callable[[Nest, Decisions], Schedule]


#: The first that matches is a nest's.
SKETCHES = (
    Sketch("products", is_product, write_product),
    Sketch("windows of channels", sums_channels, write_channel_windows),
    Sketch("elements", is_elementwise, write_elements),
)


def find_sketch(nest: Nest) -> Sketch | None:
    """The space of a nest, if there is one."""
    return next((sketch for sketch in SKETCHES if sketch.match(nest)), None)
