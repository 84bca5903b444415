"""Groups of single layers, small, with odd sizes."""

from __future__ import annotations

import numpy as np

import edgec.ops.dense  # noqa: F401  registers it
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function, Module
from edgec.graph.operator import NoAttrs
from edgec.graph.types import Quant, TensorType
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.ops.requantize import RequantizeAttrs
from edgec.options import Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.targets.core import find_core
from edgec.targets.target import target_for
from edgec.tune.candidates import Candidates

Attrs = Conv2dAttrs | DepthwiseConv2dAttrs | NoAttrs
SAME = ((1, 1), (1, 1))


def layer(
    operator: str, shape: tuple[int, ...], weights: tuple[int, ...], attrs: Attrs,
    dtype: str = "int8", *, per_tensor: bool = False,
) -> Function:  # fmt: skip
    """A convolution or dense with random weights; of int8, its requantize as well.

    per_tensor: one scale for all weights.
    """
    rng = np.random.default_rng(1)
    builder = GraphBuilder()
    axis = len(weights) - 1 if operator == "depthwise_conv2d" else 0
    channels = weights[axis]
    if dtype == "float32":
        x = builder.param("x", TensorType(shape, dtype))
        w = builder.constant("w", rng.standard_normal(weights).astype(np.float32))
        bias = builder.constant("bias", rng.standard_normal(channels).astype(np.float32))
        return builder.finish([builder.op(operator, [x, w, bias], attrs, name="layer")])
    x = builder.param("x", TensorType(shape, dtype, Quant((0.1,), (-5,))))
    scales = 1 if per_tensor else channels
    quant = Quant((0.5,) * scales, (0,) * scales, None if per_tensor else axis)
    w = builder.constant("w", rng.integers(-127, 128, weights).astype(np.int8), quant)
    bias = builder.constant("bias", rng.integers(-999, 999, channels).astype(np.int32))
    acc = builder.op(operator, [x, w, bias], attrs, name="acc")
    factors = tuple(float(s) for s in rng.uniform(0.0005, 0.01, scales))
    rescaled = RequantizeAttrs(factors, Quant((0.05,), (3,)), -128, 127, "tflm")
    return builder.finish([builder.op("requantize", [acc], rescaled, name="layer")])


#: By name: convolutions with and without padding, strides, odd channels; dense; depthwise.
LAYERS = {
    "pixels": layer("conv2d", (1, 3, 5, 4), (7, 1, 1, 4), Conv2dAttrs()),
    "padded": layer("conv2d", (1, 5, 4, 3), (5, 3, 3, 3), Conv2dAttrs(padding=SAME)),
    "strides": layer("conv2d", (1, 7, 7, 2), (4, 3, 3, 2), Conv2dAttrs(stride=(2, 2))),
    "floats": layer("conv2d", (1, 5, 4, 3), (5, 3, 3, 3), Conv2dAttrs(padding=SAME), "float32"),
    "dense": layer("dense", (3, 13), (6, 13), NoAttrs()),
    "depthwise": layer(
        "depthwise_conv2d", (1, 5, 6, 3), (3, 3, 3), DepthwiseConv2dAttrs(padding=SAME)
    ),
}


def candidates(name: str, core: str = "cortex-m3") -> Candidates:
    """The candidates of one of the layers."""
    target = target_for(find_core(core), Options())
    (group,) = fuse_groups(LAYERS[name], is_whole=target.is_whole)
    return Candidates(group, target)


def module(name: str) -> Module:
    """One of the layers as a model."""
    return Module({"main": LAYERS[name]}, source="layer.onnx", format="onnx")
