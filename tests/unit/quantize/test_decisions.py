"""What is decided before anything is changed: rounding, equalization, observers, blame."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgec import ops
from edgec.errors import EdgecError
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function, Value
from edgec.graph.types import TensorType
from edgec.ops.add import AddAttrs
from edgec.ops.clip import ClipAttrs
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.ops.max_pool2d import MaxPool2dAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.softmax import SoftmaxAttrs
from edgec.passes.sequence import run_passes
from edgec.quantizer import post_training
from edgec.quantizer.bias_correction import corrected_biases
from edgec.quantizer.calibrate import calibrate
from edgec.quantizer.channel_groups import channel_groups
from edgec.quantizer.choose_ranges import observed_ranges
from edgec.quantizer.equalize import equalize
from edgec.quantizer.insert import insert_qdq
from edgec.quantizer.leave_one_out import leave_one_out
from edgec.quantizer.moments import Moments, as_rows, from_rows, input_rows, weights_of
from edgec.quantizer.post_training import Recipe, quantize_function
from edgec.quantizer.reconstruct import choose_rounding
from edgec.quantizer.scheme import Scheme

ops.load()


def layers(seed: int, spread: float = 0.0, *, softmax: bool = False) -> Function:
    """Convolution, ReLU, depthwise, ReLU, pointwise; channels that differ by e**spread.

    softmax: with one at the end.
    """
    rng = np.random.default_rng(seed)
    b = GraphBuilder()

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    uneven = np.exp(spread * rng.standard_normal(6)).astype(np.float32)
    y = b.param("x", TensorType((1, 6, 7, 3), "float32"))
    first = normal(6, 3, 3, 3) * uneven[:, None, None, None]
    y = b.op(
        "conv2d", [y, b.constant("w1", first), b.constant("b1", normal(6) * uneven)],
        Conv2dAttrs(padding=((1, 1), (1, 1))), name="first",
    )  # fmt: skip
    y = b.op("clip", [y], ClipAttrs(0.0, np.inf), name="relu1")
    y = b.op(
        "depthwise_conv2d", [y, b.constant("w2", normal(3, 3, 6)), b.constant("b2", normal(6))],
        DepthwiseConv2dAttrs(stride=(2, 2), padding=((1, 0), (0, 1))), name="second",
    )  # fmt: skip
    y = b.op("clip", [y], ClipAttrs(0.0, np.inf), name="relu2")
    last = normal(4, 1, 1, 6) / uneven
    y = b.op(
        "conv2d", [y, b.constant("w3", last), b.constant("b3", normal(4))], Conv2dAttrs(),
        name="third",
    )  # fmt: skip
    return b.finish([b.op("softmax", [y], SoftmaxAttrs(), name="softmax") if softmax else y])


def smooth(count: int) -> list[list[np.ndarray]]:
    """Images whose neighbouring pixels are alike, as in a camera's images."""
    rng = np.random.default_rng(1)
    rough = rng.standard_normal((count, 1, 8, 9, 3))
    rows = rough[:, :, :-2] + rough[:, :, 1:-1] + rough[:, :, 2:]
    images = rows[:, :, :, :-2] + rows[:, :, :, 1:-1] + rows[:, :, :, 2:]
    return [[image.astype(np.float32)] for image in images]


def some(count: int, seed: int = 5) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [[rng.standard_normal((1, 6, 7, 3)).astype(np.float32)] for _ in range(count)]


def test_rows_times_weights_are_the_layer() -> None:
    function = layers(1)
    seen: dict = {}
    interpret(function, some(1)[0], seen.__setitem__)
    nodes = [node for node in function.nodes if node.op.name != "clip"]
    for node in nodes:
        rows = as_rows(node, weights_of(node))
        assert np.array_equal(from_rows(node, rows), weights_of(node))
        found = np.matmul(input_rows(node, seen[node.inputs[0]]), rows.transpose(0, 2, 1))
        found = found.transpose(1, 0, 2).reshape(node.output.type.shape) + node.inputs[2].data
        np.testing.assert_allclose(found, seen[node.output], atol=1e-5)


