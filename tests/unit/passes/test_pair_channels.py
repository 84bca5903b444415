"""pair_channels keeps every bit of what leaves the function, and lets weights share words."""

from __future__ import annotations

import numpy as np
import pytest

import edgec.ops
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Constant, Function, Value
from edgec.graph.provenance import Origin
from edgec.graph.types import Quant, TensorType
from edgec.graph.verify import verify_function
from edgec.ops.add import AddAttrs
from edgec.ops.avg_pool2d import AvgPool2dAttrs
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.ops.requantize import RequantizeAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.passes.pair_channels import pair_channels, pairing
from edgec.targets.dsp.kernels.matrix import can_share_words

edgec.ops.load()
QUANT = Quant((0.05,), (-3,))
SAME = ((1, 1), (1, 1))


class _Network:
    """Convolutions with a residual addition, depthwise, pool and dense, of integers."""

    def __init__(self, seed: int, channels: int, share: float) -> None:
        self.rng = np.random.default_rng(seed)
        self.channels, self.share = channels, share
        self.b = GraphBuilder()

    def layer(self, op: str, x: Value, shape: tuple[int, ...], axis: int, attrs: object) -> Value:
        """A layer of whose channels a share have one weight of -128, and its requantize."""
        outputs = shape[axis]
        w = self.rng.integers(-127, 128, shape).astype(np.int8)
        rows = np.moveaxis(w, axis, 0).reshape(outputs, -1)
        for channel in np.flatnonzero(self.rng.random(outputs) < self.share):
            rows[channel, self.rng.integers(rows.shape[1])] = -128
        w = np.moveaxis(rows.reshape(outputs, *np.moveaxis(w, axis, 0).shape[1:]), 0, axis)
        scales = Quant(tuple(self.rng.uniform(0.01, 0.02, outputs)), (0,) * outputs, axis)
        name = self.b.unique(op)
        weights = self.b.constant(f"{name}.w", np.ascontiguousarray(w), scales)
        bias = self.rng.integers(-2000, 2000, outputs).astype(np.int32)
        bias_of = self.b.constant(f"{name}.bias", bias)
        acc = self.b.op(op, [x, weights, bias_of], attrs, name=f"{name}.acc")
        return self.requantized(acc, name, self.rng.uniform(0.001, 0.002, outputs))

    def requantized(self, acc: Value, name: str, scales: np.ndarray) -> Value:
        attrs = RequantizeAttrs(tuple(map(float, scales)), QUANT, -128, 127, "onnx")
        node = self.b.node(
            "requantize", [acc], attrs, name=name, origins=[Origin(name, acc.type.shape)]
        )
        return node.output

    def finish(self, *, third_leaves: bool = False) -> Function:
        c = self.channels
        x = self.b.param("x", TensorType((1, 5, 5, 3), "int8", QUANT))
        first = self.layer("conv2d", x, (c, 3, 3, 3), 0, Conv2dAttrs(padding=SAME))
        second = self.layer("conv2d", first, (c, 3, 3, c), 0, Conv2dAttrs(padding=SAME))
        both = self.b.op("add", [first, second], AddAttrs(QUANT, -128, 127, "onnx"), name="both")
        planes = DepthwiseConv2dAttrs(padding=SAME)
        third = self.layer("depthwise_conv2d", both, (3, 3, c), 2, planes)
        last = self.layer("conv2d", third, (c, 1, 1, c), 0, Conv2dAttrs())
        mean = AvgPool2dAttrs((5, 5), (1, 1), output=QUANT, rounding="onnx")
        pool = self.b.op("avg_pool2d", [last], mean, name="pool")
        flat = self.b.op("reshape", [pool], ReshapeAttrs((1, c)), name="flat")
        dense = self.layer("dense", flat, (7, c), 0, None)
        return self.b.finish([dense, third] if third_leaves else [dense])


def pairs_fit(function: Function) -> list[bool]:
    found = []
    for node in function.nodes:
        if node.op.name == "conv2d":
            w = node.inputs[1]
            assert isinstance(w, Constant)
            fits = can_share_words(w.data)
            first = np.arange(0, len(fits) - 1, 2)
            found.append(bool(fits[first, first + 1].all()))
    return found


@pytest.mark.parametrize("channels", [4, 16, 64])
@pytest.mark.parametrize("seed", range(4))
def test_every_bit_and_every_pair(seed: int, channels: int) -> None:
    function = _Network(seed, channels, share=0.5).finish()
    paired = pair_channels(function)
    verify_function(paired)
    assert all(pairs_fit(paired)) and (channels < 64 or not all(pairs_fit(function)))
    x = np.random.default_rng(seed).integers(-128, 128, (1, 5, 5, 3)).astype(np.int8)
    assert np.array_equal(interpret(function, [x])[0], interpret(paired, [x])[0])


def test_provenance_tells_the_order() -> None:
    function = _Network(1, 64, share=0.5).finish()
    x = np.random.default_rng(1).integers(-128, 128, (1, 5, 5, 3)).astype(np.int8)
    sources: dict[str, np.ndarray] = {}
    changed = []

    def keep(value: Value, array: np.ndarray) -> None:
        if value.origin is not None:
            sources[value.origin.tensor] = array

    def compare(value: Value, array: np.ndarray) -> None:
        if value.origin is not None:
            source = sources[value.origin.tensor]
            assert np.array_equal(value.origin.to_source(array), source)
            assert np.array_equal(value.origin.from_source(source, value.type.shape), array)
            changed.append(not np.array_equal(array, source))

    interpret(function, [x], keep)
    interpret(pair_channels(function), [x], compare)
    assert sum(changed) > 2


def test_what_leaves_the_function_keeps_its_order() -> None:
    function = _Network(2, 64, share=0.5).finish(third_leaves=True)
    paired = pair_channels(function)
    x = np.random.default_rng(2).integers(-128, 128, (1, 5, 5, 3)).astype(np.int8)
    for want, got in zip(interpret(function, [x]), interpret(paired, [x]), strict=True):
        assert np.array_equal(want, got)
    # The first two are of one class with what leaves; the last is free.
    assert pairs_fit(paired) == [*pairs_fit(function)[:2], True] != pairs_fit(function)


def test_without_such_weights_nothing_changes() -> None:
    function = _Network(3, 16, share=0).finish()
    assert pair_channels(function) is function


def test_a_pairing_is_found_or_not() -> None:
    fits = np.zeros((4, 4), bool)
    fits[0, 3] = fits[2, 1] = True
    order = pairing(fits)
    assert order is not None and order.tolist() == [0, 3, 2, 1]
    fits[2, 1] = False
    assert pairing(fits) is None
