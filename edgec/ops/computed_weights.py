"""TFLite's FULLY_CONNECTED and CONV_2D, also of floats by weights that the model computes."""

from __future__ import annotations

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.ops import conv2d, dense
from edgec.ops.activation import append_activation
from edgec.ops.add import AddAttrs
from edgec.ops.direct_conv import DirectConvAttrs
from edgec.ops.op import RawNode, from_tflite
from edgec.ops.parts import Parts
from edgec.ops.window import tflite_padding


def _biased(builder: GraphBuilder, raw: RawNode, products: Value) -> Value:
    """Add the bias along the last axis, and the activation."""
    parts, bias = Parts(builder, raw), raw.optional(2)
    if bias is None:
        bias = parts.table(np.zeros(products.type.shape[-1]), "bias", "float32")
    return append_activation(builder, raw, "add", [products, bias], AddAttrs())


def append_computed_dense(builder: GraphBuilder, raw: RawNode) -> Value:
    """A product of two matrices, in the declared shape."""
    x, weights, parts = raw.operand(0), raw.operand(1), Parts(builder, raw)
    if not weights.type.is_float or len(weights.type.shape) != 2:
        raise ImportFailed(f"weights {weights.type}: computed ones must be float32 of rank 2")
    depth = weights.type.shape[1]
    flat = parts.reshaped(x, (x.type.elements // depth, depth), "flat")
    turned = parts.moved(weights, (1, 0), "turned")
    product = parts.op("matmul", [flat, turned], what="product")
    return _biased(builder, raw, parts.reshaped(product, raw.declared().shape, "product_shape"))


def append_computed_conv(builder: GraphBuilder, raw: RawNode) -> Value:
    """A convolution with its channels first."""
    x, weights, parts = raw.operand(0), raw.operand(1), Parts(builder, raw)
    if not weights.type.is_float or len(weights.type.shape) != 4 or len(x.type.shape) != 4:
        raise ImportFailed(f"{x.type} by weights {weights.type}: both must be float32 of rank 4")
    stride, dilation = raw.attribute("stride"), raw.attribute("dilation", (1, 1))
    padding = tflite_padding(raw, x.type.shape[1:3], weights.type.shape[1:3], stride, dilation)
    groups = x.type.shape[3] // weights.type.shape[3]
    operands = [
        parts.moved(value, (0, 3, 1, 2), f"first{n}") for n, value in enumerate((x, weights))
    ]
    attrs = DirectConvAttrs(stride, dilation, padding, groups)
    made = parts.op("direct_conv", operands, attrs, "products")
    return _biased(builder, raw, parts.moved(made, (0, 2, 3, 1), "last"))


def _is_computed(raw: RawNode) -> bool:
    return raw.operand(0).type.is_float and not isinstance(raw.operand(1), Constant)


@from_tflite("FULLY_CONNECTED")
def import_fully_connected(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite FULLY_CONNECTED."""
    return (append_computed_dense if _is_computed(raw) else dense.import_tflite)(builder, raw)


@from_tflite("CONV_2D")
def import_conv_2d(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite CONV_2D."""
    return (append_computed_conv if _is_computed(raw) else conv2d.import_tflite)(builder, raw)
