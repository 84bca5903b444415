"""A float network with one value that int8 is too coarse for, and inputs for it."""

from __future__ import annotations

import numpy as np

from edgec import ops
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function, Value
from edgec.graph.types import TensorType
from edgec.ops.avg_pool2d import AvgPool2dAttrs
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.ops.tanh import TanhAttrs

ops.load()


def uneven(spread: float) -> Function:
    """A channel of one value is larger than the others by `spread`, which is taken off again.

    int8 has nothing left of the others there; all else is alike.
    """
    rng = np.random.default_rng(3)
    sizes = np.array([spread, 1.0, 1.0, 1.0])
    b = GraphBuilder()

    def mixing(sizes: np.ndarray) -> list[Value]:
        weights = np.linalg.qr(rng.standard_normal((4, 4)))[0] * sizes[:, None]
        data = weights.reshape(4, 1, 1, 4).astype(np.float32)
        return [b.constant("w", data), b.constant("b", np.zeros(4, np.float32))]

    x = b.param("x", TensorType((1, 6, 6, 4), "float32"))
    y = b.op("conv2d", [x, *mixing(sizes)], Conv2dAttrs(), name="first")
    data = (1 / sizes).reshape(1, 1, 4).astype(np.float32)
    constants = [b.constant("d", data), b.constant("e", np.zeros(4, np.float32))]
    y = b.op("depthwise_conv2d", [y, *constants], DepthwiseConv2dAttrs(), name="second")
    y = b.op("conv2d", [y, *mixing(np.ones(4))], Conv2dAttrs(), name="third")
    y = b.op("tanh", [y], TanhAttrs(), name="bent")
    y = b.op("avg_pool2d", [y], AvgPool2dAttrs((3, 3), (3, 3)), name="mean")
    return b.finish([b.op("conv2d", [y, *mixing(np.ones(4))], Conv2dAttrs(), name="last")])


def pixels(count: int, seed: int = 0) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [[rng.uniform(-1, 1, (1, 6, 6, 4)).astype(np.float32)] for _ in range(count)]
