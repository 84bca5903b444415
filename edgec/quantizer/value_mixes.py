"""Mixes of int8, int16 and float values: loss and cost of each choice, and the error of a mix.

`edgec.quantizer.mixed_values` searches for the cheapest mix that meets a goal,
`edgec.quantizer.limited_values` for the mix nearest to float within limits of a build.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from edgec.graph.ir import Node
from edgec.options import Figures
from edgec.passes.sequence import run_passes
from edgec.quantizer.assign import Option, Point, front_of
from edgec.quantizer.choose_ranges import observed_ranges
from edgec.quantizer.held_out import before_softmax, decibels, output_error
from edgec.quantizer.insert import insert_qdq
from edgec.quantizer.integer_nodes import IntegerNodes
from edgec.quantizer.named_layers import named_layers
from edgec.quantizer.post_training import Plan, PostTraining, Recipe
from edgec.quantizer.scheme import Scheme, make_scheme
from edgec.quantizer.value_losses import Losses, choices_of

#: Number of multiply-accumulates on which losses are measured; it limits the samples.
LOSS_MACS = 2.5e9
LEAST_SAMPLES, MOST_SAMPLES = 4, 32
#: A choice that loses less than this part of the goal, divided by all choices, stays int8.
NO_LOSS = 0.05
#: Float is offered where int16 leaves more than this part of the loss. It costs decibels too: no
#: bias of a float layer corrects the mean that the integers before it shift.
HARDLY_BETTER = 0.1
#: Bits to choose from. Floats are slow on cores without an FPU.
BITS = (8, 16, 32)


@dataclass(frozen=True)
class Layer:
    """Values that share a dtype, named by the first one.

    value_bytes: in the chosen dtype. bits: 8, 16 or, for float, 32. loss: the outputs' error if
    these values alone are int8.
    """

    name: str
    operator: str
    bits: int
    elements: int
    value_bytes: int
    loss: float


@dataclass(frozen=True)
class Step:
    """A mix on the front. sqnr_db: by the sum of its losses. bits: of each layer."""

    size_bytes: int
    sqnr_db: float
    bits: tuple[int, ...]
    taken: bool


@dataclass(frozen=True)
class MixedValues:
    """made: the model with the chosen values. goal_db: None for none. sqnr_db: of the outputs,
    before softmax, on held-out samples; int8_sqnr_db: with all values int8. wide_products: fraction
    of the multiply-accumulates that read other dtypes than int8. front: mixes of bytes against
    losses. figures: of the build, None without limits.
    """

    made: PostTraining
    goal_db: float | None
    sqnr_db: float
    int8_sqnr_db: float
    layers: tuple[Layer, ...]
    wide_products: float
    front: tuple[Step, ...]
    figures: Figures | None = None


def loss_samples(made: PostTraining) -> int:
    """The number of samples that losses are measured on."""
    macs = made.source.macs
    most = min(max(LEAST_SAMPLES, int(LOSS_MACS / max(macs, 1))), MOST_SAMPLES)
    return min(most, len(made.statistics.followed))


class ValueMixes:
    """The mixes of one model: each choice's loss (losses add up), and measured errors of mixes.

    choices: sets of values that take one dtype. errors: of the mixes measured so far.
    """

    def __init__(
        self, made: PostTraining, plan: Plan, goal: float, progress: Callable[[], None]
    ) -> None:
        """made: the int8 model, by `plan`. goal: the error that is allowed; 0 if there is none.

        progress: called for each sample of the losses, and each mix.
        """
        self.made, self.plan, self.goal, self.progress = made, plan, goal, progress
        self.integer_nodes: IntegerNodes = made.scheme.integer_nodes
        self.choices = choices_of(self.integer_nodes)
        self.measure = plan.errors
        self.products = sum(choice.products for choice in self.choices)
        self.errors: dict[Point, float] = {}
        self._models: dict[Point, PostTraining] = {}

    def losses(self) -> list[dict[int, float]]:
        """The loss of each choice by its bits; int16 only where int8 loses something."""
        function, statistics = self.plan.function, self.plan.statistics
        losses = Losses(before_softmax(function), statistics.followed[: loss_samples(self.made)])
        widest = observed_ranges(function, statistics, "minmax")
        kept = named_layers(function, self.plan.recipe.keep_float)
        wide = make_scheme(function, widest, dtype="int16", kept=kept).values
        narrow = losses.of(self.choices, self.made.scheme.values, self.progress)
        lossy = [choice for choice in self.choices if not self._is_none(narrow[choice])]
        finer = losses.of(lossy, wide, self.progress)
        return [
            {8: narrow[choice], **({16: finer[choice]} if choice in finer else {})}
            for choice in self.choices
        ]

    def menu(self, lost: Sequence[dict[int, float]]) -> list[list[Option]]:
        menu = []
        for choice, loss in zip(self.choices, lost, strict=True):
            options = [Option(8, choice.elements, 0, loss[8])]
            if 16 in loss:
                least = min(loss[16], loss[8])
                options.append(Option(16, 2 * choice.elements, choice.products, least))
                if not self._is_none(loss[16]) and loss[16] > HARDLY_BETTER * loss[8]:
                    size = 4 * choice.elements + 3 * choice.weights
                    options.append(Option(32, size, 2 * choice.products, 0.0))
            menu.append(options)
        return menu

    def measured(self, point: Point) -> float:
        """Estimate the error of a mix by rounding values in a float model."""
        self.errors[point] = self.error(self.plan_of(point))
        self.progress()
        return self.errors[point]

    def error(self, plan: Plan) -> float:
        return self.measure.error(self._schemes(plan))

    def run_in_integers(self, point: Point) -> float:
        """Measure the error of a mix in the integers that will run."""
        schemes = self._schemes(self.plan_of(point))
        quantized = [insert_qdq(self.measure.function, scheme).function for scheme in schemes]
        integers = [run_passes(function, "onnx") for function in quantized]
        self.errors[point] = output_error(self.measure.tests, integers)
        return self.errors[point]

    def plan_of(self, point: Point) -> Plan:
        return self.plan.other(recipe=self._recipe(point))

    def finished(self, point: Point) -> PostTraining:
        """The quantized model of a mix; the int8 model itself if all values are int8."""
        if not any(point.chosen):
            return self.made
        if point not in self._models:
            self._models[point] = self.plan_of(point).finished(self.made.candidates)
        return self._models[point]

    def bits(self, point: Point) -> list[int]:
        return [BITS[option] for option in point.chosen]

    def report(
        self,
        point: Point,
        lost: Sequence[dict[int, float]],
        int8_error: float,
        points: Sequence[Point],
    ) -> MixedValues:
        """The chosen mix, and the front of all `points`."""
        layers = []
        for choice, loss, bits in zip(self.choices, lost, self.bits(point), strict=True):
            value = choice.values[0]
            maker = self.integer_nodes.producers.get(value)
            layers.append(
                Layer(
                    value.origin.tensor if value.origin else value.name,
                    "input" if maker is None else maker.op.name,
                    bits,
                    choice.elements,
                    choice.elements * bits // 8,
                    loss[8],
                )
            )
        front = sorted({*front_of(points), point}, key=lambda p: (p.size_bytes, p.loss))
        return MixedValues(
            self.finished(point),
            decibels(self.goal) if self.goal else None,
            decibels(self.errors[point]),
            decibels(int8_error),
            tuple(layers),
            self._wide_products(point),
            tuple(
                Step(p.size_bytes, decibels(p.loss), tuple(self.bits(p)), p == point) for p in front
            ),
        )

    def _is_none(self, loss: float) -> bool:
        return loss * len(self.choices) <= NO_LOSS * self.goal

    def _schemes(self, plan: Plan) -> list[Scheme]:
        return self.measure.schemes(
            lambda seen: plan.scheme(seen)[0], correct=plan.recipe.correct_biases
        )

    def _recipe(self, point: Point) -> Recipe:
        """The recipe of a mix: it names the layers in int16 and in float."""
        recipe, function = self.plan.recipe, self.plan.function
        kept: dict[Node, None] = {}
        pairs = list(zip(self.choices, self.bits(point), strict=True))
        for choice, bits in pairs:
            if bits == 32:
                kept.update(dict.fromkeys((*choice.makers, *choice.readers)))
        names = (*recipe.keep_float, *(node.name for node in kept))
        integer_nodes = IntegerNodes(function, named_layers(function, names))
        stored = set(integer_nodes.stored_values())
        wide = [v.name for c, bits in pairs if bits == 16 for v in c.values if v in stored]
        return replace(
            recipe,
            keep_float=tuple(dict.fromkeys(names)),
            int16=tuple(dict.fromkeys((*recipe.int16, *wide))),
        )

    def _wide_products(self, point: Point) -> float:
        readers = dict.fromkeys(
            node
            for choice, bits in zip(self.choices, self.bits(point), strict=True)
            if bits > 8
            for node in choice.readers
        )
        integers = [
            n for n in self.integer_nodes.function.nodes if self.integer_nodes.is_integer(n)
        ]
        wide, whole = (sum(node.macs for node in nodes) for nodes in (readers, integers))
        return wide / max(whole, 1)
