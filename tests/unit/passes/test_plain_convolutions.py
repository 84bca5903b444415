"""plain_convolutions: a depthwise convolution of one channel, and only that, becomes plain."""

from __future__ import annotations

import numpy as np
import pytest

import edgec.ops
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.types import Quant, TensorType
from edgec.graph.verify import verify_function
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.passes.plain_convolutions import plain_convolutions

edgec.ops.load()


@pytest.mark.parametrize(
    ("channels", "width", "name"),
    [(1, 6, "conv2d"), (2, 6, "depthwise_conv2d"), (1, 5, "depthwise_conv2d")],
)
def test_large_windows_of_one_channel_become_plain(channels: int, width: int, name: str) -> None:
    rng = np.random.default_rng(channels)
    builder = GraphBuilder()
    x = builder.param("x", TensorType((1, 7, 12, channels), "int8", Quant((0.1,), (5,))))
    quant = Quant((0.5,) * 8, (0,) * 8, axis=2)
    w = builder.constant("w", rng.integers(-128, 128, (3, width, 8)).astype(np.int8), quant)
    bias = builder.constant("bias", rng.integers(-999, 999, 8).astype(np.int32))
    attrs = DepthwiseConv2dAttrs((2, 1), (1, 2), ((1, 1), (0, 2)))
    y = builder.op("depthwise_conv2d", [x, w, bias], attrs, name="y")
    function = builder.finish([y])
    plain = plain_convolutions(function)
    verify_function(plain)
    assert [node.op.name for node in plain.nodes] == [name]
    data = rng.integers(-128, 128, x.type.shape).astype(np.int8)
    np.testing.assert_array_equal(interpret(function, [data])[0], interpret(plain, [data])[0])


def test_floats_stay() -> None:
    builder = GraphBuilder()
    x = builder.param("x", TensorType((1, 4, 8, 1), "float32"))
    w = builder.constant("w", np.ones((3, 6, 2), np.float32))
    bias = builder.constant("bias", np.zeros(2, np.float32))
    y = builder.op("depthwise_conv2d", [x, w, bias], DepthwiseConv2dAttrs(), name="y")
    assert plain_convolutions(builder.finish([y])).nodes[0].op.name == "depthwise_conv2d"
