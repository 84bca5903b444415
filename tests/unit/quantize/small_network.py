"""A small network of every kind of layer with weights, and inputs for it."""

from __future__ import annotations

import numpy as np

from edgec import ops
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function
from edgec.graph.types import TensorType
from edgec.ops.clip import ClipAttrs
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.transpose import TransposeAttrs

ops.load()


def network() -> Function:
    """Convolution, depthwise, pointwise and dense layers, ReLUs between them."""
    rng = np.random.default_rng(4)
    b = GraphBuilder()

    def constants(*shape: int, outputs: int) -> list:
        data = rng.standard_normal(shape) / np.sqrt(np.prod(shape) / outputs)
        bias = 0.1 * rng.standard_normal(outputs)
        return [
            b.constant("w", data.astype(np.float32)), b.constant("b", bias.astype(np.float32))
        ]  # fmt: skip

    y = b.param("x", TensorType((1, 3, 8, 7), "float32"))
    y = b.op("transpose", [y], TransposeAttrs((0, 2, 3, 1)), name="last")
    y = b.op("conv2d", [y, *constants(8, 3, 3, 3, outputs=8)],
             Conv2dAttrs(padding=((1, 1), (1, 1))), name="first")  # fmt: skip
    y = b.op("clip", [y], ClipAttrs(0.0, np.inf), name="relu1")
    wide = DepthwiseConv2dAttrs(stride=(2, 2), padding=((1, 1), (1, 1)))
    y = b.op("depthwise_conv2d", [y, *constants(3, 3, 8, outputs=8)], wide, name="second")
    y = b.op("clip", [y], ClipAttrs(0.0, np.inf), name="relu2")
    y = b.op("conv2d", [y, *constants(12, 1, 1, 8, outputs=12)], Conv2dAttrs(), name="third")
    y = b.op("clip", [y], ClipAttrs(0.0, np.inf), name="relu3")
    y = b.op("reshape", [y], ReshapeAttrs((1, 192)), name="flat")
    y = b.op("dense", [y, *constants(5, 192, outputs=5)], name="fourth")
    return b.finish([y])


def images(count: int, seed: int = 5) -> list[list[np.ndarray]]:
    """Inputs whose neighbouring pixels are alike."""
    rng = np.random.default_rng(seed)
    rough = rng.standard_normal((count, 1, 3, 10, 9))
    rows = rough[..., :-2, :] + rough[..., 1:-1, :] + rough[..., 2:, :]
    smooth = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]
    return [[image.astype(np.float32)] for image in smooth]
