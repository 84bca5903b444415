"""gather: the elements along one axis whose indices a constant names."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import register
from edgec.graph.traits import IntegerForm, Movement
from edgec.graph.types import TensorType
from edgec.loop.define import Tensor
from edgec.loop.values import int32
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.op import RawNode, axis_of, from_onnx, from_tflite
from edgec.ops.parts import Parts
from edgec.ops.scattered import AxisAttrs, GatherAt, PicksRows


@register
class Gather(PicksRows):
    """data of any dtype, indices int32 within the axis; quantization per tensor stays."""

    name = "gather"
    attrs_class = AxisAttrs
    movement = Movement.PICK
    integer_form = IntegerForm.SHARED
    steering = (1,)

    def shape(self, attrs: AxisAttrs, x: TensorType, *others: TensorType) -> tuple[int, ...]:
        """The data's shape with the indices' shape in place of the axis."""
        if others[0].dtype != "int32":
            raise TypeMismatch(f"gather by {others[0].dtype} indices: they must be int32")
        return GatherAt().picked(attrs.axis, x, others[0])

    def source(self, attrs: AxisAttrs, at: tuple[Any, ...], x: Tensor, *others: Tensor) -> Any:
        """The index comes from the table."""
        first, last = attrs.axis, attrs.axis + len(others[0].shape)
        return (*at[:first], int32(others[0][at[first:last]]), *at[last:])

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
    axis = axis_of(axis, len(x.type.shape))
    if not isinstance(indices, Constant):
        return builder.op("gather_at", [x, indices], AxisAttrs(axis),
                          name=raw.name)  # fmt: skip
    if indices.type.is_float:
        raise ImportFailed("the indices must be integers")
    extent = x.type.shape[axis]
    found = indices.data.astype(np.int64)
    if ((found < -extent) | (found >= extent)).any():
        raise ImportFailed(f"an index leaves the {extent} elements of axis {axis}")
    positive = np.where(found < 0, found + extent, found).astype(np.int32)
    table = builder.constant(f"{raw.name}.indices", positive)
    return builder.op("gather", [x, table], AxisAttrs(axis), name=raw.name)


@from_tflite("GATHER")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite GATHER, by batch where it says so."""
    if raw.attribute("batch_dims", 0):
        return _gathered_by_batch(builder, raw)
    return _gathered(builder, raw, raw.attribute("axis"))


def _gathered_by_batch(builder: GraphBuilder, raw: RawNode) -> Value:
    """The first axes of data and indices are the same; the axis is moved after these and back."""
    x, indices = raw.operands(2)
    parts, rank, count = Parts(builder, raw), len(x.type.shape), len(indices.type.shape)
    axis, batch = axis_of(raw.attribute("axis"), rank), axis_of(raw.attribute("batch_dims"), count)
    order = (*range(batch), axis, *(n for n in range(batch, rank) if n != axis))
    moved = parts.moved(x, order, "moved") if axis != batch else x
    tuples = parts.reshaped(parts.as_indices(indices), (*indices.type.shape, 1), "tuples")
    made = parts.op("gather_nd", [moved, tuples], AxisAttrs(batch), "elements")
    between = range(count, count + axis - batch)
    rest = range(count + axis - batch, len(made.type.shape))
    back = (*range(batch), *between, *range(batch, count), *rest)
    return parts.last(parts.moved(made, back, "back") if between else made)


@from_onnx("Gather")
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Gather by any indices."""
    return _gathered(builder, raw, int(raw.attribute("axis", 0)))
