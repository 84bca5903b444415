"""Weights of four or eight bits, layer by layer: the least loss that keeps the limits.

1. The model is quantized to int8. For every layer: how much worse the outputs become when it alone
   has weights of four bits (`edgec.quantize.sensitivity`).
2. Both forms are compiled for the board: what each layer takes in constants, and about how many
   instructions (the compiler's own estimate).
3. The assignment is chosen exactly among all (`edgec.quantize.assign`), its weights layer after
   layer, and it is built. What the real image takes beyond the estimate makes the limits of the
   next choice tighter, until one keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from edgec.boards.board import Board
from edgec.build.staging import work_folder
from edgec.deploy.limits import MOST_ATTEMPTS, smaller_arena_bytes
from edgec.deploy.project import Figures, deploy, figures_of
from edgec.errors import BudgetExceeded, PlanError
from edgec.graph.ir import Function, Module, Node
from edgec.options import Options
from edgec.pipeline import Compiled, compile_module
from edgec.post_training import PostTraining, with_bits
from edgec.quantize.assign import Option, Point, all_best, front_of, least_loss
from edgec.quantize.batches import COUNT
from edgec.quantize.follow import follow
from edgec.quantize.group_scales import group_of
from edgec.quantize.insert import insert_qdq
from edgec.quantize.sensitivity import losses

#: Bits to choose from, by place in the options of a layer.
BITS = (8, 4)
#: Samples that a layer's loss is measured on.
LOSS_SAMPLES = 64
#: How often a choice whose build breaks a limit is followed by a tighter one.
MOST_BUILDS = 6


@dataclass(frozen=True)
class Limits:
    """None: no limit. weights_bytes: of stored weights, two of four bits to a byte.

    The others are of a whole build, as `edgec build` has them, and need a board.
    """

    weights_bytes: int | None = None
    flash_bytes: int | None = None
    ram_bytes: int | None = None
    instructions: int | None = None

    @property
    def of_build(self) -> bool:
        """Whether there is a limit that only a build can be held to."""
        return (self.flash_bytes, self.ram_bytes, self.instructions) != (None, None, None)

    def within(self, options: Options) -> Options:
        """The options with these limits of a build."""
        return replace(
            options, max_ram_bytes=self.ram_bytes, max_flash_bytes=self.flash_bytes,
            max_instructions=self.instructions,
        )  # fmt: skip


@dataclass(frozen=True)
class Layer:
    """A layer's choice. loss: by which part of their squares the outputs' error grows if it alone
    has weights of four bits; weights_bytes: in eight bits; stored_bytes: in those chosen."""

    name: str
    operator: str
    weights_bytes: int
    loss: float
    bits: int
    stored_bytes: int


@dataclass(frozen=True)
class Mixed:
    """made: the model with the chosen weights. front: bytes of weights against loss, of all mixes.

    figures: of the build, None without a board.
    """

    made: PostTraining
    layers: tuple[Layer, ...]
    front: tuple[Point, ...]
    taken: Point
    figures: Figures | None


def mix(
    made: PostTraining,
    limits: Limits,
    board: Board | None = None,
    options: Options | None = None,
    progress: Callable[[], None] | None = None,
) -> Mixed:
    """Choose the bits of every layer's weights.

    made: the int8 model. progress: called for each part of the samples. Raises BudgetExceeded
    with the nearest point if no assignment keeps the limits.
    """
    options = options or Options()
    function, statistics = made.source, made.statistics
    base = made.recipe.scheme(function, made.ranges)
    followed = follow(
        function, base, statistics.followed, biases=made.recipe.correct_biases, other_bits=BITS[1],
        group=made.recipe.group,
    )  # fmt: skip
    samples = statistics.followed[:LOSS_SAMPLES]
    lost = losses(function, followed.scheme, followed.others, samples, progress)
    nodes = list(lost)
    costs = {bits: _costs(made, nodes, bits, board, options) for bits in BITS}
    loss = {8: dict.fromkeys(nodes, 0.0), 4: lost}
    menu = [[Option(bits, *costs[bits][node], loss[bits][node]) for bits in BITS] for node in nodes]
    if limits.instructions is None:  # then they need not be told apart
        menu = [[replace(option, instructions=0) for option in options] for options in menu]
    search = _Search(made, nodes, menu, limits, board, options)
    point, mixed, figures = search.run()
    layers = tuple(
        Layer(
            node.name,
            node.op.name,
            stored_bytes(node, 8),
            lost[node],
            BITS[place],
            stored_bytes(node, BITS[place], made.recipe.group),
        )
        for node, place in zip(nodes, point.chosen, strict=True)
    )
    return Mixed(mixed, layers, tuple(front_of(search.points)), point, figures)


def loss_parts(made: PostTraining) -> int:
    """How often `mix` reports progress, if samples can run together."""
    return -(-min(len(made.statistics.followed), LOSS_SAMPLES) // COUNT)


class _Search:
    """Choose, build, and choose again."""

    def __init__(
        self,
        made: PostTraining,
        nodes: Sequence[Node],
        menu: Sequence[Sequence[Option]],
        limits: Limits,
        board: Board | None,
        options: Options,
    ) -> None:
        self.made, self.nodes, self.limits = made, nodes, limits
        self.board, self.options = board, options
        self.points = all_best(menu)
        self.stored = {point: self._stored_bytes(point) for point in self.points}
        self.tried: list[tuple[float, str]] = []

    def run(self) -> tuple[Point, PostTraining, Figures | None]:
        """The point that is taken, its model and figures. Raises BudgetExceeded."""
        most = self.limits.weights_bytes
        points = [p for p in self.points if most is None or self.stored[p] <= most]
        if not points:
            least = min(self.stored.values())
            raise BudgetExceeded(
                f"the weights do not fit in {most:,} bytes",
                details=(f"nearest: all layers in four bits, {least:,} bytes of weights",),
                hint="allow more, or start from a smaller model",
            )
        if self.board is None or not self.limits.of_build:
            point = least_loss(points, float("inf"), float("inf"))
            assert point is not None
            return point, self._model(point), None
        flash, estimate = float("inf"), float("inf")
        for _ in range(MOST_BUILDS):
            point = least_loss(points, flash, estimate)
            if point is None:
                break
            mixed = self._model(point)
            _, figures = build_within(
                mixed.quantized.function, self.board, self.options, self.limits
            )
            over = figures.over(self.limits.within(self.options))
            if not over:
                return point, mixed, figures
            self._remember(point, figures, over)
            if set(over) == {"RAM"}:
                break  # weights do not change it
            if "flash" in over:
                flash = min(flash, point.size_bytes - over["flash"])
            if "instructions" in over and self.limits.instructions and figures.instructions:
                share = self.limits.instructions / figures.instructions
                estimate = min(estimate, point.instructions * share)
        raise self._failure(points)

    def _model(self, point: Point) -> PostTraining:
        pairs = zip(self.nodes, point.chosen, strict=True)
        return with_bits(self.made, {node: BITS[place] for node, place in pairs})

    def _stored_bytes(self, point: Point) -> int:
        pairs = zip(self.nodes, point.chosen, strict=True)
        group = self.made.recipe.group
        return sum(stored_bytes(node, BITS[place], group) for node, place in pairs)

    def _remember(self, point: Point, figures: Figures, over: Mapping[str, int]) -> None:
        """A build that breaks limits, in words, and by which part of them."""
        limits = {
            "RAM": self.limits.ram_bytes, "flash": self.limits.flash_bytes,
            "instructions": self.limits.instructions,
        }  # fmt: skip
        excess = sum(n / (limits[what] or 1) for what, n in over.items())
        short = sum(BITS[place] == 4 for place in point.chosen)
        told = f"{short} of {len(point.chosen)} layers in four bits: {', '.join(figures.words())}"
        self.tried.append((excess, told))

    def _failure(self, points: Sequence[Point]) -> BudgetExceeded:
        """What to say when nothing keeps the limits; the nearest that was built is named."""
        assert self.board is not None
        smallest = min(points, key=lambda p: p.size_bytes)
        _, figures = build_within(
            self._model(smallest).quantized.function, self.board, self.options, self.limits
        )
        over = figures.over(self.limits.within(self.options))
        self._remember(smallest, figures, over)
        _, nearest = min(self.tried)
        error = BudgetExceeded(
            f"no mix of weights of four and eight bits keeps the limits on {self.board.name}",
            details=(f"nearest: {nearest}", *(f"over in {w}: {n:,}" for w, n in over.items())),
            hint="allow more, or build otherwise: --optimize size, ram or time",
        )
        error.over = over
        return error


def stored_bytes(node: Node, bits: int, group: int = 0) -> int:
    """What a layer's weights take in flash, two of four bits to a byte, and shifts of groups."""
    elements = node.inputs[1].type.elements
    if bits == 8:
        return elements
    size = group_of(node, group)
    return -(-elements // 2) + (-(-elements // size // 2) if size else 0)


def build_within(
    function: Function, board: Board, options: Options, limits: Limits
) -> tuple[Compiled, Figures]:
    """What a QDQ function takes on a board, from a real build of it in a temporary folder.

    In a smaller arena if RAM is over its limit, where that helps, as `edgec build` does it.
    """
    arena_bytes = limits.ram_bytes
    for _ in range(MOST_ATTEMPTS):
        compiled = compile_for(function, board, options, arena_bytes)
        with work_folder("mixed") as folder:
            built = deploy(compiled, board, folder / "project")
            figures = figures_of(built, measured=limits.instructions is not None)
        over = figures.over(limits.within(options)).get("RAM", 0)
        arena_bytes = smaller_arena_bytes(compiled, over)
        if arena_bytes is None:
            break
    return compiled, figures


def compile_for(
    function: Function, board: Board, options: Options, ram_bytes: int | None = None
) -> Compiled:
    """A QDQ function compiled for a board; over the limit only where it cannot keep it."""
    module = Module({"main": function}, source="model.onnx", format="onnx")
    try:
        return compile_module(module, board.core, options, board=board, arena_limit_bytes=ram_bytes)
    except PlanError:
        if ram_bytes is None:
            raise
        return compile_module(module, board.core, options, board=board)


def _costs(
    made: PostTraining, nodes: Sequence[Node], bits: int, board: Board | None, options: Options
) -> dict[Node, tuple[int, int]]:
    """Bytes of constants and estimated instructions of each layer, all having so many bits.

    Without a board: bytes of weights, and no instructions.
    """
    if board is None:
        return {node: (stored_bytes(node, bits, made.recipe.group), 0) for node in nodes}
    scheme = made.recipe.scheme(made.source, made.ranges, dict.fromkeys(nodes, bits))
    compiled = compile_for(insert_qdq(made.source, scheme).function, board, options)
    found: dict[str, tuple[int, int]] = {}
    for lowered, variant in zip(compiled.groups, compiled.chosen, strict=True):
        inside = [node.name for node in lowered.group.nodes]
        weighted = [node.name for node in nodes if node.name in inside]
        for name in weighted:  # several only where rows stream through them
            found[name] = (
                variant.constant_bytes // len(weighted),
                variant.instructions // len(weighted),
            )
    return {node: found.get(node.name, (stored_bytes(node, bits), 0)) for node in nodes}
