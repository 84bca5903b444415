"""Clamps go exactly where no input reaches them."""

from __future__ import annotations

import numpy as np
import pytest

import edgec.ops
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.graph.types import Quant, TensorType
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.max_pool2d import MaxPool2dAttrs
from edgec.ops.requantize import RequantizeAttrs
from edgec.passes.idle_clamps import drop_idle_clamps

edgec.ops.load()
QUANT = Quant((0.1,), (0,))


def scaled(factor: float, minimum: int, maximum: int) -> Function:
    """One channel, int8 times `factor`, clamped; then a pool with a clamp from `minimum` on."""
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 4, 64, 1), "int8", QUANT))
    one = b.constant("w", np.ones((1, 1, 1, 1), np.int8))
    bias = b.constant("b", np.zeros(1, np.int32))
    acc = b.op("conv2d", [x, one, bias], Conv2dAttrs(), name="acc")
    attrs = RequantizeAttrs((factor,), QUANT, minimum, maximum, "tflm")
    y = b.op("requantize", [acc], attrs, name="y")
    pool = MaxPool2dAttrs((2, 2), (2, 2), minimum=minimum, maximum=127)
    return b.finish([b.op("max_pool2d", [y], pool, name="z")])


@pytest.mark.parametrize(
    ("factor", "minimum", "maximum", "left"),
    [
        (0.5, -64, 64, (-128, 127)),  # -64 to 64: both are idle
        (0.5, -64, 63, (-128, 63)),
        (0.5, -63, 64, (-63, 127)),
        (0.5, -128, 127, (-128, 127)),
        (3.0, -100, 100, (-100, 100)),  # both fire
    ],
)
def test_only_bounds_that_nothing_reaches_go(
    factor: float, minimum: int, maximum: int, left: tuple[int, int]
) -> None:
    function = scaled(factor, minimum, maximum)
    result, idle = drop_idle_clamps(function)
    attrs = {node.output.name: node.attrs for node in result.nodes}
    assert (attrs["y"].minimum, attrs["y"].maximum) == left
    assert attrs["z"].minimum == -128  # the pool's clamp is the same again
    assert ("y" in {entry.value for entry in idle}) == (left != (minimum, maximum))
    for entry in idle:
        assert entry.minimum <= entry.low or entry.high <= entry.maximum
    every = np.resize(np.arange(-128, 128), (1, 4, 64, 1)).astype(np.int8)
    (one,), (other,) = interpret(function, [every]), interpret(result, [every])
    assert np.array_equal(one, other)


def test_nothing_is_rewritten_where_all_clamps_fire() -> None:
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 4, 4, 1), "int8", QUANT))
    pool = MaxPool2dAttrs((2, 2), (2, 2), minimum=-10, maximum=10)
    function = b.finish([b.op("max_pool2d", [x], pool, name="z")])
    result, idle = drop_idle_clamps(function)
    assert result is function and not idle
