"""Values of int8 or int16, layer by layer: the cheapest mix that is as near to float as asked.

1. The model is quantized to int8. For every choice of values (`edgec.quantize.value_losses`): how
   far the outputs of the float function are off when these alone are int8; and in int16, where int8
   may be too coarse. Where int16 is hardly better, the operators beside them may stay in float.
2. Losses, bytes and products add up; all best mixes are found exactly (`edgec.quantize.assign`).
3. The cheapest whose losses are within the goal is measured on samples that its ranges were not
   fitted to, with settled biases (`edgec.quantize.settled_errors`). What that misses or has to
   spare makes the next choice, until the goal is kept by little; what is not needed then goes
   back to int8. The integers of what is taken are run on the same samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from edgec.errors import BudgetExceeded
from edgec.graph.ir import Node
from edgec.post_training import Plan, PostTraining, Recipe, with_passes
from edgec.quantize.assign import Option, Point, all_best, front_of
from edgec.quantize.choose_ranges import observed_ranges
from edgec.quantize.forms import Forms
from edgec.quantize.insert import insert_qdq
from edgec.quantize.named_layers import named_layers
from edgec.quantize.scheme import Scheme, make_scheme
from edgec.quantize.settled_errors import SettledErrors
from edgec.quantize.trials import before_softmax, decibels, output_error
from edgec.quantize.value_losses import Losses, choices_of

#: The goal if none is given: an error of 3 % in amplitude, at which answers are seldom others.
DEFAULT_SQNR_DB = 30.0
#: Samples that losses are measured on: as many as this many products are made by.
LOSS_MACS = 2.5e9
LEAST_SAMPLES, MOST_SAMPLES = 4, 32
#: Losses of this part of the goal, divided by all choices, are none: nothing finer is offered.
NO_LOSS = 0.05
#: Losses of more goals than this are as bad: so sums tell apart those that matter.
MOST_LOSS = 4.0
#: What int16 leaves of a loss, at least, where float is offered too: it should be far less. Float
#: has its price even in decibels: there no bias takes up what integers before it do to the mean.
HARDLY_BETTER = 0.1
#: How often a mix is measured, and how often some of its values are put back to int8.
MOST_TRIES, MOST_TRIMS = 6, 6
#: What keeps the goal by less is good.
SPARE = 0.8
#: Errors are at least this part of the goal: of floats there may be none.
LEAST_SHARE = 1e-6
#: Bits to choose from. Those of floats are costly on cores without an FPU, and so their products.
BITS = (8, 16, 32)


@dataclass(frozen=True)
class Layer:
    """Values of one dtype, named by the first. loss: of all outputs with these alone in int8.

    value_bytes: as chosen. bits: 8, 16 or, for float, 32.
    """

    name: str
    operator: str
    bits: int
    elements: int
    value_bytes: int
    loss: float


@dataclass(frozen=True)
class Step:
    """A mix on the front. sqnr_db: of the sum of its losses; bits: of each layer."""

    size_bytes: int
    sqnr_db: float
    bits: tuple[int, ...]
    taken: bool


@dataclass(frozen=True)
class MixedValues:
    """made: the model with the chosen values. sqnr_db: of the outputs, before softmax, on samples
    held out; int8_sqnr_db: with all values int8. wide_products: part of the multiply-accumulates
    that read what is not int8. front: mixes of bytes against losses."""

    made: PostTraining
    goal_db: float
    sqnr_db: float
    int8_sqnr_db: float
    layers: tuple[Layer, ...]
    wide_products: float
    front: tuple[Step, ...]


def value_parts(made: PostTraining) -> int:
    """How often `mix_values` reports progress, at most."""
    return 2 * _loss_samples(made) + 2 + MOST_TRIES + MOST_TRIMS


def mix_values(
    made: PostTraining,
    goal_db: float = DEFAULT_SQNR_DB,
    progress: Callable[[], None] = lambda: None,
) -> MixedValues:
    """Choose the dtype of every layer's values.

    made: the int8 model. Raises BudgetExceeded, with the nearest mix, if none reaches the goal.
    """
    assert made.plan is not None
    search = _Search(made, made.plan, 10 ** (-goal_db / 10), progress)
    return search.run()


def _loss_samples(made: PostTraining) -> int:
    macs = sum(n.op.macs(n.attrs, n.input_types) for n in made.source.nodes)
    most = min(max(LEAST_SAMPLES, int(LOSS_MACS / max(macs, 1))), MOST_SAMPLES)
    return min(most, len(made.statistics.followed))


class _Search:
    """Choose, measure, and choose again."""

    def __init__(
        self, made: PostTraining, plan: Plan, goal: float, progress: Callable[[], None]
    ) -> None:
        self.made, self.plan, self.goal, self.progress = made, plan, goal, progress
        self.forms: Forms = made.scheme.forms
        self.choices = choices_of(self.forms)
        self.measure = SettledErrors(plan.function, plan.statistics)
        self.products = sum(choice.products for choice in self.choices)
        self.errors: dict[Point, float] = {}

    def run(self) -> MixedValues:
        """The mix that is taken."""
        int8_error = self._error(self.plan)
        self.progress()
        self.lost = self._losses()
        self.menu = menu = self._menu()
        points = self._points(menu)
        first = Point(tuple(0 for _ in menu), *self._sums(menu, [0] * len(menu)))
        self.errors[first] = int8_error
        point = self._confirmed(first if int8_error <= self.goal else self._searched(points))
        return self._told(point, self.errors[first], [first, *points])

    def _losses(self) -> list[dict[int, float]]:
        """By bits, for each choice; of int16 only where int8 loses something."""
        function, statistics = self.plan.function, self.plan.statistics
        losses = Losses(before_softmax(function), statistics.followed[: _loss_samples(self.made)])
        widest = observed_ranges(function, statistics, "minmax")
        kept = named_layers(function, self.plan.recipe.keep_float)
        wide = make_scheme(function, widest, dtype="int16", kept=kept).values
        narrow = losses.of(self.choices, self.made.scheme.values, self.progress)
        coarse = [choice for choice in self.choices if not self._is_none(narrow[choice])]
        finer = losses.of(coarse, wide, self.progress)
        return [
            {8: narrow[choice], **({16: finer[choice]} if choice in finer else {})}
            for choice in self.choices
        ]

    def _is_none(self, loss: float) -> bool:
        return loss * len(self.choices) <= NO_LOSS * self.goal

    def _menu(self) -> list[list[Option]]:
        menu = []
        for choice, lost in zip(self.choices, self.lost, strict=True):
            options = [Option(8, choice.elements, 0, lost[8])]
            if 16 in lost:
                loss = min(lost[16], lost[8])
                options.append(Option(16, 2 * choice.elements, choice.products, loss))
                if not self._is_none(lost[16]) and lost[16] > HARDLY_BETTER * lost[8]:
                    size = 4 * choice.elements + 3 * choice.weights
                    options.append(Option(32, size, 2 * choice.products, 0.0))
            menu.append(options)
        return menu

    def _points(self, menu: Sequence[Sequence[Option]]) -> list[Point]:
        """The best mixes by the sums, and last what int16 alone can do."""
        most = MOST_LOSS * self.goal
        near = [[replace(one, loss=min(one.loss, most)) for one in options] for options in menu]
        chosen = [point.chosen for point in all_best(near)]
        chosen.append(tuple(min(len(some) - 1, BITS.index(16)) for some in menu))
        return [Point(places, *self._sums(menu, places)) for places in chosen]

    def _sums(
        self, menu: Sequence[Sequence[Option]], places: Sequence[int]
    ) -> tuple[int, int, float]:
        taken = [options[place] for options, place in zip(menu, places, strict=True)]
        return (
            sum(o.size_bytes for o in taken),
            sum(o.instructions for o in taken),
            sum(o.loss for o in taken),
        )

    def _cost(self, point: Point) -> float:
        """Bytes and products, each as a part of all."""
        elements = sum(choice.elements for choice in self.choices)
        return point.size_bytes / max(elements, 1) + point.instructions / max(self.products, 1)

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
            # What misses with a smaller loss than another keeps it with, tells nothing.
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
        """The point with choices back at fewer bits, as long as it has decibels to spare.

        Losses do not quite add up: where one sample makes up most of several, they overlap.
        """
        order = sorted(
            (n for n, place in enumerate(point.chosen) if place),
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
        chosen = tuple(place - (n in numbers) for n, place in enumerate(point.chosen))
        return Point(chosen, *self._sums(self.menu, chosen))

    def _worse(self, point: Point, number: int) -> float:
        return self._with_fewer(point, [number]).loss - point.loss

    def _spared(self, point: Point, number: int) -> float:
        return self._cost(point) - self._cost(self._with_fewer(point, [number]))

    def _measured(self, point: Point) -> float:
        self.errors[point] = self._error(self.plan.other(recipe=self._recipe(point)))
        self.progress()
        return self.errors[point]

    def _error(self, plan: Plan) -> float:
        """That of the finished model, nearly."""
        return self.measure.error(self._schemes(plan))

    def _confirmed(self, point: Point) -> Point:
        """The point, or the next cheapest whose integers keep the goal. Raises BudgetExceeded."""
        while True:
            schemes = self._schemes(self.plan.other(recipe=self._recipe(point)))
            quantized = [insert_qdq(self.measure.function, scheme).function for scheme in schemes]
            integers = [with_passes(function, "onnx") for function in quantized]
            self.errors[point] = output_error(self.measure.tests, integers)
            if self.errors[point] <= self.goal:
                return point
            good = [other for other, error in self.errors.items() if error <= self.goal]
            if not good:
                raise self._failure()
            point = min(good, key=self._cost)

    def _schemes(self, plan: Plan) -> list[Scheme]:
        return self.measure.schemes(
            lambda seen: plan.scheme(seen)[0], settle=plan.recipe.correct_biases
        )

    def _bits(self, point: Point) -> list[int]:
        return [BITS[place] for place in point.chosen]

    def _recipe(self, point: Point) -> Recipe:
        """The names of the layers that a mix stores in int16, or leaves in float."""
        recipe, function = self.plan.recipe, self.plan.function
        kept: dict[Node, None] = {}
        pairs = list(zip(self.choices, self._bits(point), strict=True))
        for choice, bits in pairs:
            if bits == 32:
                kept.update(dict.fromkeys((*choice.makers, *choice.readers)))
        names = (*recipe.keep_float, *(node.name for node in kept))
        forms = Forms(function, named_layers(function, names))
        stored = set(forms.stored_values())
        wide = [v.name for c, bits in pairs if bits == 16 for v in c.values if v in stored]
        return replace(
            recipe,
            keep_float=tuple(dict.fromkeys(names)),
            int16=tuple(dict.fromkeys((*recipe.int16, *wide))),
        )

    def _failure(self) -> BudgetExceeded:
        nearest = min(self.errors, key=self.errors.__getitem__)
        bits = self._bits(nearest)
        return BudgetExceeded(
            f"no mix of int8 and int16 values keeps {decibels(self.goal):.1f} dB",
            details=(
                f"nearest: {bits.count(16)} of {len(bits)} layers in int16, {bits.count(32)} in"
                f" float: {decibels(self.errors[nearest]):.1f} dB",
            ),
            hint="ask for less; what remains may be of the weights: see --weights, --keep-float",
        )

    def _told(self, point: Point, int8_error: float, points: Sequence[Point]) -> MixedValues:
        plan = self.plan.other(recipe=self._recipe(point))
        made = plan.finished(self.made.trials) if any(point.chosen) else self.made
        layers = []
        for choice, lost, bits in zip(self.choices, self.lost, self._bits(point), strict=True):
            value = choice.values[0]
            maker = self.forms.producers.get(value)
            layers.append(
                Layer(
                    value.origin.tensor if value.origin else value.name,
                    "input" if maker is None else maker.op.name,
                    bits,
                    choice.elements,
                    choice.elements * bits // 8,
                    lost[8],
                )
            )
        front = sorted({*front_of(points), point}, key=lambda p: (p.size_bytes, p.loss))
        wide = sum(
            node.op.macs(node.attrs, node.input_types)
            for node in dict.fromkeys(
                node
                for choice, bits in zip(self.choices, self._bits(point), strict=True)
                if bits > 8
                for node in choice.readers
            )
        )
        whole = sum(
            node.op.macs(node.attrs, node.input_types)
            for node in self.forms.function.nodes
            if self.forms.has_integer_form(node)
        )
        return MixedValues(
            made,
            decibels(self.goal),
            decibels(self.errors[point]),
            decibels(int8_error),
            tuple(layers),
            wide / max(whole, 1),
            tuple(
                Step(p.size_bytes, decibels(p.loss), tuple(self._bits(p)), p == point)
                for p in front
            ),
        )
