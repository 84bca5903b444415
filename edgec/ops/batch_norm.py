"""Batch normalization: a factor and an offset for each channel, as `mul` and `add`.

The pass `fold_scales` puts them into the weights of a convolution or dense before them.
"""

from __future__ import annotations

import numpy as np

from edgec.errors import BadNode, ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.graph.types import Array
from edgec.ops.add import AddAttrs
from edgec.ops.mul import MulAttrs
from edgec.ops.onnx_layout import channels_first, channels_last
from edgec.ops.op import RawNode, from_onnx


@from_onnx("BatchNormalization")
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX BatchNormalization in inference: gamma * (x - mean) / sqrt(variance + epsilon) + beta.

    Factor and offset of each channel are ONNX Runtime's, in float32.
    """
    x, *others = raw.operands(5)
    parameters = [value for value in others if isinstance(value, Constant)]
    if len(parameters) < len(others):
        raise ImportFailed("scale, bias, mean and variance must be constants")
    if raw.attribute("training_mode", 0):
        raise ImportFailed("training is not supported")
    factor, offset = _line(raw, *(value.data for value in parameters))
    rank = len(x.type.shape)
    if rank not in (2, 4) or factor.shape != (x.type.shape[1],):
        raise ImportFailed(f"{list(factor.shape)} channels of an input of rank {rank}")
    factors = builder.constant(f"{raw.name}.factor", factor.astype(np.float32))
    offsets = builder.constant(f"{raw.name}.offset", offset.astype(np.float32))
    last = x if rank == 2 else channels_last(builder, x)
    scaled = builder.op(
        "mul", [last, factors], MulAttrs(), name=f"{raw.name}/scale", sources=(raw.name,)
    )
    shifted = builder.op("add", [scaled, offsets], AddAttrs(), name=raw.name)
    return shifted if rank == 2 else channels_first(builder, shifted, raw)


def _line(
    raw: RawNode, gamma: Array, beta: Array, mean: Array, variance: Array
) -> tuple[Array, Array]:
    """The factor and the offset of each channel."""
    with np.errstate(all="ignore"):
        one, epsilon = np.float32(1), np.float32(raw.attribute("epsilon", 1e-5))
        factor = gamma * (one / np.sqrt(variance + epsilon))
        offset = beta - mean * factor
    if not (np.isfinite(factor).all() and np.isfinite(offset).all()):
        raise BadNode("a variance is negative or a parameter is not finite")
    return factor, offset
