"""Values of int8 or int16, layer by layer: as near to float as limits of a build allow.

1. The model is built with all values in int8, and with int16 for all values that lose accuracy in
   int8. The two builds, the compiler's estimate of instructions and the live bytes of each step
   (`edgec.quantizer.live_values`) estimate what each choice of values adds.
2. Starting from int16 everywhere, values return to int8 one by one, in order of the least loss for
   the largest saving. Bisection finds the first of these mixes whose real build keeps the limits;
   then the values that lose most in int8 become int16 again while the limits hold.
3. Of the mixes that keep the limits, the one nearest to float on held-out samples is taken.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from edgec.errors import BudgetExceeded
from edgec.graph.types import Array
from edgec.quantizer.assign import Option, Point, all_best, point_of
from edgec.quantizer.live_values import live_elements
from edgec.quantizer.measure import Builds, GroupCost, Measure
from edgec.quantizer.post_training import PostTraining
from edgec.quantizer.value_mixes import MixedValues, ValueMixes, loss_samples

#: How often mixes between are built, and how often then one with a choice more in int16.
MOST_BUILDS, MOST_MORE = 6, 4


def limited_parts(made: PostTraining) -> int:
    """Most reports of progress by `mix_values_within`."""
    return 2 * loss_samples(made) + 2 * (2 + MOST_BUILDS + MOST_MORE)


def mix_values_within(
    made: PostTraining,
    measure: Measure,
    goal_db: float | None = None,
    progress: Callable[[], None] = lambda: None,
) -> MixedValues:
    """Choose the dtype of every layer's values, int8 or int16.

    made: the int8 model. measure: has the limits of a build. goal_db: the least signal to noise of
    the outputs, if any. Raises BudgetExceeded with the nearest mix if none keeps the limits, or the
    goal within them.
    """
    assert made.plan is not None
    mixes = ValueMixes(made, made.plan, 0.0, progress)
    found = _Search(mixes, measure).run()
    if goal_db is not None and found.sqnr_db < goal_db:
        wide = sum(layer.bits > 8 for layer in found.layers)
        raise BudgetExceeded(
            f"no mix of int8 and int16 values within the limits keeps {goal_db:.1f} dB",
            details=(
                f"nearest: {wide} of {len(found.layers)} layers in int16: {found.sqnr_db:.1f} dB",
            ),
            hint="allow more, or ask for less",
        )
    return replace(found, goal_db=goal_db)


class _Search:
    def __init__(self, mixes: ValueMixes, measure: Measure) -> None:
        self.mixes = mixes
        self.builds = Builds(
            measure, lambda point: mixes.finished(point).quantized.function, self._title
        )

    def run(self) -> MixedValues:
        mixes = self.mixes
        lost = mixes.losses()
        menu = [options[:2] for options in mixes.menu(lost)]
        narrow = point_of(menu, [0] * len(menu))
        wide = point_of(menu, [len(options) - 1 for options in menu])
        fitting = [point for point in dict.fromkeys((narrow, wide)) if self._keeps_limits(point)]
        if wide not in fitting:
            fitting += self._between(menu, narrow, wide)
        if not fitting:
            raise self.builds.failure("no mix of int8 and int16 values keeps the limits")
        for point in dict.fromkeys((narrow, *fitting)):
            mixes.measured(point)
        int8_error = mixes.errors[narrow]
        point = min(fitting, key=lambda p: (mixes.errors[p], p.size_bytes))
        mixes.run_in_integers(point)
        found = mixes.report(point, lost, int8_error, [narrow, *all_best(menu)])
        return replace(found, figures=self.builds.build(point).figures)

    def _between(self, menu: Sequence[Sequence[Option]], narrow: Point, wide: Point) -> list[Point]:
        estimates = self._estimates(narrow, wide)
        mixes = [point_of(menu, chosen) for chosen in _narrowed(menu, estimates)]
        found: list[Point] = []
        broken, kept = 0, len(mixes) - 1  # both ends are built
        middle = next(n for n, p in enumerate(mixes) if n == kept or not _over(estimates, p.chosen))
        for _ in range(MOST_BUILDS):
            if kept - broken < 2:
                break
            if not broken < middle < kept:
                middle = (broken + kept) // 2
            if self._keeps_limits(mixes[middle]):
                found.append(mixes[middle])
                kept = middle
            else:
                broken = middle
            middle = (broken + kept) // 2
        last = mixes[kept]
        narrowed = [n for n, option in enumerate(last.chosen) if not option and len(menu[n]) > 1]
        worse = sorted(narrowed, key=lambda n: menu[n][1].loss - menu[n][0].loss)
        for number in worse[:MOST_MORE]:
            options = [option or int(n == number) for n, option in enumerate(last.chosen)]
            more = point_of(menu, options)
            if more not in self.builds.built and self._keeps_limits(more):
                found.append(more)
                last = more
        return found

    def _estimates(self, narrow: Point, wide: Point) -> list[_Estimate]:
        """Return estimates by limited resource, also if only the board's memory limits it."""
        choices = self.mixes.choices
        int8, int16 = self.builds.build(narrow), self.builds.built[wide]
        plain, other = _by_node(int8.costs), {} if int16 is None else _by_node(int16.costs)
        beside = [dict.fromkeys((*choice.makers, *choice.readers)) for choice in choices]
        shared = Counter(node for nodes in beside for node in nodes)

        def added(kind: int) -> Array:
            """The resource that each choice adds to its neighbouring nodes, [1, choices]."""
            more = [
                sum((other[n.name][kind] - plain[n.name][kind]) / shared[n] for n in nodes
                    if n.name in plain and n.name in other)
                for nodes in beside
            ]  # fmt: skip
            return np.array([more], np.float64)

        live = live_elements(self.mixes.integer_nodes.function, choices).astype(np.float64)
        resources = (
            ("RAM", live, live.sum(axis=1)),
            # A byte each, so that none is for nothing: code is not known.
            ("flash", added(0) + 1.0, np.zeros(1)),
            ("instructions", added(1), np.zeros(1)),
        )
        found = []
        for name, costs, base in resources:
            limit, taken = self.builds.measure.most(name), int8.least(name)
            if limit and taken is not None:
                more = None if int16 is None else int16.least(name)
                found.append(_Estimate(costs, base, taken, more, wide.chosen, limit))
        return found

    def _keeps_limits(self, point: Point) -> bool:
        found = self.builds.keeps_limits(point)
        self.mixes.progress()
        return found

    def _title(self, point: Point) -> str:
        return f"{self.mixes.bits(point).count(16)} of {len(point.chosen)} layers in int16"


