"""Layers whose results go through a table: both are one group, and every schedule means both."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.graph.types import Quant, TensorType
from edgec.loop.interpret import interpret as run_loops
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.ops.lookup import LookupAttrs
from edgec.ops.requantize import RequantizeAttrs
from edgec.options import Optimize, Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import lower_group
from edgec.targets.core import find_core
from edgec.targets.target import target_for

IN, BETWEEN, OUT = Quant((0.05,), (-3,)), Quant((0.04,), (5,)), Quant((0.03,), (-9,))
#: Window, step, padding before and after, channels of the input and of the output.
DEPTHWISE = [(3, 1, (1, 1), 4, 4), (5, 2, (1, 2), 4, 4), (3, 1, (1, 1), 2, 6), (1, 1, (0, 0), 4, 4)]


def with_table(operator: str, case: tuple[int, int, tuple[int, int], int, int]) -> Function:
    """The layer of a 6 by 6 image, its requantize and a lookup, with random numbers."""
    window, step, padding, channels, outputs = case
    rng = np.random.default_rng(window + outputs)
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 6, 6, channels), "int8", IN))
    is_depthwise = operator == "depthwise_conv2d"
    shape = (window, window, outputs) if is_depthwise else (outputs, window, window, channels)
    w = b.constant("w", rng.integers(-127, 128, shape).astype(np.int8), Quant((0.1,), (0,)))
    bias = b.constant("bias", rng.integers(-900, 900, outputs).astype(np.int32))
    kind = DepthwiseConv2dAttrs if is_depthwise else Conv2dAttrs
    attrs = kind((step, step), padding=(padding, padding))
    y = b.op(operator, [x, w, bias], attrs, name="layer")
    factors = tuple(rng.uniform(0.0005, 0.003, outputs).tolist())
    y = b.op("requantize", [y], RequantizeAttrs(factors, BETWEEN, -128, 127, "tflm"), name="q")
    table = tuple(rng.integers(-128, 128, 256).tolist())
    return b.finish([b.op("lookup", [y], LookupAttrs(table, OUT), name="bent")])


@pytest.mark.parametrize("optimize", ["balanced", "size"])
@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4", "cortex-m55", "x86_64"])
@pytest.mark.parametrize(
    ("operator", "case"),
    [*(("depthwise_conv2d", case) for case in DEPTHWISE), ("conv2d", (3, 1, (1, 1), 4, 8))],
)
def test_a_layer_and_its_table(
    operator: str, case: tuple[int, int, tuple[int, int], int, int], core: str, optimize: Optimize
) -> None:
    function = with_table(operator, case)
    (group,) = fuse_groups(function)
    assert len(group.nodes) == 3
    x = np.random.default_rng(1).integers(-128, 128, (1, 6, 6, case[3])).astype(np.int8)
    (expected,) = interpret(function, [x])
    found = lower_group(group, target_for(find_core(core), Options(optimize=optimize))).variants
    assert found
    for variant in found:
        got = run_loops(variant.function, {"x": x, **variant.constants})["out"]
        np.testing.assert_array_equal(got.reshape(expected.shape), expected)
