"""The compiler's figures for searches over mixes: costs of layers, and figures of a build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from edgec.errors import BudgetExceeded, DoesNotFit, PlanError
from edgec.graph.ir import Function
from edgec.options import Figures, Limits
from edgec.quantizer.assign import Point


@dataclass(frozen=True)
class GroupCost:
    """Nodes, by name, that run as one: bytes of their constants, and estimated instructions."""

    nodes: tuple[str, ...]
    constant_bytes: int
    instructions: int


@dataclass(frozen=True)
class Measured:
    """A build of a QDQ function. least_ram_bytes: with the smallest arena that it could have."""

    figures: Figures
    least_ram_bytes: int
    costs: tuple[GroupCost, ...]

    def least(self, resource: str) -> int | None:
        """The figure that a limit applies to; the compiler uses all RAM that it may."""
        return self.least_ram_bytes if resource == "RAM" else self.figures.of(resource)


class Measure(Protocol):
    """Compiles and builds QDQ functions for one target within limits."""

    target: str
    limits: Limits

    def most(self, resource: str) -> int | None:
        """The limit of a resource, or the available amount; None if unlimited."""

    def costs(self, function: Function) -> tuple[GroupCost, ...]:
        """The compiler's own estimates, without a build."""

    def build(self, function: Function) -> Measured:
        """The figures of a build. Raises DoesNotFit and PlanError."""


class Builds:
    def __init__(
        self, measure: Measure, function_of: Callable[[Point], Function],
        title_of: Callable[[Point], str],
    ) -> None:  # fmt: skip
        """function_of: the QDQ function of a mix. title_of: a mix in words, for errors."""
        self.measure, self.limits = measure, measure.limits
        self._function_of, self._title_of = function_of, title_of
        #: None: does not fit the board.
        self.built: dict[Point, Measured | None] = {}

    def build(self, point: Point) -> Measured:
        found = self.built.get(point)
        if found is None:
            found = self.built[point] = self.measure.build(self._function_of(point))
        return found

    def keeps_limits(self, point: Point) -> bool:
        """Whether the mix does. Raises DoesNotFit or PlanError if not even the narrowest fits."""
        try:
            return not self.over(point)
        except (DoesNotFit, PlanError):
            if not any(point.chosen):
                raise  # then nothing fits
            self.built[point] = None
            return False

    def over(self, point: Point) -> dict[str, int]:
        return self.build(point).figures.over(self.limits)

    def failure(self, message: str, over: Point | None = None) -> BudgetExceeded:
        """The error that nothing keeps the limits, with the nearest mix that was built.

        message: without the target. over: the mix whose excess is named; the nearest by default.
        """
        fitting = {point: built for point, built in self.built.items() if built is not None}
        nearest = min(fitting, key=lambda p: (fitting[p].figures.excess(self.limits), p.size_bytes))
        broken = self.over(over or nearest)
        words = ", ".join(fitting[nearest].figures.words())
        error = BudgetExceeded(
            f"{message} on {self.measure.target}",
            details=(
                f"nearest: {self._title_of(nearest)}: {words}",
                *(f"over in {what}: {by:,}" for what, by in broken.items()),
            ),
            hint="raise the limits, or build with --optimize size, ram or time",
        )
        error.over = broken
        return error