def test_moments_are_those_of_all_rows() -> None:
    function = layers(2)
    node = function.nodes[0]
    moments = Moments(node)
    inputs = [sample[0] for sample in some(7)]
    for x in inputs:
        moments.add(x)
    rows = np.concatenate([input_rows(node, x)[0] for x in inputs]).astype(np.float64)
    np.testing.assert_allclose(moments.mean[0], rows.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(moments.covariance[0], np.cov(rows.T, bias=True), atol=1e-5)


def test_rounding_is_near_the_best_of_all_choices() -> None:
    costs = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        # Eight inputs that depend on three numbers.
        inputs = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 8))
        covariance = np.cov(inputs.T, bias=True)[None]
        exact = rng.uniform(-20, 20, (1, 1, 8))
        low, start = np.floor(exact), np.rint(exact)
        chosen = choose_rounding(exact, start, covariance)
        assert np.all((chosen == low) | (chosen == low + 1))
        choices = [low + np.array(bits) for bits in itertools.product((0, 1), repeat=8)]
        costs.append([
            error.ravel() @ covariance[0] @ error.ravel()
            for error in (start - exact, chosen - exact, *(c - exact for c in choices))
        ])  # fmt: skip
    nearest, found, best = (
        sum(c[0] for c in costs), sum(c[1] for c in costs), sum(min(c) for c in costs)
    )  # fmt: skip
    assert nearest - found > 0.8 * (nearest - best)


def test_saturated_and_exact_weights_stay() -> None:
    exact = np.array([[[-127.0, 127.0, 5.0, 126.6]]])
    chosen = choose_rounding(exact, np.rint(exact), np.eye(4)[None])
    assert chosen.tolist() == [[[-127.0, 127.0, 5.0, 127.0]]]


def test_reconstruction_makes_the_output_better() -> None:
    samples, gained = smooth(60), []
    for seed in range(3, 8):
        nearest, chosen = (
            quantize_function(layers(seed), samples[:40], recipe).explain(samples[40:])
            for recipe in (
                Recipe("minmax", reconstruct=chosen, equalize="never") for chosen in (False, True)
            )
        )
        gained.append(chosen.output_sqnr_db - nearest.output_sqnr_db)
    # Most of the error is the values', not the weights'.
    assert np.mean(gained) > 0.1 and min(gained) > -0.1


def test_equalization_keeps_the_function_and_evens_out_channels() -> None:
    function = layers(4, spread=2.0)
    samples = some(6)
    made = equalize(function, samples)
    reach: dict[str, list[np.ndarray]] = {}

    def observe(value: Value, array: np.ndarray) -> None:
        largest = np.abs(array.reshape(-1, array.shape[-1])).max(axis=0)
        reach.setdefault(value.name, []).append(largest)

    for sample in samples:
        (plain,) = interpret(function, sample, observe)
    before = {name: np.max(rows, axis=0) for name, rows in reach.items()}
    reach.clear()
    for sample in samples:
        (after,) = interpret(made, sample, observe)
        np.testing.assert_allclose(plain if sample is samples[-1] else after, after,
                                   rtol=0, atol=2e-5 * np.abs(plain).max())  # fmt: skip
    # What the depthwise convolution reads reaches about equally far in all channels: it costs
    # nothing there. The largest channel stays, no other becomes larger than it.
    found = np.max(reach["relu1"], axis=0)
    most = before["relu1"].max()
    np.testing.assert_allclose(found.max(), most, rtol=1e-5)
    np.testing.assert_allclose(found, np.minimum(most, 8 * before["relu1"]), rtol=1e-5)
    assert np.any(found > 2 * before["relu1"])


def residual() -> Function:
    """A convolution whose output another one and a sum read, a pool, and a dense layer."""
    rng = np.random.default_rng(5)
    b = GraphBuilder()

    uneven = np.exp(np.linspace(-2, 2, 8))

    def parameters(name: str, *shape: int, made: Any = 1.0, read: Any = 1.0) -> list[Value]:
        data = (rng.standard_normal(shape).T * made).T / read
        bias = rng.standard_normal(shape[0]) * made
        return [b.constant(f"{name}.w", data.astype(np.float32)),
                b.constant(f"{name}.b", bias.astype(np.float32))]  # fmt: skip

    x = b.param("x", TensorType((1, 6, 6, 3), "float32"))
    same = Conv2dAttrs(padding=((1, 1), (1, 1)))
    y = b.op("conv2d", [x, *parameters("one", 8, 3, 3, 3, made=uneven)], same, name="one")
    y = b.op("clip", [y], ClipAttrs(0.0, np.inf), name="relu1")
    z = b.op(
        "conv2d", [y, *parameters("two", 8, 3, 3, 8, made=uneven, read=uneven)], same, name="two"
    )
    y = b.op("add", [y, z], AddAttrs(), name="sum")
    y = b.op("clip", [y], ClipAttrs(0.0, np.inf), name="relu2")
    y = b.op("max_pool2d", [y], MaxPool2dAttrs((2, 2), (2, 2)), name="pool")
    y = b.op("reshape", [y], ReshapeAttrs((1, 72)), name="flat")
    return b.finish(
        [b.op("dense", [y, *parameters("three", 4, 72, read=np.tile(uneven, 9))], name="three")]
    )


