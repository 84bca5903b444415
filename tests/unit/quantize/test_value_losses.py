"""Choices of values, what each of them loses alone, and the mix that keeps a goal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from quantized_files import qdq_bytes
from uneven_network import pixels, uneven

import edgec
from edgec import ops
from edgec.errors import BudgetExceeded
from edgec.frontends import import_model
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.types import TensorType
from edgec.ops.conv2d import Conv2dAttrs
from edgec.passes.sequence import run_passes
from edgec.quantizer.assign import Point
from edgec.quantizer.integer_nodes import IntegerNodes
from edgec.quantizer.mixed_values import _Search, mix_values, value_parts
from edgec.quantizer.post_training import Recipe, quantize_function
from edgec.quantizer.scheme import Stored, activation_quant, rounded
from edgec.quantizer.value_losses import Losses, choices_of
from edgec.quantizer.value_mixes import MixedValues

ops.load()


def test_what_is_computed_element_by_element_and_means_are_one_choice() -> None:
    choices = choices_of(IntegerNodes(uneven(1.0)))
    names = [[value.name for value in choice.values] for choice in choices]
    assert names == [["x"], ["first"], ["second"], ["third", "bent", "mean"], ["last"]]
    made = {choice.values[0].name: choice for choice in choices}["third"]
    assert [node.name for node in made.makers] == ["third", "mean"]
    assert [node.name for node in made.readers] == ["mean", "last"]
    assert made.elements == 2 * 36 * 4 + 4 * 4
    assert made.weights == 2 * 16


def test_a_loss_is_that_of_the_values_alone() -> None:
    function, samples = uneven(1.0), pixels(5)
    stored = {v: Stored(activation_quant(-1.3, 1.1)) for v in function.values()}
    choices = choices_of(IntegerNodes(function))
    calls: list[int] = []
    found = Losses(function, samples).of(choices, stored, lambda: calls.append(1))
    assert len(calls) == len(samples)
    exact = [interpret(function, sample)[0] for sample in samples]
    quant = stored[function.params[0]]
    coarse = [interpret(function, [rounded(sample[0], quant)])[0] for sample in samples]
    power = sum(float(np.sum(y.astype(np.float64) ** 2)) for y in exact)
    noise = sum(
        float(np.sum((y - z).astype(np.float64) ** 2)) for y, z in zip(exact, coarse, strict=True)
    )
    assert found[choices[0]] == pytest.approx(noise / power, rel=1e-4)
    noise = sum(float(np.sum((y - rounded(y, quant)).astype(np.float64) ** 2)) for y in exact)
    assert found[choices[-1]] == pytest.approx(noise / power, rel=1e-4)


@pytest.mark.parametrize(("extent", "is_taken_up"), [(12, True), (11, False)])
def test_a_shift_that_a_bias_takes_up_is_no_loss(extent: int, is_taken_up: bool) -> None:
    """The same at each of 144 positions; 121 are too few to settle biases on."""
    rng = np.random.default_rng(1)
    b = GraphBuilder()
    x = b.param("x", TensorType((1, extent, extent, 4), "float32"))
    weights = b.constant("w", rng.standard_normal((3, 1, 1, 4)).astype(np.float32))
    bias = b.constant("b", np.zeros(3, np.float32))
    function = b.finish([b.op("conv2d", [x, weights, bias], Conv2dAttrs(), name="y")])
    sample = [np.broadcast_to(rng.uniform(-1, 1, 4).astype(np.float32), x.type.shape).copy()]
    stored = {value: Stored(activation_quant(-5.0, 5.0)) for value in function.values()}
    choices = choices_of(IntegerNodes(function))
    lost = Losses(function, [sample]).of(choices, stored)[choices[0]]
    assert lost < 1e-12 if is_taken_up else lost > 1e-6


def mixed(spread: float, goal_db: float = 30.0) -> MixedValues:
    recipe = Recipe("minmax", equalize="never", activations="mixed")
    made = quantize_function(uneven(spread), pixels(30), recipe)
    calls: list[int] = []
    found = mix_values(made, goal_db, lambda: calls.append(1))
    assert 0 < len(calls) <= value_parts(made)
    return found


def test_only_what_is_to_blame_becomes_int16(tmp_path: Path) -> None:
    found = mixed(300.0)
    assert {layer.name: layer.bits for layer in found.layers} == {
        "x": 8, "first": 16, "second": 8, "third": 8, "last": 8,
    }  # fmt: skip
    assert found.int8_sqnr_db < 15.0 and found.sqnr_db > 30.0
    assert found.made.recipe.int16 == ("first",) and not found.made.recipe.keep_float
    assert found.made.explain(pixels(20, 3)).output_sqnr_db > 20.0
    (taken,) = [step for step in found.front if step.taken]
    assert taken.bits == (8, 16, 8, 8, 8) and taken.size_bytes == 2 * 144 + 144 * 2 + 304 + 16
    explicit = Recipe("minmax", equalize="never", int16=("first",))
    same = quantize_function(uneven(300.0), pixels(30), explicit)
    assert qdq_bytes(same) == qdq_bytes(found.made)
    (path := tmp_path / "mixed.onnx").write_bytes(qdq_bytes(same))
    back = run_passes(import_model(path).main, "onnx")
    for board in ("host", "mps2_an386"):
        with edgec.compile(path, board=board) as model:
            for sample in pixels(2, seed=8):
                expected = interpret(same.integers, sample)[0]
                assert np.array_equal(interpret(back, sample)[0], expected)
                assert np.array_equal(model.run(*sample), expected)


def test_what_even_int16_is_too_coarse_for_stays_in_float() -> None:
    found = mixed(1e7)
    assert {layer.name for layer in found.layers if layer.bits == 32} == {"first"}
    assert found.made.recipe.keep_float == ("first", "second")
    assert found.sqnr_db > 30.0 > 20.0 > found.int8_sqnr_db


def test_what_is_near_enough_stays_int8() -> None:
    found = mixed(1.0)
    assert {layer.bits for layer in found.layers} == {8}
    assert found.sqnr_db == found.int8_sqnr_db > 30.0
    assert not found.made.recipe.int16


class Known(_Search):
    """A search among mixes whose errors are known; bytes are the cost."""

    def __init__(self, known: dict[Point, float]) -> None:
        self.goal, self.known, self.errors = 1.0, known, {}

    def _cost(self, point: Point) -> float:
        return point.size_bytes

    def _measured(self, point: Point) -> float:
        self.errors[point] = self.known[point]
        return self.errors[point]

    def _trimmed(self, point: Point) -> Point:
        return point


def test_a_sum_of_losses_that_is_too_large_for_floats_does_not_end_the_search() -> None:
    """Floats miss though they lose least; what int16 alone can do has much to spare."""
    floats, int16 = Point((2, 2), 40, 0, 1.4), Point((1, 1), 20, 0, 2.0)
    some, none = Point((0, 1), 15, 0, 3.0), Point((0, 0), 10, 0, 6.0)
    search = Known({floats: 2.0, int16: 0.2, some: 0.9, none: 8.0})
    assert search._searched([none, some, floats, int16]) == some
    assert list(search.errors) == [floats, int16, none, some]
    assert Known({floats: 2.0, int16: 0.2})._searched([floats, int16]) == int16


def test_a_goal_that_no_values_reach() -> None:
    """Weights of eight bits are in the way."""
    with pytest.raises(
        BudgetExceeded, match=r"no mix of int8 and int16 values keeps 90\.0 dB"
    ) as error:
        mixed(300.0, 90.0)
    assert "nearest: " in error.value.details[0] and " dB" in error.value.details[0]
