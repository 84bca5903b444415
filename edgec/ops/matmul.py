"""matmul: the product of two tensors that are both computed, as attention needs it."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, NoAttrs, register
from edgec.graph.traits import IntegerForm, Interval, Operand
from edgec.graph.types import Array, Arrays, TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.numerics.fixed_point import Rounding
from edgec.numerics.ordered_sum import ordered_products
from edgec.ops.accumulate import widened
from edgec.ops.broadcast import broadcast_index, operand_tensors
from edgec.ops.conv2d import centred
from edgec.ops.dense import matrix_product
from edgec.ops.onnx_graph import OnnxGraph, own_operands
from edgec.ops.op import Op, RawNode, from_onnx, from_tflite
from edgec.ops.requantize import RequantizeAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.transpose import dequantized, transposed

#: Integers are sums of products that wrap.
DTYPES = ("float32", "float64", "int32")


#: Of int8: each is 255 * 255 at most.
MOST_PRODUCTS = (2**31 - 1) // 255**2


def _sums_dtype(x: TensorType, y: TensorType) -> str:
    """The dtype of sums of products. Raises TypeMismatch for operands that have none."""
    dtypes = {x.dtype, y.dtype}
    if all(type_.quant is not None and type_.quant.per_tensor for type_ in (x, y)):
        if dtypes <= {"int8", "int16"}:
            return "int32" if dtypes == {"int8"} else "int64"
    elif x.quant is y.quant and len(dtypes & set(DTYPES)) == len(dtypes) == 1:
        return x.dtype
    known = f"{' or '.join(DTYPES)}, or int8 and int16 quantized per tensor"
    raise TypeMismatch(f"matmul needs {known}, not {x} and {y}")


@register
class Matmul(Op[NoAttrs]):
    """x [..., M, K] times y [..., K, N] -> [..., M, N], of DTYPES; axes before these broadcast.

    Stored integers (int8 or int16, quantized per tensor) are multiplied without their zero points;
    accumulators are int32 if both are int8, else int64. For a constant matrix, `dense` is faster.
    """

    name = "matmul"
    fusion = Fusion.COMPLEX
    tolerance = 2e-6
    integer_form = IntegerForm.MATRICES

    def whole_axes(self, attrs: NoAttrs, inputs: Types, position: int) -> Collection[int]:
        """The axis of the summed products: the columns of x, the rows of y."""
        return (len(inputs[position].shape) - (2 if position else 1),)

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Both of rank 2 or more, of the same K."""
        x, y = inputs
        text = f"matmul of {list(x.shape)} and {list(y.shape)}"
        dtype = _sums_dtype(x, y)
        if min(len(x.shape), len(y.shape)) < 2 or x.shape[-1] != y.shape[-2]:
            raise TypeMismatch(text)
        try:
            batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        except ValueError:
            raise TypeMismatch(text) from None
        if dtype == "int32" and x.quant is not None and x.shape[-1] > MOST_PRODUCTS:
            raise TypeMismatch(f"{text}: at most {MOST_PRODUCTS} products of int8 fit in int32")
        return (TensorType((*batch, x.shape[-2], y.shape[-1]), dtype),)

    def evaluate(
        self, attrs: NoAttrs, inputs: Arrays, input_types: Types, output_types: Types
    ) -> tuple[Array, ...]:
        """Products are added in the order of K, from zero; of stored integers exactly in float64,
        below 2**53."""
        if input_types[0].quant is not None:
            left, right = (centred(v, t) for v, t in zip(inputs, input_types, strict=True))
            return ((left @ right).astype(output_types[0].dtype),)
        if inputs[0].dtype != np.float32:
            return super().evaluate(attrs, inputs, input_types, output_types)
        *batch, rows, columns = output_types[0].shape
        x, y = (np.broadcast_to(v, (*batch, *v.shape[-2:])) for v in inputs)
        result = np.empty((*batch, rows, columns), np.float32)
        start = np.zeros(columns, np.float32)
        for at in np.ndindex(*batch):
            result[at] = ordered_products(x[at], y[at].T, start)
        return (result,)

    def macs(self, attrs: NoAttrs, inputs: Types) -> int:
        """Elements of the output times K."""
        (output,) = self.infer(attrs, *inputs)
        return output.elements * inputs[0].shape[-1]

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One accumulation per output."""
        x, y = operand_tensors(target, inputs)
        dtype = node.output.type.dtype
        first_zero, second_zero = (
            0 if type_.quant is None else -type_.quant.zero_point[0] for type_ in node.input_types
        )

        def update(acc: Any, *at: Any) -> Any:
            *batch, row, column, k = at
            first = broadcast_index(x.shape[:-2], tuple(batch))
            second = broadcast_index(y.shape[:-2], tuple(batch))
            left = widened(x[(*first, row, k)], acc, first_zero)
            return acc + left * widened(y[(*second, k, column)], acc, second_zero)

        return target.reduce(
            "acc",
            node.output.type.shape,
            dtype,
            [("k", 0, x.shape[-1])],
            init=lambda *at: 0,
            update=update,
        )

    def interval(
        self, attrs: NoAttrs, operands: Sequence[Operand], output: TensorType
    ) -> Interval | None:
        """K times the largest product of stored integers."""
        if any(operand.type.quant is None for operand in operands):
            return None
        reach = operands[0].type.shape[-1]
        for operand in operands:
            info, zero_point = np.iinfo(operand.type.dtype), operand.type.scalar_quant()[1]
            reach *= max(int(info.max) - zero_point, zero_point - int(info.min))
        ends = np.full(output.shape[-1], reach, np.int64)
        return -ends, ends

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
    if () in (x.type.shape, y.type.shape):
        raise ImportFailed(f"the product of {list(x.type.shape)} and {list(y.type.shape)}")
    operands = [
        _as_matrix(builder, raw, x, (1, *x.type.shape)),
        _as_matrix(builder, raw, y, (*y.type.shape, 1)),
    ]
    if operands == [x, y]:
        return builder.op("matmul", operands, name=raw.name)
    product = builder.op("matmul", operands, name=f"{raw.name}/matrix", sources=(raw.name,))
    *batch, rows, columns = product.type.shape
    sides = zip((rows, columns), operands, (x, y), strict=True)
    shape = (*batch, *(extent for extent, matrix, given in sides if matrix is given))
    return builder.op("reshape", [product], ReshapeAttrs(shape), name=raw.name)


def _as_matrix(builder: GraphBuilder, raw: RawNode, value: Value, shape: tuple[int, ...]) -> Value:
    """A vector as a matrix of this shape; other values unchanged."""
    if len(value.type.shape) != 1:
        return value
    attrs = ReshapeAttrs(shape)
    return builder.op(
        "reshape", [value], attrs, name=f"{raw.name}/{value.name}", sources=(raw.name,)
    )


@from_tflite("BATCH_MATMUL")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite BATCH_MATMUL of floats, int8 or int16; adjoint operands are transposed first.

    Sums of stored integers are requantized: of int8 in 32 bits, of int16 in 64.
    """
    operands = []
    for value, key in zip(raw.operands(2), ("adj_x", "adj_y"), strict=True):
        if value.type.dtype != "float32" and value.type.quant is None:
            raise ImportFailed(f"{value.type}: only float32, or integers with a scale")
        rank = len(value.type.shape)
        if raw.attribute(key, False) and rank >= 2:
            order = (*range(rank - 2), rank - 1, rank - 2)
            value = transposed(builder, value, order, f"{raw.name}/{value.name}.{key}")
        operands.append(value)
    if operands[0].type.quant is None:
        return builder.op("matmul", operands, name=raw.name)
    sums = builder.op("matmul", operands, name=f"{raw.name}/sums", sources=(raw.name,))
    declared = raw.declared()
    info, (output, _) = np.iinfo(declared.dtype), declared.scalar_quant()
    factor = math.prod(value.type.scalar_quant()[0] for value in operands) / output
    assert declared.quant is not None  # it has a scale
    rounding: Rounding = "tflm" if sums.type.dtype == "int32" else "tflm16"
    attrs = RequantizeAttrs((factor,), declared.quant, int(info.min), int(info.max), rounding,
                            declared.dtype)  # fmt: skip
    return builder.op("requantize", [sums], attrs, name=raw.name)
