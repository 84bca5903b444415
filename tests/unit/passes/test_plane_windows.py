"""Convolutions of one channel on a core with DSP instructions: their microkernel, which means the
same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.graph.types import Quant, TensorType
from edgec.loop.interpret import interpret as run_loops
from edgec.loop.microkernel import kernels_of
from edgec.numerics.fixed_point import Rounding
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.ops.requantize import RequantizeAttrs
from edgec.options import Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import Variant, lower_group
from edgec.targets.core import find_core
from edgec.targets.dsp.kernels.plane_windows import NAME
from edgec.targets.target import target_for

M4 = target_for(find_core("cortex-m4"), Options())
NONE, SAME = ((0, 0), (0, 0)), ((1, 1), (1, 1))


def layer(
    op: str,
    shape: tuple[int, ...] = (1, 6, 9, 1),
    kernel: tuple[int, int] = (3, 3),
    stride: tuple[int, int] = (2, 2),
    padding: tuple[tuple[int, int], tuple[int, int]] = ((0, 1), (0, 1)),
    outputs: int = 8,
    zero_point: int = -128,
    most: int = 127,
    rounding: Rounding = "tflm",
    most_bias: int = 20_000,
    factor: float = 0.01,
) -> Function:
    """A convolution of int8 with its requantize."""
    rng = np.random.default_rng(outputs)
    b = GraphBuilder()
    x = b.param("x", TensorType(shape, "int8", Quant((0.1,), (-5,))))
    depth = shape[3]
    size = (outputs, *kernel, depth) if op == "conv2d" else (*kernel, outputs)
    axis = 0 if op == "conv2d" else 2
    quant = Quant((0.5,) * outputs, (0,) * outputs, axis)
    w = b.constant("w", rng.integers(-128, 128, size).astype(np.int8), quant)
    bias = b.constant("bias", rng.integers(-most_bias, most_bias, outputs).astype(np.int32))
    attrs_class = Conv2dAttrs if op == "conv2d" else DepthwiseConv2dAttrs
    acc = b.op(op, [x, w, bias], attrs_class(stride, (1, 1), padding), name="acc")
    factors = tuple(float(s) for s in rng.uniform(factor / 20, factor, outputs))
    attrs = RequantizeAttrs(factors, Quant((0.05,), (zero_point,)), -128, most, rounding)
    return b.finish([b.op("requantize", [acc], attrs, name="y")])


def variants(function: Function) -> tuple[Variant, ...]:
    (group,) = fuse_groups(function)
    return lower_group(group, M4).variants


def assert_same(function: Function, variant: Variant) -> None:
    rng = np.random.default_rng(4)
    x = rng.integers(-128, 128, function.params[0].type.shape).astype(np.int8)
    (expected,) = interpret(function, [x])
    got = run_loops(variant.function, {"x": x, **variant.constants})["out"]
    assert np.array_equal(got.reshape(expected.shape), expected)


@pytest.mark.parametrize("op", ["conv2d", "depthwise_conv2d"])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"stride": (1, 1), "padding": SAME, "outputs": 2},
        {"stride": (1, 3), "padding": NONE, "outputs": 6},
        {"shape": (1, 3, 7, 1), "stride": (1, 2), "padding": ((0, 0), (1, 2))},  # a single row
        {"shape": (3, 5, 6, 1)},
    ],
)
def test_windows_of_one_channel(op: str, given: dict[str, Any]) -> None:
    """The kernel comes first, needs no scratch, and gives what the graph means."""
    function = layer(op, **given)
    first = variants(function)[0]
    assert kernels_of(first.function) == {NAME}
    assert first.scratch_bytes == 0
    assert_same(function, first)


@pytest.mark.parametrize("op", ["conv2d", "depthwise_conv2d"])
@pytest.mark.parametrize(
    "given",
    [
        {"kernel": (3, 2)},
        {"outputs": 3},
        {"zero_point": -100},
        {"most": 100},
        {"rounding": "single"},
        {"most_bias": 1 << 24, "factor": 1e-5},
        {"shape": (1, 6, 9, 4), "outputs": 4},
    ],
)
def test_what_the_kernel_cannot_do(op: str, given: dict[str, Any]) -> None:
    """Other windows, odd channels, other limits and roundings, large sums, several channels."""
    function = layer(op, **given)
    found = variants(function)
    assert all(NAME not in kernels_of(variant.function) for variant in found)
    assert_same(function, found[0])


def test_outputs_follow_the_input_through_memory() -> None:
    """Pixel by pixel: an output that is as large as the input and steps with it may replace it."""
    function = layer("conv2d", (1, 9, 18, 1), stride=(3, 3), padding=NONE, outputs=2)
    (found,) = variants(function)[0].overlaps
    assert found[1] < function.results[0].type.elements
