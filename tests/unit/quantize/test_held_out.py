"""Ways to quantize tried on samples that they were not fitted to, and the way that is taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from quantized_files import qdq_bytes
from small_network import images, network
from uneven_network import pixels, uneven

import edgec.quantizer.calibrate as calibrate_module
import edgec.quantizer.held_out as held_out_module
from edgec.errors import EdgecError
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.graph.types import Array, TensorType
from edgec.ops.reduce import ReduceAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.softmax import SoftmaxAttrs
from edgec.passes.sequence import run_passes
from edgec.quantizer.batches import Batch
from edgec.quantizer.calibrate import calibrate
from edgec.quantizer.held_out import (
    LEAST_HALF,
    Held,
    after_softmax,
    before_softmax,
    decibels,
    deviation_of_runs,
    fitted_to,
    held_out,
    output_error,
)
from edgec.quantizer.post_training import AUTO_OBSERVERS, PostTraining, Recipe, quantize_function


def same(first: Array, second: Array) -> bool:
    return bool(np.array_equal(first, second))


def test_what_is_tried_on_was_not_fitted_to() -> None:
    function, samples = network(), images(11)
    statistics = calibrate(function, iter(samples))
    halves, held = fitted_to(statistics), held_out(function, statistics)
    x = function.params[0]
    for first, seen, test in zip((0, 1), halves, held, strict=True):
        fitted, others = samples[first::2], samples[1 - first :: 2]
        assert seen.count == len(fitted)
        assert seen.histograms[x].highest == np.max([sample[0].max() for sample in fitted])
        assert all(same(a[0], b[0]) for a, b in zip(test.samples, others, strict=True))
        for sample, expected in zip(test.samples, test.expected, strict=True):
            assert same(expected[0], interpret(function, sample)[0])
    whole = statistics.histograms[x]
    assert whole.total == sum(half.histograms[x].total for half in halves) == 11 * 3 * 8 * 7
    assert len(statistics.kept) == len(statistics.followed) == statistics.count == 11


def test_what_softmax_reads_is_compared() -> None:
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 4), "float32"))
    weights = b.constant("w", np.eye(4, dtype=np.float32))
    logits = b.op("dense", [x, weights, b.constant("b", np.zeros(4, np.float32))], name="logits")
    shares = b.op("softmax", [logits], SoftmaxAttrs(), name="shares")
    flat = b.op("reshape", [shares], ReshapeAttrs((4,)), name="flat")
    other = b.op("neg", [shares], name="other")
    function = b.finish([flat, logits, other])
    assert before_softmax(function).results == (logits, logits, other)
    assert [node.name for node in before_softmax(b.finish([flat])).nodes] == ["logits"]


def answers(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def network_with_softmax() -> Function:
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 4), "float32"))
    shares = b.op("softmax", [x], SoftmaxAttrs(), name="shares")
    return b.finish([b.op("reshape", [shares], ReshapeAttrs((4,)), name="flat")])


def test_outputs_are_judged_with_the_errors_of_all_samples() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, (12, 1, 4)).astype(np.float32)
    found = logits + rng.normal(0, 0.3, logits.shape).astype(np.float32)
    tail = after_softmax(network_with_softmax())
    test = Held([[x] for x in logits], [[x] for x in logits], tail)
    given = iter(found)
    deviation = deviation_of_runs([test], [lambda _: [next(given)]])
    noise = found - logits
    wanted = np.mean([[np.sum((answers(x + n) - answers(x)) ** 2) for n in noise] for x in logits])
    wanted /= np.mean(np.sum(answers(logits) ** 2, axis=(1, 2)))
    assert deviation.outputs == pytest.approx([wanted], rel=1e-3)
    assert deviation.error == pytest.approx(np.sum(noise**2) / np.sum(logits**2), rel=1e-3)
    assert deviation.judged == pytest.approx((wanted * deviation.error) ** 0.5, rel=1e-3)


def test_a_way_that_is_lucky_with_one_sample_is_not_better() -> None:
    """One sample stands between two answers. One way is three times as exact as the other, which
    happens to have no error there: of the outputs as they are its error is the smaller one."""
    rng = np.random.default_rng(1)
    logits = rng.normal(np.array([12, 0, 0, 0]), 1, (20, 1, 4)).astype(np.float32)
    logits[7] = [6, 6, 0, 0]
    noise = rng.normal(0, 0.3, logits.shape)
    exact, lucky = logits + noise / 3, logits + noise
    lucky[7] = logits[7]
    tail = after_softmax(network_with_softmax())
    test = Held([[x] for x in logits], [[x] for x in logits], tail)
    judged, alone = [], []
    for found in (exact, lucky):
        given = iter(found.astype(np.float32))
        judged.append(deviation_of_runs([test], [lambda _, given=given: [next(given)]]).judged)
        alone.append(np.sum((answers(found) - answers(logits)) ** 2))
    assert alone[1] < alone[0] / 2
    assert judged[0] < judged[1] / 2


def test_few_samples_are_fitted_to_and_tried_on() -> None:
    function = network()
    few = calibrate(function, images(2 * LEAST_HALF - 1))
    assert list(fitted_to(few)) == [few]
    (held,) = held_out(function, few)
    assert len(held.samples) == few.count
    assert output_error([held], [function]) == 0.0


def test_the_way_that_is_taken_has_the_least_error() -> None:
    function, samples = network(), images(24)
    made = quantize_function(function, samples, Recipe())
    found = [candidate.sqnr_db for candidate in made.candidates]
    assert 5 < min(found) <= max(found) < 60
    ways = {(candidate.observer, candidate.equalized) for candidate in made.candidates}
    assert ways == {(name, yes) for name in AUTO_OBSERVERS for yes in (False, True)}
    best = made.candidates[0]
    asked = Recipe(best.observer, equalize="always" if best.equalized else "never")
    again = quantize_function(function, samples, asked)
    assert again.candidates == () and qdq_bytes(again) == qdq_bytes(made)


@pytest.mark.parametrize(("choice", "equalized"), [("always", True), ("never", False)])
def test_what_is_asked_for_is_not_tried(choice: str, equalized: bool) -> None:
    function = network()
    made = quantize_function(function, images(10), Recipe(equalize=choice))
    assert {candidate.equalized for candidate in made.candidates} == {equalized}
    assert (made.source is not function) == equalized
    with pytest.raises(EdgecError, match="no choice of equalization 'sometimes'"):
        Recipe(equalize="sometimes")


def error_db(made: PostTraining, samples: Sequence[Sequence[Array]]) -> float:
    """Of the finished model, before softmax."""
    exact, found = before_softmax(made.source), before_softmax(made.quantized.function)
    held = Held(samples, [interpret(exact, sample) for sample in samples])
    return decibels(output_error([held], [run_passes(found, "onnx")]))


@pytest.mark.parametrize("name", ["small", pytest.param("uneven", marks=pytest.mark.full)])
def test_the_automatic_choice_is_no_worse_than_any_observer(name: str) -> None:
    """On 60 samples that none was made with. 40 samples do not tell apart what differs by less than
    half a decibel: of ways about as good the one is taken that clips least."""
    function, samples = (
        (network(), images(100)) if name == "small" else (uneven(10.0), list(pixels(100)))
    )
    found = {}
    for observer in ("auto", *AUTO_OBSERVERS):
        made = quantize_function(function, samples[:40], Recipe(observer))
        found[observer] = error_db(made, samples[40:])
    assert found["auto"] > max(found.values()) - 0.5, found
    assert found["auto"] > min(found.values()) + 0.5


def test_the_automatic_choice_takes_few_more_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pass of a sample through the float function or integers counts, however it is run."""
    counts = {"": 0}

    def counted(function: Callable, size: Callable) -> Callable:
        def run(*args: object, **words: object) -> object:
            counts[name] += size(args)
            return function(*args, **words)

        return run

    for module in (held_out_module, calibrate_module):
        monkeypatch.setattr(module, "interpret", counted(module.interpret, lambda args: 1))
    monkeypatch.setattr(Batch, "run", counted(Batch.run, lambda args: len(args[1][0])))
    for name in ("minmax", "auto"):
        counts[name] = 0
        quantize_function(network(), images(80), Recipe(name))
    assert counts["auto"] < 2.5 * counts["minmax"], counts


