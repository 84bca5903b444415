"""matmul: the product of two tensors that are both computed, as attention needs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, NoAttrs, register
from edgec.graph.types import Array, TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.numerics.ordered_sum import ordered_products
from edgec.ops.broadcast import broadcast_index, operand_tensors
from edgec.ops.dense import matrix_product
from edgec.ops.onnx_graph import OnnxGraph, own_operands
from edgec.ops.op import Op, RawNode, from_onnx, from_tflite
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.transpose import dequantized, transposed

#: Integers are sums of products that wrap.
DTYPES = ("float32", "float64", "int32")


@register
class Matmul(Op[NoAttrs]):
    """x [..., M, K] times y [..., K, N] -> [..., M, N], of DTYPES; axes before these broadcast.

    Where one operand is a constant matrix, `dense` is faster.
    """

    name = "matmul"
    fusion = Fusion.COMPLEX
    tolerance = 2e-6

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Both of rank 2 or more, of the same K."""
        x, y = inputs
        text = f"matmul of {list(x.shape)} and {list(y.shape)}"
        if x.dtype not in DTYPES or y.dtype != x.dtype or x.quant or y.quant:
            raise TypeMismatch(f"matmul needs {' or '.join(DTYPES)}, not {x} and {y}")
        if min(len(x.shape), len(y.shape)) < 2 or x.shape[-1] != y.shape[-2]:
            raise TypeMismatch(text)
        try:
            batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        except ValueError:
            raise TypeMismatch(text) from None
        return (TensorType((*batch, x.shape[-2], y.shape[-1]), x.dtype),)

    def evaluate(
        self,
        attrs: NoAttrs,
        inputs: Sequence[Array],
        input_types: Sequence[TensorType],
        output_types: Sequence[TensorType],
    ) -> tuple[Array, ...]:
        """Products are added in the order of K, from zero."""
        if inputs[0].dtype != np.float32:
            return super().evaluate(attrs, inputs, input_types, output_types)
        *batch, rows, columns = output_types[0].shape
        x, y = (np.broadcast_to(v, (*batch, *v.shape[-2:])) for v in inputs)
        result = np.empty((*batch, rows, columns), np.float32)
        start = np.zeros(columns, np.float32)
        for at in np.ndindex(*batch):
            result[at] = ordered_products(x[at], y[at].T, start)
        return (result,)

    def macs(self, attrs: NoAttrs, inputs: Sequence[TensorType]) -> int:
        """Elements of the output times K."""
        (output,) = self.infer(attrs, *inputs)
        return output.elements * inputs[0].shape[-1]

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One accumulation per output."""
        x, y = operand_tensors(target, inputs)

        def update(acc: Any, *at: Any) -> Any:
            *batch, row, column, k = at
            first = broadcast_index(x.shape[:-2], tuple(batch))
            second = broadcast_index(y.shape[:-2], tuple(batch))
            return acc + x[(*first, row, k)] * y[(*second, k, column)]

        return target.reduce(
            "acc",
            node.output.type.shape,
            x.dtype,
            [("k", 0, x.shape[-1])],
            init=lambda *at: 0,
            update=update,
        )

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """MatMul."""
        out.emit("MatMul", own_operands(out, node), out.define_own(node.output))


@from_onnx("MatMul")
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX MatMul of floats: a dense where the second operand is a constant matrix."""
    x, y = raw.operands(2)
    is_constant = isinstance(y, Constant) or dequantized(builder, y) is not None
    if x.type.dtype == "float32" and is_constant and len(y.type.shape) == 2:
        return matrix_product(builder, raw)
    if not x.type.shape or not y.type.shape:
        raise ImportFailed(f"the product of {list(x.type.shape)} and {list(y.type.shape)}")
    operands = [
        _as_matrix(builder, raw, x, (1, *x.type.shape)),
        _as_matrix(builder, raw, y, (*y.type.shape, 1)),
    ]
    if operands == [x, y]:
        return builder.op("matmul", operands, name=raw.name)
    product = builder.op("matmul", operands, name=f"{raw.name}/matrix", sources=(raw.name,))
    *batch, rows, columns = product.type.shape
    shape = [*batch]
    if operands[0] is x:
        shape.append(rows)
    if operands[1] is y:
        shape.append(columns)
    return builder.op("reshape", [product], ReshapeAttrs(tuple(shape)), name=raw.name)


def _as_matrix(builder: GraphBuilder, raw: RawNode, value: Value, shape: tuple[int, ...]) -> Value:
    """A vector as a matrix of this shape; others as they are."""
    if len(value.type.shape) != 1:
        return value
    attrs = ReshapeAttrs(shape)
    return builder.op(
        "reshape", [value], attrs, name=f"{raw.name}/{value.name}", sources=(raw.name,)
    )


@from_tflite("BATCH_MATMUL")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite BATCH_MATMUL of floats; operands that it takes transposed are transposed before."""
    operands = []
    for value, key in zip(raw.operands(2), ("adj_x", "adj_y"), strict=True):
        if value.type.dtype != "float32":
            raise ImportFailed(f"{value.type.dtype} operands: only float32 is supported yet")
        rank = len(value.type.shape)
        if raw.attribute(key, False) and rank >= 2:
            order = (*range(rank - 2), rank - 1, rank - 2)
            value = transposed(builder, value, order, f"{raw.name}/{value.name}.{key}")
        operands.append(value)
    return builder.op("matmul", operands, name=raw.name)
