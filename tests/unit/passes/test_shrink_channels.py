"""Removing channels keeps every bit, on random networks with dead filters and on real models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import edgec.ops
from edgec.frontends import import_model
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Constant, Function, Value
from edgec.graph.provenance import Origin
from edgec.graph.types import Quant, TensorType
from edgec.graph.verify import verify_function
from edgec.ops.add import AddAttrs
from edgec.ops.concat import ConcatAttrs
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.ops.logistic import OUTPUT_QUANT as LOGISTIC_QUANT
from edgec.ops.logistic import LogisticAttrs
from edgec.ops.mul import MulAttrs
from edgec.ops.pad import PadAttrs
from edgec.ops.reduce import ReduceAttrs
from edgec.ops.requantize import RequantizeAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.resize import ResizeAttrs
from edgec.passes.channel_intervals import channel_intervals
from edgec.passes.shrink_channels import shrink_channels
from edgec.runners.samples import generate_inputs

edgec.ops.load()
SAME = ((1, 1), (1, 1))


class _Network:
    """A random integer network: convolutions, depthwise, residual addition, dense at the end."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.b = GraphBuilder()

    def requantize(self, acc: Value, name: str, zero_point: int, minimum: int) -> Value:
        channels = acc.type.shape[-1]
        attrs = RequantizeAttrs(
            multiplier=tuple(self.rng.uniform(0.0005, 0.004, channels).tolist()),
            output=Quant((0.05,), (zero_point,)),
            minimum=minimum,
            maximum=127,
            rounding="tflm",
        )
        origin = Origin(name, acc.type.shape)
        return self.b.op("requantize", [acc], attrs, name=name, origins=[origin])

    def bias(self, channels: int, dead: np.ndarray) -> Value:
        bias = self.rng.integers(-3000, 3000, channels)
        # A dead channel's clamp saturates at either end, or its filter is all zero.
        bias[dead] = self.rng.choice([-(2**24), 2**24, 123], int(dead.sum()))
        return self.b.constant("b", bias.astype(np.int32))

    def weights(self, *shape: int) -> np.ndarray:
        return self.rng.integers(-127, 128, shape).astype(np.int8)

    def conv(self, x: Value, outputs: int, size: int, name: str) -> Value:
        channels = x.type.shape[-1]
        w = self.weights(outputs, size, size, channels)
        dead = self.rng.random(outputs) < 0.4
        w[dead & (self.rng.random(outputs) < 0.6)] = 0
        unread = self.rng.random(channels) < 0.2
        w[..., unread] = 0
        padding = SAME if size == 3 else ((0, 0), (0, 0))
        acc = self.b.op(
            "conv2d",
            [x, self.b.constant("w", w), self.bias(outputs, dead)],
            Conv2dAttrs(padding=padding),
            name=f"{name}.acc",
        )
        return self.requantize(acc, name, int(self.rng.choice([-128, 0, 5])), -128)

    def depthwise(self, x: Value, name: str) -> Value:
        channels = x.type.shape[-1]
        dead = self.rng.random(channels) < 0.3
        acc = self.b.op(
            "depthwise_conv2d",
            [x, self.b.constant("w", self.weights(3, 3, channels)), self.bias(channels, dead)],
            DepthwiseConv2dAttrs(padding=SAME),
            name=f"{name}.acc",
        )
        return self.requantize(acc, name, -128, -128)


def random_network(seed: int) -> Function:
    n = _Network(seed)
    x = n.b.param("x", TensorType((1, 5, 4, 3), "int8", Quant((0.1,), (3,))))
    y = n.conv(x, 8, 3, "first")
    z = n.depthwise(y, "second")
    z = n.conv(z, 12, 1, "third")
    z = n.depthwise(z, "fourth")
    z = n.conv(z, 8, 1, "fifth")
    attrs = AddAttrs(Quant((0.08,), (-10,)), rounding="tflm")
    total = n.b.op("add", [y, z], attrs, name="sum", origins=[Origin("sum", y.type.shape)])
    flat = n.b.op("reshape", [total], ReshapeAttrs((1, total.type.elements)), name="flat")
    w = n.weights(4, flat.type.elements)
    acc = n.b.op("dense", [flat, n.b.constant("w", w), n.bias(4, np.zeros(4, bool))], name="d")
    return n.b.finish([n.requantize(acc, "out", 0, -128)])


