"""Weights of four or eight bits, layer by layer: the least loss that keeps the limits.

1. The model is quantized to int8. For every layer, the growth of the output error with int4 weights
   in this layer only is measured (`edgec.quantizer.sensitivity`).
2. Both widths are compiled for the board: each layer's bytes of constants, and the compiler's
   estimate of its instructions.
3. The assignment is chosen exactly among all (`edgec.quantizer.assign`), its weights layer after
   layer, and it is built. The excess of the real image over the estimate tightens the limits of the
   next choice, until one keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from edgec.errors import BudgetExceeded
from edgec.graph.ir import Node
from edgec.options import Figures, Limits
from edgec.quantizer.assign import Option, Point, all_best, front_of, least_loss
from edgec.quantizer.batches import COUNT
from edgec.quantizer.group_scales import group_of
from edgec.quantizer.insert import insert_qdq
from edgec.quantizer.layerwise_weights import layerwise_weights
from edgec.quantizer.measure import Builds, Measure
from edgec.quantizer.post_training import PostTraining, with_bits
from edgec.quantizer.sensitivity import losses

#: Bits to choose from, by place in the options of a layer.
BITS = (8, 4)
#: Samples that a layer's loss is measured on.
LOSS_SAMPLES = 64
#: How often a choice whose build breaks a limit is followed by a tighter one.
MOST_BUILDS = 6


@dataclass(frozen=True)
class Layer:
    """A layer's choice. loss: relative growth of the outputs' squared error if only this layer has
    int4 weights; weights_bytes: in eight bits; stored_bytes: in the chosen bits.
    """

    name: str
    operator: str
    weights_bytes: int
    loss: float
    bits: int
    stored_bytes: int


@dataclass(frozen=True)
class Mixed:
    """made: the model with the chosen weights. front: bytes of weights against loss, of all mixes.

    figures: of the build, None without limits of one.
    """

    made: PostTraining
    layers: tuple[Layer, ...]
    front: tuple[Point, ...]
    taken: Point
    figures: Figures | None


def mix(
    made: PostTraining,
    most_weights_bytes: int | None = None,
    measure: Measure | None = None,
    progress: Callable[[], None] | None = None,
) -> Mixed:
    """Choose the bits of every layer's weights.

    made: the int8 model. most_weights_bytes: of stored weights, two int4 weights to a byte.
    measure: whose limits a build is to keep. progress: called for each part of the samples. Raises
    BudgetExceeded with the nearest point if no assignment keeps the limits.
    """
    function, statistics = made.source, made.statistics
    base = made.recipe.scheme(function, made.ranges)
    followed = layerwise_weights(
        function, base, statistics.followed, biases=made.recipe.correct_biases, other_bits=BITS[1],
        group=made.recipe.group,
    )  # fmt: skip
    samples = statistics.followed[:LOSS_SAMPLES]
    lost = losses(function, followed.scheme, followed.others, samples, progress)
    nodes = list(lost)
    costs = {bits: _costs(made, nodes, bits, measure) for bits in BITS}
    loss = {8: dict.fromkeys(nodes, 0.0), 4: lost}
    menu = [[Option(bits, *costs[bits][node], loss[bits][node]) for bits in BITS] for node in nodes]
    if measure is None or measure.limits.instructions is None:  # then instructions do not matter
        menu = [[replace(option, instructions=0) for option in options] for options in menu]
    search = _Search(made, nodes, menu, most_weights_bytes, measure)
    point, mixed, figures = search.run()
    layers = tuple(
        Layer(
            node.name,
            node.op.name,
            stored_bytes(node, 8),
            lost[node],
            BITS[option],
            stored_bytes(node, BITS[option], made.recipe.group),
        )
        for node, option in zip(nodes, point.chosen, strict=True)
    )
    return Mixed(mixed, layers, tuple(front_of(search.points)), point, figures)


def loss_parts(made: PostTraining) -> int:
    """Number of reports of progress by `mix`, if samples can run together."""
    return -(-min(len(made.statistics.followed), LOSS_SAMPLES) // COUNT)


class _Search:
    def __init__(
        self,
        made: PostTraining,
        nodes: Sequence[Node],
        menu: Sequence[Sequence[Option]],
        most_weights_bytes: int | None,
        measure: Measure | None,
    ) -> None:
        self.made, self.nodes, self.most_weights_bytes = made, nodes, most_weights_bytes
        self.builds = None
        if measure is not None and measure.limits != Limits():
            self.builds = Builds(measure, lambda p: self._model(p).quantized.function, _title)
        self.points = all_best(menu)
        self.stored = {point: self._stored_bytes(point) for point in self.points}

    def run(self) -> tuple[Point, PostTraining, Figures | None]:
        most = self.most_weights_bytes
        points = [p for p in self.points if most is None or self.stored[p] <= most]
        if not points:
            least = min(self.stored.values())
            raise BudgetExceeded(
                f"the weights do not fit in {most:,} bytes",
                details=(f"nearest: all layers in int4, {least:,} bytes of weights",),
                hint="allow more, or start from a smaller model",
            )
        if self.builds is None:
            point = least_loss(points, float("inf"), float("inf"))
            assert point is not None
            return point, self._model(point), None
        return self._built(points, self.builds)

    def _built(
        self, points: Sequence[Point], builds: Builds
    ) -> tuple[Point, PostTraining, Figures]:
        """The choice with the least loss that keeps the limits, by estimates corrected by builds.

        Estimates leave out the kernels that a mix no longer calls. So if no mix seems to keep the
        limits, the smallest is built, and then larger mixes that use the rest.
        """
        point = self._first_within(points, builds)
        if point is None:
            point = min(points, key=lambda p: p.size_bytes)
            if builds.over(point):
                message = "no mix of int4 and int8 weights keeps the limits"
                raise builds.failure(message, point)
            left = (builds.limits.flash_bytes or 0) - builds.build(point).figures.flash_bytes
            larger = [p for p in points if p.size_bytes <= point.size_bytes + left]
            point = self._first_within(larger, builds) or point
        return point, self._model(point), builds.build(point).figures

    def _first_within(self, points: Sequence[Point], builds: Builds) -> Point | None:
        """The first choice whose build keeps the limits; each that does not tightens estimates."""
        flash, estimate = float("inf"), float("inf")
        for _ in range(MOST_BUILDS):
            point = least_loss(points, flash, estimate)
            if point is None:
                break
            over, figures = builds.over(point), builds.build(point).figures
            if not over:
                return point
            if set(over) == {"RAM"}:
                break  # weights do not change it
            flash = min(flash, point.size_bytes - over.get("flash", float("-inf")))
            if "instructions" in over and builds.limits.instructions and figures.instructions:
                share = builds.limits.instructions / figures.instructions
                estimate = min(estimate, point.instructions * share)
        return None

    def _model(self, point: Point) -> PostTraining:
        pairs = zip(self.nodes, point.chosen, strict=True)
        return with_bits(self.made, {node: BITS[option] for node, option in pairs})

    def _stored_bytes(self, point: Point) -> int:
        pairs = zip(self.nodes, point.chosen, strict=True)
        group = self.made.recipe.group
        return sum(stored_bytes(node, BITS[option], group) for node, option in pairs)


def _title(point: Point) -> str:
    short = sum(BITS[option] == 4 for option in point.chosen)
    return f"{short} of {len(point.chosen)} layers in int4"


def stored_bytes(node: Node, bits: int, group: int = 0) -> int:
    """Flash bytes of a layer's weights: two int4 weights per byte, plus group shifts."""
    elements = node.inputs[1].type.elements
    if bits == 8:
        return elements
    size = group_of(node, group)
    return -(-elements // 2) + (-(-elements // size // 2) if size else 0)


def _costs(
    made: PostTraining, nodes: Sequence[Node], bits: int, measure: Measure | None
) -> dict[Node, tuple[int, int]]:
    """Bytes of constants and estimated instructions of each layer, all having this many bits.

    Without a build: bytes of weights, and no instructions.
    """
    if measure is None:
        return {node: (stored_bytes(node, bits, made.recipe.group), 0) for node in nodes}
    scheme = made.recipe.scheme(made.source, made.ranges, dict.fromkeys(nodes, bits))
    found: dict[str, tuple[int, int]] = {}
    names = {node.name for node in nodes}
    for cost in measure.costs(insert_qdq(made.source, scheme).function):
        weighted = [name for name in cost.nodes if name in names]
        for name in weighted:  # several only where rows stream through them
            found[name] = cost.constant_bytes // len(weighted), cost.instructions // len(weighted)
    return {node: found.get(node.name, (stored_bytes(node, bits), 0)) for node in nodes}