def test_channels_are_equalized_through_sums_pools_and_views() -> None:
    function = residual()
    (group,) = channel_groups(function)
    assert {node.name for node in group.makers} == {"one", "two"}
    assert {node.name for node in group.readers} == {"two", "three"}
    assert (group.channels, [node.name for node in group.adds]) == (8, ["sum"])
    rng = np.random.default_rng(6)
    samples = [[rng.standard_normal((1, 6, 6, 3)).astype(np.float32)] for _ in range(40)]
    made = equalize(function, samples[:20])
    assert made is not function
    for sample in samples:
        (plain,), (after,) = interpret(function, sample), interpret(made, sample)
        np.testing.assert_allclose(plain, after, rtol=0, atol=2e-5 * np.abs(plain).max())
    better = [
        quantize_function(function, samples[:20], Recipe("minmax", equalize=yes))
        .explain(samples[20:]).output_sqnr_db
        for yes in ("never", "always")
    ]  # fmt: skip
    assert better[1] > better[0] + 1.0


def test_equalization_without_samples_changes_nothing() -> None:
    function = layers(4)
    assert equalize(function, []) is function
    assert equalize(function, [[np.zeros((1, 6, 7, 3), np.float32)]]) is not None


def bounded(*largest: float, bound: float = 6.0) -> Function:
    """Channels of these sizes after a ReLU6, which a depthwise convolution reads."""
    count = len(largest)
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 2, 2, count), "float32"))
    weights = b.constant("w", np.diag(largest).reshape(count, 1, 1, count).astype(np.float32))
    taps = b.constant("taps", np.ones((1, 1, count), np.float32))
    zeros = b.constant("b", np.zeros(count, np.float32))
    y = b.op("conv2d", [x, weights, zeros], Conv2dAttrs(), name="one")
    y = b.op("clip", [y], ClipAttrs(0.0, bound), name="relu6")
    y = b.op("depthwise_conv2d", [y, taps, zeros], DepthwiseConv2dAttrs(), name="two")
    return b.finish([y])


def test_a_bounded_clip_leaves_channels_below_its_bound() -> None:
    ones = [np.ones((1, 2, 2, 3), np.float32)]
    function = bounded(100.0, 2.0, 5.0)  # one that is cut off, one with room, one with too little
    made = equalize(function, [ones])
    scales = weights_of(made.nodes[0]).sum(axis=(1, 2, 3)) / [100.0, 2.0, 5.0]
    np.testing.assert_allclose(scales, [1.0, 6 / (1.5 * 2), 1.0], rtol=1e-6)
    (plain,), (after,) = interpret(function, ones), interpret(made, ones)
    np.testing.assert_allclose(plain, after, rtol=1e-6)
    assert equalize(bounded(100.0, 5.0, 4.5), [ones]) is not None
    even = bounded(100.0, 6.0, 5.0)
    assert equalize(even, [ones]) is even


def test_channels_that_samples_disagree_about_get_room() -> None:
    function = bounded(100.0, 1.0, 1.0, bound=np.inf)
    calm = np.ones((1, 2, 2, 3), np.float32)
    rare = calm.copy()
    rare[0, 0, 0, 1] = 4.0  # in one half of the samples up to 1, in the other up to 4
    made = equalize(function, [[calm], [rare], [calm], [calm]])
    scales = weights_of(made.nodes[0]).sum(axis=(1, 2, 3)) / [100.0, 1.0, 1.0]
    np.testing.assert_allclose(scales, [1.0, 100 / (4 * 4), 8.0], rtol=1e-6)


def test_other_operators_end_a_group() -> None:
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 2, 2, 2), "float32"))
    zeros = b.constant("b", np.zeros(2, np.float32))
    weights = b.constant("w", np.ones((2, 1, 1, 2), np.float32))
    y = b.op("conv2d", [x, weights, zeros], Conv2dAttrs(), name="one")
    y = b.op("exp", [y], name="exp")
    y = b.op("conv2d", [y, weights, zeros], Conv2dAttrs(), name="two")
    y = b.op("clip", [y], ClipAttrs(-1.0, np.inf), name="lower")
    y = b.op("conv2d", [y, weights, zeros], Conv2dAttrs(), name="three")
    assert channel_groups(b.finish([y])) == []