def _by_node(costs: Sequence[GroupCost]) -> dict[str, tuple[int, int]]:
    """Bytes of constants and instructions, divided among the nodes of each group."""
    return {
        name: (cost.constant_bytes // len(cost.nodes), cost.instructions // len(cost.nodes))
        for cost in costs
        for name in cost.nodes
    }


class _Estimate:
    """Estimates a mix's use of one resource: the use of int8, plus a term for each int16 choice."""

    def __init__(
        self, costs: Array, base: Array, int8: int, int16: int | None, widest: Sequence[int],
        limit: int,
    ) -> None:  # fmt: skip
        """costs [steps, choices]: what each choice adds at each step. base [steps]: the use of
        int8, in the same unit. int8, int16: the measured use of both builds, the latter with the
        choices of `widest`; None: in the unit. limit: of the use.
        """
        self.costs, self.base, self.int8, self.limit = costs, base, int8, limit
        self.scale = 1.0
        more = float(self._steps(widest).max()) - int8
        if int16 is not None and more:
            self.scale = (int16 - int8) / more

    def over(self, chosen: Sequence[int]) -> float:
        """Return by how much a mix exceeds the limit at all steps together, in limits."""
        return float(np.maximum(self._steps(chosen) - self.limit, 0.0).sum()) / self.limit

    def _steps(self, chosen: Sequence[int]) -> Array:
        """The use of a mix at each step."""
        more = self.base + self.costs @ np.asarray(chosen) - self.base.max()
        return np.asarray(self.int8 + self.scale * more)


def _over(estimates: Sequence[_Estimate], chosen: Sequence[int]) -> float:
    return sum(estimate.over(chosen) for estimate in estimates)


def _narrowed(
    menu: Sequence[Sequence[Option]], estimates: Sequence[_Estimate]
) -> list[tuple[int, ...]]:
    """Choices of options, from the widest to the narrowest. Each time, one value returns to int8:
    the value with the least loss per byte saved of an exceeded limit or, if none is exceeded, per
    byte saved.
    """
    chosen = [len(options) - 1 for options in menu]
    found = [tuple(chosen)]
    while any(chosen):
        excess = _over(estimates, chosen)
        gains: dict[int, float] = {}
        for number, options in enumerate(menu):
            if chosen[number]:
                less = [*chosen[:number], 0, *chosen[number + 1 :]]
                relief = excess - _over(estimates, less)
                loss = options[0].loss - options[1].loss
                gains[number] = loss / relief if relief > 0 else math.inf
        if min(gains.values()) == math.inf:
            gains = {n: (menu[n][0].loss - menu[n][1].loss) / menu[n][0].size_bytes for n in gains}
        chosen[min(gains, key=gains.__getitem__)] = 0
        found.append(tuple(chosen))
    return found
