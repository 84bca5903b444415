"""Equal channels are read once, and every bit stays; on random networks with copied filters."""

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
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.ops.requantize import RequantizeAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.passes.merge_duplicates import merge_duplicates
from edgec.passes.shrink_channels import shrink_channels
from edgec.runners.samples import generate_inputs

edgec.ops.load()
SAME = ((1, 1), (1, 1))
QUANT = Quant((0.05,), (-3,))


class Network:
    """Layers whose filters from `copied` on are copies of the first ones."""

    def __init__(self, seed: int = 0, largest: int = 60) -> None:
        self.rng = np.random.default_rng(seed)
        self.largest = largest
        self.b = GraphBuilder()

    def copies(self, array: np.ndarray, copied: int, axis: int = 0) -> np.ndarray:
        """The filters from `copied` on are the first ones again."""
        rows = np.arange(array.shape[axis])
        rows[copied:] = rows[: len(rows) - copied]
        return np.take(array, rows, axis)

    def rescale(self, acc: Value, name: str, copied: int) -> Value:
        channels = acc.type.shape[-1]
        factors = self.copies(self.rng.uniform(0.001, 0.004, channels), copied)
        attrs = RequantizeAttrs(tuple(factors.tolist()), QUANT, -128, 127, "tflm")
        origins = [Origin(name, acc.type.shape)]
        return self.b.op("requantize", [acc], attrs, name=name, origins=origins)

    def conv(self, x: Value, outputs: int, copied: int, name: str, size: int = 1) -> Value:
        shape = (outputs, size, size, x.type.shape[-1])
        weights = self.rng.integers(-self.largest, self.largest + 1, shape).astype(np.int8)
        bias = self.rng.integers(-900, 900, outputs).astype(np.int32)
        operands = [
            x,
            self.b.constant("weights", self.copies(weights, copied)),
            self.b.constant("bias", self.copies(bias, copied)),
        ]
        attrs = Conv2dAttrs(padding=SAME if size == 3 else ((0, 0), (0, 0)))
        return self.rescale(self.b.op("conv2d", operands, attrs, name=f"{name}.acc"), name, copied)

    def depthwise(self, x: Value, copied: int, name: str) -> Value:
        channels = x.type.shape[-1]
        weights = self.rng.integers(-100, 101, (3, 3, channels)).astype(np.int8)
        bias = self.rng.integers(-900, 900, channels).astype(np.int32)
        operands = [
            x,
            self.b.constant("weights", self.copies(weights, copied, 2)),
            self.b.constant("bias", self.copies(bias, copied)),
        ]
        acc = self.b.op(
            "depthwise_conv2d", operands, DepthwiseConv2dAttrs(padding=SAME), name=f"{name}.acc"
        )
        return self.rescale(acc, name, copied)

    def input(self, channels: int = 3) -> Value:
        type_ = TensorType((1, 4, 5, channels), "int8", Quant((0.1,), (5,)))
        return self.b.param("x", type_, Origin("x", type_.shape))


def kept_bits(function: Function) -> tuple[Function, dict[str, int]]:
    """What is left after merging and shrinking, and the channels of each value by name."""
    merged, equal = merge_duplicates(function)
    small, report = shrink_channels(merged, equal)
    verify_function(small)
    for seed in (1, 2):
        inputs = generate_inputs(seed, [(p.type.shape, p.type.dtype) for p in function.params])
        for one, other in zip(interpret(function, inputs), interpret(small, inputs), strict=True):
            assert np.array_equal(one, other)
    for entry in report:
        for channel, kept in entry.duplicates.items():
            assert kept < channel
    return small, {value.name: value.type.shape[-1] for value in small.values()}


def test_copied_filters_go_through_depthwise_and_addition() -> None:
    n = Network()
    a = n.conv(n.input(), 16, 8, "a", 3)
    b = n.depthwise(a, 8, "b")
    c = n.b.op("add", [a, b], AddAttrs(QUANT), name="c", origins=[Origin("c", b.type.shape)])
    _, channels = kept_bits(n.b.finish([n.conv(c, 4, 4, "d")]))
    assert [channels[name] for name in ("a", "b", "c", "d")] == [8, 8, 8, 4]


def test_depthwise_filters_that_differ_keep_their_inputs() -> None:
    n = Network()
    b = n.depthwise(n.conv(n.input(), 16, 8, "a"), 16, "b")
    function = n.b.finish([n.conv(b, 4, 4, "c")])
    assert merge_duplicates(function)[0] is function


def test_flattened_positions_are_different_channels() -> None:
    n = Network()
    a = n.conv(n.input(), 8, 4, "a")
    flat = n.b.op("reshape", [a], ReshapeAttrs((1, 1, 1, 160)), name="flat",
                  origins=[Origin("flat", (1, 160))])  # fmt: skip
    _, channels = kept_bits(n.b.finish([n.conv(flat, 4, 4, "d")]))
    assert channels["a"] == 4 and channels["flat"] == 80


@pytest.mark.parametrize("seed", range(5))
def test_weights_that_do_not_fit_together_stay_apart(seed: int) -> None:
    n = Network(seed, largest=127)
    a = n.conv(n.input(), 16, 8, "a", 3)
    function = n.b.finish([n.conv(n.depthwise(a, 8, "b"), 12, 12, "c")])
    merged, _ = merge_duplicates(function)
    for node in merged.nodes:
        if node.op.name == "conv2d":
            weights = node.inputs[1]
            assert isinstance(weights, Constant)
            assert np.abs(weights.data.astype(int)).max() <= 127
    kept_bits(function)


def test_the_report_names_the_equal_channel() -> None:
    n = Network()
    a = n.conv(n.input(), 8, 4, "a")
    merged, equal = merge_duplicates(n.b.finish([n.conv(a, 4, 4, "d")]))
    _, report = shrink_channels(merged, equal)
    (entry,) = [entry for entry in report if entry.value == "a"]
    assert entry.duplicates == {4: 0, 5: 1, 6: 2, 7: 3}
    assert not entry.constants and not entry.unread