def random_gated_network(seed: int) -> Function:
    """Channels that a mean, a table and a product work on, joined, padded and resized."""
    n = _Network(seed)
    x = n.b.param("x", TensorType((1, 5, 4, 3), "int8", Quant((0.1,), (3,))))
    y = n.conv(x, 32, 3, "first")
    q = Quant((0.05,), y.type.quant.zero_point)
    mean = n.b.op("reduce", [y], ReduceAttrs((1, 2), "mean", Quant((0.04,), (9,))), name="mean")
    gate = n.conv(mean, 32, 1, "gate")
    gate = n.b.op("logistic", [gate], LogisticAttrs(LOGISTIC_QUANT), name="logistic")
    y = n.b.op(
        "mul", [y, gate], MulAttrs(q), name="product", origins=[Origin("product", (1, 5, 4, 32))]
    )
    slopes = n.b.constant("slopes", n.weights(32), Quant((0.01,), (1,)))
    sloped = n.b.op("mul", [y, slopes], MulAttrs(q), name="sloped")
    larger = n.b.op("maximum", [y, sloped], name="larger")
    other = n.b.constant("other", n.weights(1, 5, 4, 4), q)
    joined = n.b.op(
        "concat",
        [larger, other, y],
        ConcatAttrs(3, q),
        name="joined",
        origins=[Origin("joined", (1, 5, 4, 68))],
    )
    rows = n.b.op("concat", [joined, joined], ConcatAttrs(1, q), name="rows")
    padding = ((0, 0), (1, 2), (0, 1), (0, 0)) if seed % 2 else ((0, 0), (1, 0), (0, 0), (2, 1))
    value = int(n.rng.choice([q.zero_point[0], 17]))
    if seed % 3:  # padding makes constant channels vary
        rows = n.b.op("pad", [rows], PadAttrs(padding, value), name="padded")
    resized = n.b.op("resize", [rows], ResizeAttrs((14, 9), "bilinear"), name="resized")
    z = n.conv(resized, 8, 3 if seed % 3 else 1, "last")
    top = n.b.op("reduce", [z], ReduceAttrs((1, 2), "max"), name="top")
    return n.b.finish([n.conv(top, 4, 1, "out")])


def macs(function: Function) -> int:
    return sum(node.op.macs(node.attrs, node.input_types) for node in function.nodes)


def assert_same_tensors(before: Function, after: Function, inputs: list[np.ndarray]) -> None:
    """Outputs and every value that is still known have the same bits."""
    old: dict[str, np.ndarray] = {}
    interpret(before, inputs, lambda v, a: old.__setitem__(v.name, a))
    new: dict[Value, np.ndarray] = {}
    results = interpret(after, inputs, new.__setitem__)
    for want, got in zip(interpret(before, inputs), results, strict=True):
        np.testing.assert_array_equal(want, got)
    for value, array in new.items():
        if value.origin is not None:
            found = value.origin.to_source(array)
            want = old[value.name].reshape(found.shape).copy()
            want[..., list(value.origin.unknown_channels)] = 0
            np.testing.assert_array_equal(found, want, err_msg=value.name)


@pytest.mark.parametrize("seed", range(40))
def test_random_networks_keep_every_bit(seed: int) -> None:
    function = random_network(seed)
    shrunk, report = shrink_channels(function)
    verify_function(shrunk)
    assert macs(shrunk) <= macs(function)
    rng = np.random.default_rng(seed + 1000)
    for _ in range(4):
        inputs = [rng.integers(-128, 128, p.type.shape).astype(np.int8) for p in function.params]
        assert_same_tensors(function, shrunk, inputs)
    if seed == 0:
        assert report and macs(shrunk) < macs(function)


@pytest.mark.parametrize("seed", range(40))
def test_gated_networks_keep_every_bit(seed: int) -> None:
    function = random_gated_network(seed)
    shrunk, _ = shrink_channels(function)
    verify_function(shrunk)
    assert macs(shrunk) <= macs(function)
    rng = np.random.default_rng(seed + 1000)
    for _ in range(3):
        inputs = [rng.integers(-128, 128, p.type.shape).astype(np.int8) for p in function.params]
        assert_same_tensors(function, shrunk, inputs)
    if seed == 0:
        sizes = {v.name: v.type.shape[-1] for v in shrunk.values()}
        assert sizes["product"] < 32 and sizes["joined"] < 68


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("network", [random_network, random_gated_network])
def test_intervals_hold(network: Callable[[int], Function], seed: int) -> None:
    function = network(seed)
    intervals = channel_intervals(function)
    rng = np.random.default_rng(seed)

    def check(value: Value, array: np.ndarray) -> None:
        if value in intervals:
            low, high = intervals[value]
            flat = array.reshape(-1, array.shape[-1])
            assert (flat >= low).all() and (flat <= high).all(), value.name

    for extreme in (-128, 127, None):
        shape = function.params[0].type.shape
        x = rng.integers(-128, 128, shape) if extreme is None else np.full(shape, extreme)
        interpret(function, [x.astype(np.int8)], check)


