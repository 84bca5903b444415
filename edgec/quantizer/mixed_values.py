"""Values of int8 or int16, layer by layer: the cheapest mix that is as near to float as asked.

1. The model is quantized to int8. For every choice of values (`edgec.quantizer.value_losses`), the
   output error of the float function is measured with only these values in int8; and in int16,
   where int8 may be too coarse. If int16 is hardly better, the adjacent operators may stay in
   float.
2. Losses, bytes and products add up; all Pareto-optimal mixes are found exactly
   (`edgec.quantizer.assign`).
3. The cheapest mix whose losses meet the goal is measured on held-out samples, with corrected
   biases (`edgec.quantizer.corrected_errors`). Its distance from the goal determines the next
   choice, until the margin is small; values that do not need int16 then return to int8. The
   integers of the chosen mix run on the same samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from edgec.errors import BudgetExceeded
from edgec.quantizer.assign import Option, Point, all_best, point_of
from edgec.quantizer.held_out import decibels
from edgec.quantizer.post_training import PostTraining
from edgec.quantizer.value_mixes import BITS, MixedValues, ValueMixes, loss_samples

#: The default goal: an error of 3 % in amplitude, at which answers rarely change.
DEFAULT_SQNR_DB = 30.0
#: A larger loss counts as this many goals, so that sums separate the losses that matter.
MOST_LOSS = 4.0
#: How often a mix is measured, and how often some of its values are put back to int8.
MOST_TRIES, MOST_TRIMS = 6, 6
#: A mix that meets the goal with less margin than this is taken: it is the cheaper one.
SPARE = 0.8
#: The least error, as a part of the goal: a model of floats may have none.
LEAST_SHARE = 1e-6


def value_parts(made: PostTraining) -> int:
    """Most reports of progress by `mix_values`."""
    return 2 * loss_samples(made) + 2 + MOST_TRIES + MOST_TRIMS


def mix_values(
    made: PostTraining,
    goal_db: float = DEFAULT_SQNR_DB,
    progress: Callable[[], None] = lambda: None,
) -> MixedValues:
    """Choose the dtype of every layer's values.

    made: the int8 model. Raises BudgetExceeded, with the nearest mix, if none reaches the goal.
    """
    assert made.plan is not None
    mixes = ValueMixes(made, made.plan, 10 ** (-goal_db / 10), progress)
    return _Search(mixes).run()


class _Search:
    def __init__(self, mixes: ValueMixes) -> None:
        self.mixes, self.goal, self.errors = mixes, mixes.goal, mixes.errors

    def run(self) -> MixedValues:
        int8_error = self.mixes.error(self.mixes.plan)
        self.mixes.progress()
        lost = self.mixes.losses()
        self.menu = menu = self.mixes.menu(lost)
        points = self._points(menu)
        first = point_of(menu, [0] * len(menu))
        self.errors[first] = int8_error
        point = self._confirmed(first if int8_error <= self.goal else self._searched(points))
        return self.mixes.report(point, lost, self.errors[first], [first, *points])

    def _points(self, menu: Sequence[Sequence[Option]]) -> list[Point]:
        """The best mixes by the sums, and last the mix with only int16."""
        most = MOST_LOSS * self.goal
        near = [[replace(one, loss=min(one.loss, most)) for one in options] for options in menu]
        chosen = [point.chosen for point in all_best(near)]
        chosen.append(tuple(min(len(some) - 1, BITS.index(16)) for some in menu))
        return [point_of(menu, options) for options in chosen]

    def _cost(self, point: Point) -> float:
        """Bytes and products, each as a part of all."""
        elements = sum(choice.elements for choice in self.mixes.choices)
        products = self.mixes.products
        return point.size_bytes / max(elements, 1) + point.instructions / max(products, 1)

    def _searched(self, points: Sequence[Point]) -> Point:
        """The cheapest of measured points that keep the goal. Raises BudgetExceeded."""
        nearest = [min(points, key=lambda p: (p.loss, self._cost(p))), points[-1]]
        budget, kept = self.goal, 0.0
        missed: list[float] = []
        for _ in range(MOST_TRIES - 1):
            within = [p for p in points if p.loss <= budget]
            point = min(within, key=self._cost, default=nearest[0])
            if point in self.errors:
                others = [p for p in nearest if p not in self.errors and not kept]
                if not others:
                    break
                point = others[0]
            share = max(self._measured(point) / self.goal, LEAST_SHARE)
            if SPARE <= share <= 1:
                break
            if share <= 1:
                kept = max(kept, point.loss)
            else:
                missed.append(point.loss)
            # If a mix that meets the goal has a larger loss than one that misses it, the miss sets
            # no limit.
            limit = min((loss for loss in missed if loss > kept), default=math.inf)
            if kept and limit < math.inf:
                budget = math.sqrt(kept * limit)
            else:
                budget = point.loss / share * (SPARE if share > 1 else 1.0)
        good = [point for point, error in self.errors.items() if error <= self.goal]
        for last in nearest:
            if not good and last not in self.errors and self._measured(last) <= self.goal:
                good = [last]
        if not good:
            raise self._failure()
        return self._trimmed(min(good, key=self._cost))

    def _trimmed(self, point: Point) -> Point:
        """The point after choices return to fewer bits, while it still meets the goal.

        Losses do not quite add up: where one sample makes up most of several, they overlap.
        """
        order = sorted(
            (n for n, option in enumerate(point.chosen) if option),
            key=lambda n: self._worse(point, n) / self._spared(point, n),
        )
        count = 1
        for _ in range(MOST_TRIMS):
            if not order or self.errors[point] >= SPARE * self.goal:
                break
            other = self._with_fewer(point, order[:count])
            if self._measured(other) <= self.goal:
                point, order, count = other, order[count:], 2 * count
            elif count > 1:
                count //= 2
            else:
                order = order[1:]
        return point

    def _with_fewer(self, point: Point, numbers: Collection[int]) -> Point:
        """The point with the next fewer bits for some choices."""
        chosen = [option - (n in numbers) for n, option in enumerate(point.chosen)]
        return point_of(self.menu, chosen)

    def _worse(self, point: Point, number: int) -> float:
        return self._with_fewer(point, [number]).loss - point.loss

    def _spared(self, point: Point, number: int) -> float:
        return self._cost(point) - self._cost(self._with_fewer(point, [number]))

    def _measured(self, point: Point) -> float:
        return self.mixes.measured(point)

    def _confirmed(self, point: Point) -> Point:
        """The point, or the next cheapest whose integers keep the goal. Raises BudgetExceeded."""
        while self.mixes.run_in_integers(point) > self.goal:
            good = [other for other, error in self.errors.items() if error <= self.goal]
            if not good:
                raise self._failure()
            point = min(good, key=self._cost)
        return point

    def _failure(self) -> BudgetExceeded:
        nearest = min(self.errors, key=self.errors.__getitem__)
        bits = self.mixes.bits(nearest)
        return BudgetExceeded(
            f"no mix of int8 and int16 values keeps {decibels(self.goal):.1f} dB",
            details=(
                f"nearest: {bits.count(16)} of {len(bits)} layers in int16, {bits.count(32)} in"
                f" float: {decibels(self.errors[nearest]):.1f} dB",
            ),
            hint="lower the goal; weights may cause the error: see --weights, --keep-float",
        )
