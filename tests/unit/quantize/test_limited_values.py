"""Values that are alive together, and the mix of int8 and int16 that keeps limits of a build."""

from __future__ import annotations

import numpy as np
import pytest
from uneven_network import pixels, uneven

from edgec import ops
from edgec.errors import BudgetExceeded, DoesNotFit
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.graph.types import TensorType
from edgec.ops.reshape import ReshapeAttrs
from edgec.options import Figures, Limits
from edgec.quantizer.assign import Point
from edgec.quantizer.integer_nodes import IntegerNodes
from edgec.quantizer.limited_values import _Search
from edgec.quantizer.live_values import live_elements
from edgec.quantizer.measure import Builds, GroupCost, Measured
from edgec.quantizer.post_training import PostTraining, Recipe, quantize_function
from edgec.quantizer.value_losses import choices_of
from edgec.quantizer.value_mixes import MixedValues, ValueMixes

ops.load()
#: What a program takes beside its values.
REST_BYTES = 500


def test_what_is_alive_while_each_node_runs() -> None:
    function = uneven(1.0)
    assert [node.name for node in function.nodes] == [
        "first", "second", "third", "bent", "mean", "last",
    ]  # fmt: skip
    assert live_elements(function, choices_of(IntegerNodes(function))).tolist() == [
        [144, 144, 0, 0, 0],
        [0, 144, 144, 0, 0],
        [0, 0, 144, 144, 0],
        [0, 0, 0, 288, 0],
        [0, 0, 0, 160, 0],
        [0, 0, 0, 16, 16],
    ]


def test_another_shape_is_no_other_value() -> None:
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 2, 3), "float32"))
    rng = np.random.default_rng(0)

    def dense(x: Value, inputs: int, outputs: int, name: str) -> Value:
        weights = rng.standard_normal((outputs, inputs)).astype(np.float32)
        constants = [b.constant("w", weights), b.constant("b", np.zeros(outputs, np.float32))]
        return b.op("dense", [x, *constants], name=name)

    flat = b.op("reshape", [x], ReshapeAttrs((1, 6)), name="flat")
    y = dense(flat, 6, 8, "y")
    square = b.op("reshape", [y], ReshapeAttrs((2, 4)), name="square")
    function = b.finish([dense(square, 4, 5, "z")])
    choices = choices_of(IntegerNodes(function))
    totals = live_elements(function, choices).sum(axis=1).tolist()
    assert totals == [6, 14, 8, 18]


@pytest.fixture(scope="module")
def made() -> PostTraining:
    recipe = Recipe("minmax", equalize="never", activations="mixed")
    return quantize_function(uneven(300.0), pixels(30), recipe)


class ImaginedBuilds:
    """Builds that take what is alive in RAM, and for each choice in int16 some instructions."""

    target = "an imagined board"

    def __init__(self, mixes: ValueMixes, limits: Limits, longer: int, most_ram: int) -> None:
        self.limits, self.longer, self.most_ram = limits, longer, most_ram
        self.live = live_elements(mixes.integer_nodes.function, mixes.choices)
        self.names = tuple(node.name for node in mixes.integer_nodes.function.nodes)

    def most(self, resource: str) -> int | None:
        return self.limits.of(resource) or {"RAM": 1 << 20, "flash": 1 << 20}.get(resource)

    def build(self, point: Point) -> Measured:
        ram = REST_BYTES + int((self.live @ (1 + np.array(point.chosen))).max())
        if ram > self.most_ram:
            raise DoesNotFit("too large")
        time = 10_000 + self.longer * sum(point.chosen)
        return Measured(Figures(ram, 4000, None, time), ram, (GroupCost(self.names, 0, time),))


class Imagined(_Search):
    """A search whose mixes are measured as they are, not the functions that they make."""

    def __init__(
        self, made: PostTraining, limits: Limits, longer: int = 100, most: int = 1 << 20
    ) -> None:
        assert made.plan is not None
        mixes = ValueMixes(made, made.plan, 0.0, lambda: None)
        measure = ImaginedBuilds(mixes, limits, longer, most)
        super().__init__(mixes, measure)
        self.builds = Builds(measure, lambda point: point, self._title)


def bits(found: MixedValues) -> dict[str, int]:
    return {layer.name: layer.bits for layer in found.layers}


def test_with_room_for_it_what_is_to_blame_becomes_int16(made: PostTraining) -> None:
    search = Imagined(made, Limits(ram_bytes=REST_BYTES + 144 + 2 * 144))
    found = search.run()
    assert bits(found)["first"] == 16 and bits(found)["third"] == 8
    assert bits(found)["last"] == 16  # it costs nothing where RAM is the largest
    assert found.figures is not None and found.figures.ram_bytes <= REST_BYTES + 432
    assert found.int8_sqnr_db < 15.0 and found.sqnr_db > 30.0 and found.goal_db is None
    (taken,) = [step for step in found.front if step.taken]
    assert taken.bits == tuple(layer.bits for layer in found.layers)


def test_without_room_for_it_it_stays_int8(made: PostTraining) -> None:
    found = Imagined(made, Limits(ram_bytes=REST_BYTES + 431)).run()
    assert bits(found)["first"] == 8
    assert found.sqnr_db < 15.0


def test_with_room_for_all_nothing_is_left_out(made: PostTraining) -> None:
    search = Imagined(made, Limits(ram_bytes=REST_BYTES + 576))
    assert set(bits(search.run()).values()) == {16}
    assert len(search.builds.built) == 2


def test_a_limit_of_instructions(made: PostTraining) -> None:
    found = Imagined(made, Limits(instructions=10_100)).run()
    assert [name for name, count in bits(found).items() if count == 16] == ["first"]
    assert found.figures is not None and found.figures.instructions == 10_100


def test_int16_may_be_what_takes_less(made: PostTraining) -> None:
    found = Imagined(made, Limits(instructions=9_700), longer=-100).run()
    assert bits(found)["first"] == 16
    assert found.figures is not None and (found.figures.instructions or 0) <= 9_700


def test_what_the_board_has_no_room_for_is_no_way(made: PostTraining) -> None:
    found = Imagined(made, Limits(instructions=10_500), most=REST_BYTES + 450).run()
    assert bits(found)["first"] == 16 and bits(found)["third"] == 8
    with pytest.raises(DoesNotFit):
        Imagined(made, Limits(instructions=10_500), most=REST_BYTES).run()


def test_what_no_mix_keeps_is_told_with_the_nearest(made: PostTraining) -> None:
    with pytest.raises(BudgetExceeded) as caught:
        Imagined(made, Limits(ram_bytes=REST_BYTES + 287)).run()
    assert caught.value.details == (
        "nearest: 0 of 5 layers in int16: RAM 788, flash 4,000, instructions 10,000",
        "over in RAM: 1",
    )
    assert caught.value.over == {"RAM": 1}
