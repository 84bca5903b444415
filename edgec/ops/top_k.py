"""top_k: the largest or smallest elements along an axis, in order, and where they stood.

Equal elements come in the order of their indices.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node
from edgec.graph.ir import Value as GraphValue
from edgec.graph.operator import Fusion, register
from edgec.graph.traits import IntegerForm
from edgec.graph.types import Array, Arrays, TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import cast
from edgec.numerics.narrow_float import STORED_IN
from edgec.ops.broadcast import operand_tensors
from edgec.ops.cast import write_indices
from edgec.ops.fill_beyond import filled
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.op import Op, RawNode, axis_of, from_onnx, from_tflite
from edgec.ops.reductions import BY_NAME
from edgec.ops.row_order import RowOrder, merge_levels, most_picked
from edgec.ops.slice_at import limited_count


@dataclass(frozen=True)
class TopKAttrs:
    """axis: not negative. count: how many. largest: or the smallest. dtype: of the indices."""

    axis: int
    count: int
    largest: bool = True
    dtype: str = "int64"


@register
class TopK(Op[TopKAttrs]):
    """Orders stored numbers, without NaNs: the elements in order, and their indices."""

    name = "top_k"
    attrs_class = TopKAttrs
    fusion = Fusion.OPAQUE
    integer_form = IntegerForm.ORDER

    def whole_axes(self, attrs: TopKAttrs, inputs: Types, position: int) -> Collection[int]:
        """The axis that is put in order."""
        return (attrs.axis,)

    def infer(self, attrs: TopKAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The count in place of the axis."""
        (x,) = inputs
        if not 0 <= attrs.axis < len(x.shape) or attrs.dtype not in ("int32", "int64"):
            raise TypeMismatch(f"top_k along axis {attrs.axis} of {x} to {attrs.dtype}")
        if not 0 <= attrs.count <= x.shape[attrs.axis]:
            raise TypeMismatch(f"top_k: {attrs.count} of {x.shape[attrs.axis]} elements")
        if x.dtype in STORED_IN or (x.quant is not None and not x.quant.per_tensor):
            raise TypeMismatch(f"top_k of {x}: it needs numbers that C has, of one scale")
        shape = (*x.shape[: attrs.axis], attrs.count, *x.shape[attrs.axis + 1 :])
        return (x.with_shape(shape), TensorType(shape, attrs.dtype))

    def evaluate(
        self, attrs: TopKAttrs, inputs: Arrays, input_types: Types, output_types: Types
    ) -> tuple[Array, ...]:
        """NumPy sorts the rows. Where a row with NaNs is merged, the loops compute its order."""
        (x,) = inputs
        is_merged = attrs.count > most_picked(x.shape[attrs.axis])
        if is_merged and (x != x).any():
            return super().evaluate(attrs, inputs, input_types, output_types)
        indices = _first_indices(np.moveaxis(x, attrs.axis, -1), attrs.count, attrs.largest)
        indices = np.moveaxis(indices, -1, attrs.axis)
        return np.take_along_axis(x, indices, attrs.axis), indices.astype(attrs.dtype)

    def steps(self, attrs: TopKAttrs, inputs: Types) -> int:
        """The steps of a merge of rows with a NaN: a bisection at each level, on whole arrays."""
        levels = merge_levels(inputs[0].shape[attrs.axis])
        return levels * (levels + 1) // 2 * (4 + inputs[0].elements // 1024)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """A few are picked one after the other; of many, the whole row is merged in order."""
        attrs: TopKAttrs = node.attrs
        (x,) = operand_tensors(target, inputs)
        rows = RowOrder(target, x, attrs.axis, attrs.largest)
        values, indices = target.targets
        if attrs.count <= most_picked(rows.extent):
            rows.pick(attrs.count, values, indices)
            return values
        order = rows.merged()
        target.definition.compute(values, lambda *at: rows.read(at, order[at]))
        target.definition.compute(indices, lambda *at: cast(order[at], attrs.dtype))
        return values

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """TopK."""
        attrs: TopKAttrs = node.attrs
        count = out.initializer(f"{node.outputs[0].name}.k", np.asarray([attrs.count], np.int64))
        write_indices(out, "TopK", [out.own(node.inputs[0]), count], node, axis=attrs.axis,
                     largest=int(attrs.largest))  # fmt: skip


def _first_indices(x: Array, count: int, largest: bool) -> Array:
    """Indices of the first `count` elements in the order of each row of x [..., n].

    A NaN is never one of them. After the last number a search finds none, which reads the first
    element, and the next one starts anew.
    """
    is_nan = x != x
    backwards = x[..., ::-1]
    order = x.shape[-1] - 1 - np.argsort(backwards, axis=-1, kind="stable")[..., ::-1]
    order = order if largest else np.argsort(x, axis=-1, kind="stable")
    numbers = np.argsort(np.take_along_axis(is_nan, order, -1), axis=-1, kind="stable")
    order = np.take_along_axis(order, numbers, -1)
    found = x.shape[-1] - is_nan.sum(axis=-1, keepdims=True)
    at = np.arange(count) % (found + 1)
    return np.where(at < found, np.take_along_axis(order, np.minimum(at, x.shape[-1] - 1), -1), 0)


@from_onnx("TopK")
def import_old_topk(builder: GraphBuilder, raw: RawNode) -> tuple[GraphValue, ...]:
    """ONNX TopK up to opset 9, whose count is an attribute."""
    x = raw.operand(0)
    axis = axis_of(int(raw.attribute("axis", -1)), len(x.type.shape))
    return builder.node("top_k", [x], TopKAttrs(axis, int(raw.attribute("k", 0))),
                        name=raw.name).outputs  # fmt: skip


@from_onnx("TopK", since=10)
def import_onnx(builder: GraphBuilder, raw: RawNode) -> tuple[GraphValue, ...]:
    """ONNX TopK, always sorted.

    If the count is computed, or the number of elements depends on data, the smaller of both is in
    use. (ONNX Runtime refuses a count that is larger.)
    """
    x, count = raw.operands(2)
    axis = axis_of(int(raw.attribute("axis", -1)), len(x.type.shape))
    extent, largest = x.type.shape[axis], bool(raw.attribute("largest", 1))
    known = int(count.data.reshape(-1)[0]) if isinstance(count, Constant) else extent
    worst = BY_NAME["max" if largest else "min"].neutral(x.type.dtype)
    whole = filled(builder, raw, [axis], worst).operand(0)
    outputs = builder.node("top_k", [whole], TopKAttrs(axis, known, largest), name=raw.name).outputs
    number = _in_use(builder, raw, axis, known)
    if number is not None:
        for value in outputs:
            builder.open(value, axis, number)
    return outputs


def _in_use(builder: GraphBuilder, raw: RawNode, axis: int, most: int) -> GraphValue | None:
    """Number of results in use; None: all."""
    x, count = raw.operands(2)
    there_are = builder.open_axes.get(x, {}).get(axis)
    if not isinstance(count, Constant):
        limits = [count] if there_are is None else [count, there_are]
        return limited_count(builder, limits, most, raw.name)
    if there_are is None or most == x.type.shape[axis]:
        return there_are
    return limited_count(builder, [there_are], most, raw.name)


@from_tflite("TOPK_V2")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> tuple[GraphValue, ...]:
    """TFLite TOPK_V2 of a constant count, along the last axis."""
    x = raw.operand(0)
    count = int(raw.constant(1, "the count").data.reshape(-1)[0])
    attrs = TopKAttrs(len(x.type.shape) - 1, count, dtype="int32")
    return builder.node("top_k", [x], attrs, name=raw.name).outputs
