"""trim_windows: taps that only meet padding go, and every output stays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edgec.ops
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.types import Quant, TensorType
from edgec.graph.verify import verify_function
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.passes.trim_windows import trim_windows

edgec.ops.load()
small = st.integers(1, 4)


@st.composite
def layers(draw):
    kind = draw(st.sampled_from(["conv2d", "depthwise_conv2d"]))
    kernel, stride, dilation = (draw(st.tuples(small, small)) for _ in range(3))
    reaches = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    pads = tuple(draw(st.tuples(st.integers(0, r), st.integers(0, r))) for r in reaches)
    extents = tuple(
        draw(st.integers(max(1, r + 1 - sum(p)), max(6, r + 1 - sum(p))))
        for r, p in zip(reaches, pads, strict=True)
    )
    return kind, kernel, stride, dilation, pads, extents


def build(kind, kernel, stride, dilation, pads, extents, dtype="int8"):
    rng = np.random.default_rng(3)
    builder = GraphBuilder()
    quant = Quant((0.1,), (5,)) if dtype == "int8" else None
    x = builder.param("x", TensorType((1, *extents, 2), dtype, quant))
    shape = (3, *kernel, 2) if kind == "conv2d" else (*kernel, 2)
    outputs = 3 if kind == "conv2d" else 2
    w = builder.constant("w", rng.integers(-128, 128, shape).astype(dtype))
    whole = "int32" if dtype == "int8" else dtype
    bias = builder.constant("b", rng.integers(-99, 99, outputs).astype(whole))
    kinds = {"conv2d": Conv2dAttrs, "depthwise_conv2d": DepthwiseConv2dAttrs}
    attrs = kinds[kind](stride, dilation, pads)
    function = builder.finish([builder.op(kind, [x, w, bias], attrs, name="y")])
    return function, rng.integers(-128, 128, x.type.shape).astype(dtype)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(layers())
def test_outputs_stay(layer):
    function, x = build(*layer)
    made = trim_windows(function)
    verify_function(made)
    np.testing.assert_array_equal(interpret(made, [x])[0], interpret(function, [x])[0])


@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "pads", "extents", "left"),
    [
        ((3, 3), (1, 1), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1)),
        ((3, 3), (1, 1), (1, 1), ((1, 1), (1, 1)), (1, 5), (1, 3)),
        ((3, 3), (1, 1), (1, 1), ((1, 1), (1, 1)), (2, 2), (3, 3)),
        ((3, 3), (2, 2), (1, 1), ((0, 1), (0, 1)), (2, 2), (2, 2)),
        ((2, 2), (1, 1), (2, 2), ((1, 1), (1, 1)), (1, 1), (1, 1)),  # reads nothing at all
        ((2, 1), (3, 1), (9, 1), ((5, 9), (0, 0)), (2, 4), (2, 1)),  # nothing, for two outputs
    ],
)
def test_what_is_left(kernel, stride, dilation, pads, extents, left, dtype):
    function, x = build("conv2d", kernel, stride, dilation, pads, extents, dtype)
    made = trim_windows(function)
    assert made.nodes[0].inputs[1].type.shape[1:3] == left
    np.testing.assert_array_equal(interpret(made, [x])[0], interpret(function, [x])[0])