def test_visual_wake_words_loses_half(sample_model: Callable[[str], Path]) -> None:
    function = import_model(sample_model("mlperf_vww_mbv1_int8.tflite")).main
    shrunk, report = shrink_channels(function)
    verify_function(shrunk)
    assert macs(shrunk) <= 3_766_476  # of 7,489,664
    assert sum(c.type.nbytes for c in shrunk.constants() if c.type.dtype == "int8") <= 30_340
    assert sum(len(entry.constants) for entry in report) > 1500
    for seed in (1, 2):
        inputs = generate_inputs(seed, [(p.type.shape, p.type.dtype) for p in function.params])
        assert_same_tensors(function, shrunk, list(inputs))


def test_a_network_without_dead_channels_is_left_alone(
    sample_model: Callable[[str], Path],
) -> None:
    function = import_model(sample_model("mlperf_kws_dscnn_int8.tflite")).main
    shrunk, report = shrink_channels(function)
    assert shrunk is function and report == ()


def constant_channels(function: Function) -> dict[str, int]:
    """By value that a layer with weights makes: how many channels can hold one integer only."""
    ranges = channel_intervals(function)
    found = {}
    for node in function.nodes:
        if node.op.name != "requantize" or node.inputs[0].type.dtype != "int32":
            continue
        low, high = ranges[node.output]
        if (low == high).any():
            found[node.output.name] = int((low == high).sum())
    return found


def test_squeezed_channels_of_mcunet(sample_model: Callable[[str], Path]) -> None:
    """Constant are 143 channels of bottlenecks, 5 of depthwise layers, 260 of 1,000 classes, and
    3,695 of the gates after the bottlenecks. Of the bottlenecks' 124 go: the others fill blocks
    of MULTIPLE. A gate's channels scale ones that vary, classes are outputs, and depthwise layers
    with padding read these channels."""
    function = import_model(sample_model("mcunetv2_large_int8.tflite")).main
    constant = constant_channels(function)
    gates = {name: n for name, n in constant.items() if name.startswith("fuse_transform")}
    assert sum(gates.values()) == 3_695
    assert sum(constant.values()) - sum(gates.values()) == 143 + 5 + 260
    shrunk, report = shrink_channels(function)
    verify_function(shrunk)
    assert sum(len(entry.constants) for entry in report) == 124
    assert macs(function) - macs(shrunk) == 89_344


NAMES = (
    "cfu_mobilenetv2_160_035", "emza_ssd_slim_120x160", "mcunet_person_detection",
    "mlperf_ad_autoencoder", "mlperf_ic_resnet8", "mlperf_kws_dscnn", "mlperf_sww",
    "mlperf_vww_mbv1", "silabs_kws_on_off_v3", "tflm_person_detect",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_no_model_has_equal_channels_or_idle_clamps(
    name: str, sample_model: Callable[[str], Path]
) -> None:
    """Why nothing merges equal channels or drops clamps: there would be nothing to do."""
    function = import_model(sample_model(f"{name}_int8.tflite")).main
    ranges = channel_intervals(function)
    readers = {value: node for node in function.nodes for value in node.inputs}
    for node in function.nodes:
        bounds = getattr(node.attrs, "minimum", None), getattr(node.attrs, "maximum", None)
        if bounds[0] is not None and node.output.type.dtype == "int8":
            assert bounds == (-128, 127), "a clamp besides the dtype's"
            low, high = ranges[node.output]
            assert (low.min(), high.max()) == (-128, 127), "a clamp that never fires"
        reader = readers.get(node.outputs[0])
        if node.op.name not in ("conv2d", "dense") or reader is None:
            continue
        if reader.op.name != "requantize":
            continue
        w, bias = (value.data for value in node.inputs[1:3] if isinstance(value, Constant))
        factors = np.broadcast_to(reader.attrs.multiplier, len(bias))
        low, high = ranges[reader.output]
        rows = [
            (w[c].tobytes(), int(bias[c]), float(factors[c])) for c in np.flatnonzero(low != high)
        ]
        assert len(set(rows)) == len(rows), f"{node.name} has equal channels"
