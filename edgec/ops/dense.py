"""dense: y = x W^T + bias over the last axis (fully connected)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, NoAttrs, register
from edgec.graph.traits import IntegerForm, Products
from edgec.graph.types import Array, Arrays, TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import cast
from edgec.numerics.ordered_sum import ordered_products
from edgec.ops.accumulate import fold_offset, weight_sums, widened
from edgec.ops.activation import append_activation
from edgec.ops.broadcast import constant_of, tensor_of
from edgec.ops.conv2d import centred, check_operands, with_bias
from edgec.ops.dynamic_range import RescaleRowsAttrs, append_hybrid
from edgec.ops.offset_weights import append_products, offset_scales
from edgec.ops.onnx_graph import OnnxGraph, as_stored
from edgec.ops.onnx_layout import bias_of, rearranged_weights
from edgec.ops.op import Op, RawNode, from_onnx
from edgec.ops.requantize import (
    append_requantize,
    product_multipliers,
    tflite_operands,
    weight_scales,
)
from edgec.ops.reshape import ReshapeAttrs


@register
class Dense(Op[NoAttrs]):
    """x [N, K], weights [O, K], bias [O] -> [N, O]; dtypes and arithmetic as `conv2d`."""

    name = "dense"
    constant_inputs = (1, 2)
    fusion = Fusion.COMPLEX
    tolerance = 2e-6
    products = Products(outputs=0, inputs=1)
    integer_form = IntegerForm.PRODUCTS
    along_last_axis = True

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The accumulators' dtype without quantization."""
        x, weights, bias = inputs
        dtype = check_operands(self.name, x, weights, bias)
        if len(x.shape) != 2 or len(weights.shape) != 2:
            raise TypeMismatch("dense needs an input and weights of rank 2")
        if x.shape[1] != weights.shape[1]:
            raise TypeMismatch(
                f"dense weights read {weights.shape[1]} values, the input has {x.shape[1]}"
            )
        if bias.shape != weights.shape[:1]:
            raise TypeMismatch(f"bias {list(bias.shape)} for {weights.shape[0]} outputs")
        return (TensorType((x.shape[0], weights.shape[0]), dtype),)

    def evaluate(
        self, attrs: NoAttrs, inputs: Arrays, input_types: Types, output_types: Types
    ) -> tuple[Array, ...]:
        """One matrix product in float64, exact for integers: below 2**53. Floats in C's order."""
        x, weights, bias = inputs
        if output_types[0].is_float:
            return (ordered_products(x, weights, bias),)
        products = centred(x, input_types[0]) @ weights.T.astype(np.float64)
        return (with_bias(products, bias, output_types[0].dtype),)

    def macs(self, attrs: NoAttrs, inputs: Types) -> int:
        """N * K * O."""
        return inputs[0].elements * inputs[1].shape[0]

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One accumulation per output."""
        x, w, bias = tensor_of(inputs[0]), constant_of(inputs[1]).data, constant_of(inputs[2]).data
        offset, bias = fold_offset(node, bias, weight_sums(w, 1))
        weights, biases = target.table("w", w), target.table("bias", bias)
        return target.reduce(
            "acc",
            node.output.type.shape,
            node.output.type.dtype,
            [("k", 0, w.shape[1])],
            init=lambda n, c: biases[c],
            update=lambda acc, n, c, k: (
                acc + widened(x[n, k], acc, offset) * cast(weights[c, k], acc.dtype)
            ),
        )

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """Gemm."""
        x, weights, bias = node.inputs
        operands = [out.own(x), *(out.operand(each, as_stored, 0) for each in (weights, bias))]
        out.emit("Gemm", operands, out.define_own(node.output), transB=1)


def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite FULLY_CONNECTED: a dense and a requantize, between reshapes where ranks differ.

    Of floats and int8 weights: TFLite's hybrid kernel.
    """
    x, weights, bias = tflite_operands(builder, raw, channel_axis=0, hybrid=True)
    declared = raw.output_types[0]
    if raw.attribute("weights_format", "DEFAULT") != "DEFAULT":
        raise ImportFailed("shuffled weights are not supported")
    if declared is None or len(weights.type.shape) != 2:
        raise ImportFailed("the weights are not of rank 2")
    channels, depth = weights.type.shape
    if depth < 1 or x.type.elements % depth:
        raise ImportFailed(f"{x.type.elements} input values are not a multiple of {depth}")
    if len(x.type.shape) != 2 or x.type.shape[1] != depth:
        attrs = ReshapeAttrs((x.type.elements // depth, depth))
        x = builder.op("reshape", [x], attrs, name=f"{raw.name}/flatten", sources=(raw.name,))

    # All in double, as for convolutions: older TFLite sources round the product of two scales to
    # float32 here; accumulators next to ties show that TFLite Micro's interpreter does not.
    if x.type.is_float and not weights.type.is_float:
        scales = weight_scales(weights.type, channels)
        rescale = RescaleRowsAttrs(scales, raw.attribute("asymmetric", False))
        result = append_hybrid(builder, raw, "dense", (x, weights, bias), None, rescale)
    elif x.type.is_float:
        result = append_activation(builder, raw, "dense", [x, weights, bias])
    else:
        multiplier = product_multipliers(x.type, offset_scales(weights, channels), declared)
        acc = append_products(builder, raw, "dense", [x, weights, bias])
        result = append_requantize(builder, raw, acc, multiplier)
    if result.type.shape == declared.shape:
        return result
    return builder.op(
        "reshape", [result], ReshapeAttrs(declared.shape), name=f"{raw.name}/unflatten",
        sources=(raw.name,),
    )  # fmt: skip


@from_onnx("Gemm")
def import_gemm(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Gemm with constant weights and factors of 1."""
    x, weights = raw.operand(0), raw.operand(1)
    if raw.attribute("alpha", 1.0) != 1.0 or raw.attribute("beta", 1.0) != 1.0:
        raise ImportFailed("alpha and beta must be 1")
    if raw.attribute("transA", 0):
        raise ImportFailed("a transposed input is not supported yet")
    if len(weights.type.shape) != 2:
        raise ImportFailed(f"weights of rank {len(weights.type.shape)}")
    order = (0, 1) if raw.attribute("transB", 0) else (1, 0)
    shape = tuple(weights.type.shape[axis] for axis in order)
    weights = rearranged_weights(builder, weights, order, shape)
    bias = bias_of(builder, raw, shape[0], "float32")
    return builder.op("dense", [x, weights, bias], name=raw.name)


def matrix_product(builder: GraphBuilder, raw: RawNode) -> Value:
    """Float activations [..., K] times constant or dequantized weights [K, O]."""
    x, weights = raw.operands(2)
    depth, outputs = weights.type.shape
    shape = x.type.shape
    if not shape or shape[-1] != depth:
        raise ImportFailed(f"{list(shape)} times {[depth, outputs]}")
    rows = x
    if len(shape) != 2:
        flat = ReshapeAttrs((x.type.elements // depth, depth))
        rows = builder.op("reshape", [x], flat, name=f"{raw.name}/flatten", sources=(raw.name,))
    matrix = rearranged_weights(builder, weights, (1, 0), (outputs, depth))
    bias = builder.constant(f"{raw.name}.bias", np.zeros(outputs, np.float32))
    if len(shape) == 2:
        return builder.op("dense", [rows, matrix, bias], name=raw.name)
    product = builder.op(
        "dense", [rows, matrix, bias], name=f"{raw.name}/rows", sources=(raw.name,)
    )
    return builder.op("reshape", [product], ReshapeAttrs((*shape[:-1], outputs)), name=raw.name)
