"""gather: the elements along one axis whose indices a constant names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, register
from edgec.graph.traits import IntegerForm, Movement
from edgec.graph.types import TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import int32
from edgec.ops.broadcast import operand_tensors
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.op import Op, RawNode, from_onnx, from_tflite
from edgec.ops.scattered import AxisAttrs


@dataclass(frozen=True)
class GatherAttrs:
    """axis: of the data, not negative; the axes of the indices take its place."""

    axis: int


@register
class Gather(Op[GatherAttrs]):
    """data of any dtype, indices int32 within the axis; quantization per tensor stays."""

    name = "gather"
    attrs_class = GatherAttrs
    fusion = Fusion.INJECTIVE
    movement = Movement.PICK
    integer_form = IntegerForm.SHARED

    def infer(self, attrs: GatherAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The data's shape with the indices' shape in place of the axis."""
        x, indices = inputs
        if indices.dtype != "int32":
            raise TypeMismatch(f"gather by {indices.dtype} indices: they must be int32")
        if not 0 <= attrs.axis < len(x.shape):
            raise TypeMismatch(f"gather along axis {attrs.axis} of {x}")
        if x.quant is not None and not x.quant.per_tensor:
            raise TypeMismatch("gather of a tensor that is quantized along an axis")
        shape = (*x.shape[: attrs.axis], *indices.shape, *x.shape[attrs.axis + 1 :])
        return (x.with_shape(shape),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """A copy; the index comes from the table."""
        axis = node.attrs.axis
        x, indices = operand_tensors(target, inputs)
        rank = len(indices.shape)

        def element(*at: Any) -> Any:
            chosen = int32(indices[at[axis : axis + rank]])
            return x[(*at[:axis], chosen, *at[axis + rank :])]

        return target.compute("element", node.output.type.shape, node.output.type.dtype, element)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """Gather, by constants."""
        x, indices = node.inputs
        if not isinstance(indices, Constant):
            raise ImportFailed(f"{node.name}: gathering by computed indices has no ONNX form yet")
        names = [out.own(x), out.own(indices)]
        out.emit("Gather", names, out.define_own(node.output), axis=node.attrs.axis)


def _gathered(builder: GraphBuilder, raw: RawNode, axis: int) -> Value:
    """Append a gather by constant or computed indices; negative ones count from the end."""
    x, indices = raw.operands(2)
    if not -len(x.type.shape) <= axis < len(x.type.shape):
        raise ImportFailed(f"axis {axis} of rank {len(x.type.shape)}")
    if not isinstance(indices, Constant):
        return builder.op("gather_at", [x, indices], AxisAttrs(axis % len(x.type.shape)),
                          name=raw.name)  # fmt: skip
    if indices.type.is_float:
        raise ImportFailed("the indices must be integers")
    axis %= len(x.type.shape)
    extent = x.type.shape[axis]
    found = indices.data.astype(np.int64)
    if ((found < -extent) | (found >= extent)).any():
        raise ImportFailed(f"an index leaves the {extent} elements of axis {axis}")
    positive = np.where(found < 0, found + extent, found).astype(np.int32)
    table = builder.constant(f"{raw.name}.indices", positive)
    return builder.op("gather", [x, table], GatherAttrs(axis), name=raw.name)


@from_tflite("GATHER")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite GATHER without batch dimensions."""
    if raw.attribute("batch_dims", 0):
        raise ImportFailed("batch dimensions are not supported")
    return _gathered(builder, raw, raw.attribute("axis"))


@from_onnx("Gather")
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Gather by any indices."""
    return _gathered(builder, raw, int(raw.attribute("axis", 0)))