def test_outputs_that_are_no_numbers_are_compared_too() -> None:
    """A model that ends with a comparison has bool outputs, which NumPy does not subtract."""
    found = [np.array([True, False, True, True])]
    held = Held([[np.zeros(1, np.float32)]], [[np.array([True, True, True, False])]])
    assert deviation_of_runs([held], [lambda _: found]).error == pytest.approx(2 / 3)


@pytest.mark.parametrize("is_scalar", [True, False])
def test_outputs_beside_a_softmax_are_tried(is_scalar: bool) -> None:
    """One of no axes, and what the softmax reads."""
    builder = GraphBuilder()
    x = builder.param("x", TensorType((1, 4), "float32"))
    weights = builder.constant("w", np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))
    y = builder.op("dense", [x, weights, builder.constant("b", np.zeros(3, np.float32))], name="y")
    largest = builder.op("reduce", [y], ReduceAttrs((0, 1), "max"), name="largest")
    shares = builder.op("softmax", [y], SoftmaxAttrs(), name="shares")
    scalar = builder.op("reshape", [largest], ReshapeAttrs(()), name="scalar")
    function = builder.finish([shares, scalar if is_scalar else y])
    rng = np.random.default_rng(1)
    samples = [[rng.standard_normal((1, 4)).astype(np.float32)] for _ in range(4)]
    made = quantize_function(function, samples, Recipe())
    assert error_db(made, samples) > 20