def test_local_takes_for_each_value_what_makes_the_least_error() -> None:
    function, samples = layers(6), some(30)
    statistics = calibrate(function, samples)
    local = observed_ranges(function, statistics, "local")
    ranges = {
        name: observed_ranges(function, statistics, name)
        for name in ("minmax", "percentile", "mse", "entropy")
    }
    for value, found in local.items():
        assert found in [given[value] for given in ranges.values()]
    assert local[function.params[0]] == ranges["minmax"][function.params[0]]


def test_biases_settle_what_clipping_does_to_means() -> None:
    function, samples = layers(8), some(24)
    made = quantize_function(function, samples, Recipe("minmax", reconstruct=False))
    function = made.source
    (relu,) = (value for value in made.quantized.stored if value.name == "relu1")
    tight = dict(made.scheme.values)
    quant = tight[relu].quant
    tight[relu] = replace(tight[relu], quant=replace(quant, scale=(quant.scale[0] / 4,)))
    clipped = replace(made.scheme, values=tight)
    settled = corrected_biases(function, clipped, samples)

    def mean_error(scheme: Scheme) -> float:
        integers = run_passes(insert_qdq(function, scheme).function, "onnx")
        errors = [interpret(integers, s)[0] - interpret(function, s)[0] for s in samples]
        return float(np.abs(np.mean(errors, axis=(0, 1, 2, 3))).max())

    assert mean_error(settled) < 0.2 * mean_error(clipped)


def test_samples_are_read_once() -> None:
    function = layers(7)
    made = quantize_function(function, iter(some(25)), Recipe())
    assert made.statistics.count == 25 and len(made.statistics.kept) == 25
    with pytest.raises(EdgecError, match="no sample to compare"):
        made.explain([])


def test_the_layer_that_is_worst_is_to_blame() -> None:
    function, samples = layers(8), some(20)
    made = quantize_function(function, samples, Recipe("minmax", reconstruct=False))
    function = made.source
    names = {value.name: value for value in made.quantized.stored}
    coarse = dict(made.scheme.values)
    wide = type(coarse[names["relu2"]])
    quant = made.scheme.values[names["relu2"]].quant
    coarse[names["relu2"]] = wide(type(quant)((quant.scale[0] * 20,), quant.zero_point))
    scheme = replace(made.scheme, values=coarse)
    worse = replace(made, scheme=scheme, quantized=insert_qdq(function, scheme))
    blames = {value.name: part for value, part in worse.blame().items()}
    assert set(blames) == {"x", "relu1", "relu2", "third"}
    assert max(blames, key=blames.__getitem__) == "relu2" and blames["relu2"] > 0.9


def test_softmax_does_not_hide_which_layer_is_to_blame() -> None:
    blames = []
    for softmax in (False, True):
        made = quantize_function(layers(8, softmax=softmax), some(20), Recipe())
        blames.append({value.name: part for value, part in made.blame().items()})
        assert made.layers() == len(blames[-1])
    assert blames[0] == pytest.approx(blames[1])


def test_few_products_are_blamed_on_all_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    made = quantize_function(layers(8), some(20), Recipe())
    given: list[int] = []

    def note(*args: Any) -> dict[Value, float]:
        given.append(len(args[3]))
        return {}

    monkeypatch.setattr(post_training, "leave_one_out", note)
    made.blame()
    monkeypatch.setattr(post_training, "BLAME_MACS", 10 * made.source.macs)
    made.blame()
    monkeypatch.setattr(post_training, "BLAME_MACS", 1)
    made.blame()
    assert given == [20, 10, 8]


def test_leaving_out_is_what_a_whole_run_gives() -> None:
    function, samples = layers(9), some(12)
    made = quantize_function(function, samples, Recipe())
    function = made.source
    blames = leave_one_out(function, made.quantized, made.scheme, samples)

    def error(f: Function) -> float:
        return sum(
            float(((interpret(function, s)[0].astype(float) - interpret(f, s)[0]) ** 2).sum())
            for s in samples
        )

    whole = error(made.quantized.function)
    for value, part in blames.items():
        left = insert_qdq(function, made.scheme, left_out=value).function
        assert part == pytest.approx(1 - error(left) / whole, abs=1e-6)
