"""transpose: axis i of the result is axis permutation[i] of the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import register
from edgec.graph.traits import IntegerForm, Movement
from edgec.graph.types import TensorType
from edgec.loop.define import Tensor
from edgec.ops.moved import Moved
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.op import RawNode, from_onnx, from_tflite

Item = TypeVar("Item")


@dataclass(frozen=True)
class TransposeAttrs:
    """permutation: for each axis of the result, the axis of the input."""

    permutation: tuple[int, ...]


def in_order(listed: Sequence[Item], order: Sequence[int]) -> tuple[Item, ...]:
    """Reorder a list from the axes of transpose(x) to the axes of x."""
    return tuple(listed[order.index(axis)] for axis in range(len(order)))


@register
class Transpose(Moved[TransposeAttrs]):
    """Moves elements; quantization follows its axis."""

    name = "transpose"
    attrs_class = TransposeAttrs
    movement = Movement.PERMUTE
    integer_form = IntegerForm.SHARED

    def infer(self, attrs: TransposeAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The permuted shape."""
        (x,) = inputs
        permutation = attrs.permutation
        if sorted(permutation) != list(range(len(x.shape))):
            raise TypeMismatch(f"permutation {permutation} does not fit {x}")
        quant = x.quant
        if quant is not None and quant.axis is not None:
            quant = quant.with_axis(permutation.index(quant.axis))
        shape = tuple(x.shape[axis] for axis in permutation)
        return (TensorType(shape, x.dtype, quant),)

    def source(self, attrs: TransposeAttrs, at: tuple[Any, ...], x: Tensor, *others: Tensor) -> Any:
        """Permuted indices."""
        return in_order(at, attrs.permutation)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """Transpose."""
        order = node.attrs.permutation
        out.emit("Transpose", [out.own(node.inputs[0])], out.define_own(node.output), perm=order)


def transposed(
    builder: GraphBuilder, value: Value, permutation: tuple[int, ...], name: str
) -> Value:
    """Append a transpose of a value; its provenance follows."""
    origin = value.origin.transposed(permutation) if value.origin else None
    return builder.op(
        "transpose", [value], TransposeAttrs(permutation), name=name, origins=[origin]
    )


def dequantized(builder: GraphBuilder, value: Value) -> Node | None:
    """The node that dequantizes a constant to this value, None if none does."""
    for node in reversed(builder.nodes):
        if value in node.outputs:
            is_constant = node.op.name == "dequantize" and isinstance(node.inputs[0], Constant)
            return node if is_constant else None
    return None


@from_tflite("TRANSPOSE")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite TRANSPOSE by a constant permutation."""
    x, permutation = raw.operands(2)
    if not isinstance(permutation, Constant) or permutation.type.is_float:
        raise ImportFailed("the permutation must be constant integers")
    rank = len(x.type.shape)
    axes = tuple(int(axis) % rank for axis in permutation.data.reshape(-1))
    return builder.op("transpose", [x], TransposeAttrs(axes), name=raw.name)


@from_onnx("Transpose")
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Transpose; without `perm` it reverses the axes.

    Dequantized weights are transposed as stored integers.
    """
    (x,) = raw.operands(1)
    attrs = TransposeAttrs(tuple(raw.attribute("perm", tuple(reversed(range(len(x.type.shape)))))))
    node = dequantized(builder, x)
    if node is None:
        return builder.op("transpose", [x], attrs, name=raw.name)
    (stored,) = node.inputs
    assert isinstance(stored, Constant)
    (type_,) = Transpose().infer(attrs, stored.type)
    data = np.transpose(stored.data, attrs.permutation).copy()
    moved = builder.constant(f"{stored.name}.transposed", data, type_.quant)
    return builder.op("dequantize", [moved], name=raw.name)
