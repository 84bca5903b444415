"""slice_at, update_slice: a part of a tensor whose start is computed, read or replaced.

The part lies inside the tensor: a start is limited so that it does, as TFLite does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, NoAttrs, register
from edgec.graph.traits import IntegerForm, Movement
from edgec.graph.types import TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value as Element
from edgec.loop.values import index, int32, maximum, minimum, select
from edgec.ops.broadcast import operand_tensors
from edgec.ops.cast import CastAttrs
from edgec.ops.concat import ConcatAttrs
from edgec.ops.moved import Moved
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.op import NotConstant, Op, RawNode, from_tflite
from edgec.ops.reshape import ReshapeAttrs

#: TensorProto.INT64
ONNX_INT64 = 7


@dataclass(frozen=True)
class SliceAtAttrs:
    """shape: of the part."""

    shape: tuple[int, ...]


def _require_starts(name: str, whole: TensorType, part: Sequence[int], starts: TensorType) -> None:
    if starts.dtype not in ("int32", "int64") or len(starts.shape) != 1:
        raise TypeMismatch(f"{name}: the starts are {starts}, not a list of int32 or int64")
    fits = len(part) == len(whole.shape) and all(
        0 < count <= extent for count, extent in zip(part, whole.shape, strict=True)
    )
    if not fits or starts.shape[0] > len(part):
        raise TypeMismatch(f"{name}: a part {list(part)} of {whole} from {starts.shape[0]} starts")
    if whole.quant is not None and not whole.quant.per_tensor:
        raise TypeMismatch(f"{name} of a tensor that is quantized along an axis")


def _starts(starts: Tensor, whole: Sequence[int], part: Sequence[int]) -> list[Element | int]:
    """Start of the part along each axis; 0 along axes that have no start."""
    found: list[Element | int] = []
    for axis, (extent, count) in enumerate(zip(whole, part, strict=True)):
        if axis < starts.shape[0] and count < extent:
            found.append(minimum(maximum(int32(starts[axis]), 0), extent - count))
        else:
            found.append(0)
    return found


@register
class SliceAt(Moved[SliceAtAttrs]):
    """slice_at(x, starts): the part of a known shape; starts of the first axes, 0 for others."""

    name = "slice_at"
    attrs_class = SliceAtAttrs
    fusion = Fusion.OPAQUE
    movement = Movement.PICK
    integer_form = IntegerForm.SHARED
    steering = (1,)

    def shape(self, attrs: SliceAtAttrs, x: TensorType, *others: TensorType) -> tuple[int, ...]:
        """The part's."""
        _require_starts(self.name, x, attrs.shape, others[0])
        return attrs.shape

    def source(self, attrs: SliceAtAttrs, at: tuple[Any, ...], x: Tensor, *others: Tensor) -> Any:
        """Indices shifted by the starts."""
        starts = _starts(others[0], x.shape, attrs.shape)
        return tuple(_shifted(i, start) for i, start in zip(at, starts, strict=True))

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """A Slice along each axis, from a start that is limited as here."""
        (x, starts), taken = node.inputs, out.own(node.inputs[0])
        output = out.define_own(node.output)
        cuts = [axis for axis in range(starts.type.shape[0])
                if node.attrs.shape[axis] < x.type.shape[axis]]  # fmt: skip
        for axis in cuts:
            count, name = node.attrs.shape[axis], f"{output}.{axis}"
            most = x.type.shape[axis] - count

            def number(what: str, value: int, dtype: str, name: str = name) -> str:
                return out.initializer(f"{name}.{what}", np.asarray([value], dtype))

            def made(kind: str, what: str, *inputs: str, name: str = name) -> str:
                out.emit(kind, inputs, result := out.fresh(f"{name}.{what}"))
                return result

            dtype = starts.type.dtype
            start = made("Gather", "start", out.own(starts), number("offset", axis, "int64"))
            start = made("Max", "least", start, number("zero", 0, dtype))
            start = made("Min", "most", start, number("last", most, dtype))
            end = made("Add", "end", start, number("count", count, dtype))
            taken = made("Slice", "part", taken, start, end, number("axis", axis, dtype))
        out.emit("Identity", [taken], output)


@register
class UpdateSlice(Op[NoAttrs]):
    """update_slice(x, part, starts): x with the part written over its elements."""

    name = "update_slice"
    fusion = Fusion.OPAQUE
    integer_form = IntegerForm.SHARED
    steering = (2,)
    reads_alike = True

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The type of x."""
        x, part, starts = inputs
        _require_starts(self.name, x, part.shape, starts)
        if (part.dtype, part.quant) != (x.dtype, x.quant):
            raise TypeMismatch(f"update_slice of {x} by {part}: other elements")
        return (x,)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Element by element, of the part or of x."""
        x, part, starts = operand_tensors(target, inputs)

        def element(*at: Any) -> Any:
            inside: Element | None = None
            indices: list[Any] = []
            for i, start, count, extent in zip(
                at, _starts(starts, x.shape, part.shape), part.shape, x.shape, strict=True
            ):
                if count == extent:
                    indices.append(i)
                    continue
                offset = index(i) - start
                here = (offset >= 0) & (offset < count)
                inside = here if inside is None else inside & here
                indices.append(minimum(maximum(offset, 0), count - 1))
            chosen = part[tuple(indices)]
            return chosen if inside is None else select(inside, chosen, x[at])

        output = node.output.type
        return target.compute("element", output.shape, output.dtype, element)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """ScatterND, along the axes up to the last one that the part does not fill."""
        x, part, starts = node.inputs
        given, output = [out.own(value) for value in node.inputs], out.define_own(node.output)
        counts, dtype = part.type.shape, starts.type.dtype
        room = np.subtract(x.type.shape, counts)
        axes = int(np.flatnonzero(room).max(initial=-1)) + 1
        if not axes:
            out.emit("Identity", [given[1]], output)
            return

        def made(kind: str, what: str, *inputs: str, **attributes: Any) -> str:
            out.emit(kind, inputs, result := out.fresh(f"{output}.{what}"), **attributes)
            return result

        def constant(what: str, data: Any, dtype: str = "int64") -> str:
            return out.initializer(f"{output}.{what}", np.asarray(data, dtype))

        zeros = constant("zeros", np.zeros(max(axes - starts.type.shape[0], 0)), dtype)
        first = made("Concat", "all", given[2], zeros, axis=0)
        first = made("Slice", "starts", first, constant("none", [0]), constant("axes", [axes]))
        first = made("Max", "least", first, constant("zero", [0], dtype))
        first = made("Min", "most", first, constant("room", room[:axes], dtype))
        first = made("Cast", "int64", first, to=ONNX_INT64)
        offsets = np.moveaxis(np.indices(counts[:axes]), 0, -1)
        indices = made("Add", "indices", constant("offsets", offsets), first)
        out.emit("ScatterND", [given[0], indices, given[1]], output)


def _shifted(offset: Any, start: Element | int) -> Any:
    return index(offset) + start if isinstance(start, Element) else offset


def computed_slice(builder: GraphBuilder, raw: RawNode, axis: int) -> Value:
    """A slice along one axis from a computed start to an end at a known distance.

    The end must be the start and a constant, as in x[i : i + 3]. The part lies inside of x: one
    that would leave it is moved. Raises NotConstant where the distance is not known.
    """
    x, start, end = (raw.operand(position) for position in range(3))
    (start_root, first), (end_root, last) = (_root(builder, value) for value in (start, end))
    count = last - first
    axis %= len(x.type.shape)
    extent = x.type.shape[axis]
    if start_root is not end_root or start.type.elements != 1 or not 0 < count <= extent:
        raise NotConstant("how many elements it takes is computed", start)
    starts = builder.op("reshape", [start], ReshapeAttrs((1,)), name=f"{raw.name}/start")
    if axis:
        zeros = builder.constant(f"{raw.name}.zeros", np.zeros(axis, start.type.dtype))
        starts = builder.op("concat", [zeros, starts], ConcatAttrs(0), name=f"{raw.name}/starts")
    shape = (*x.type.shape[:axis], count, *x.type.shape[axis + 1 :])
    return builder.op(SliceAt, [x, starts], SliceAtAttrs(shape), name=raw.name)


def first_parts(builder: GraphBuilder, raw: RawNode, axis: int) -> Value:
    """A slice x[:end] to a computed end: all of x, whose used length is the end.

    An end below 0 counts from the last part. Raises NotConstant for another start.
    """
    x, start, end = raw.operand(0), raw.constant(1, "starts"), raw.operand(2)
    axis %= len(x.type.shape)
    name, extent = f"{raw.name}/count", x.type.shape[axis]
    there_are = builder.open_axes.get(x, {}).get(axis, extent)
    if start.data.any() or end.type.elements != 1:
        raise NotConstant("how many elements it takes is computed", end)
    last, whole, zero = (_counted(builder, each, name) for each in (end, there_are, 0))
    is_back = builder.op("less", [last, zero], name=name, sources=())
    back = builder.op("int_add", [last, whole], name=name, sources=())
    count = builder.op("where", [is_back, back, last], name=name, sources=())
    part = builder.op("reshape", [x], ReshapeAttrs(x.type.shape), name=raw.name)
    builder.open(part, axis, limited_count(builder, [count, whole], extent, raw.name))
    return part


def _counted(builder: GraphBuilder, count: Value | int, name: str) -> Value:
    if isinstance(count, int):
        return builder.constant(f"{name}.{count}", np.full(1, count, "int64"))
    one = builder.op("reshape", [count], ReshapeAttrs((1,)), name=name, sources=())
    if one.type.dtype == "int64":
        return one
    return builder.op("cast", [one], CastAttrs("int64"), name=name, sources=())


def limited_count(builder: GraphBuilder, counts: Sequence[Value], most: int, name: str) -> Value:
    """The least of some counts as one int32 from 0 to `most`."""
    name = f"{name}/count"
    least = _counted(builder, most, name)
    for count in counts:
        least = builder.op(
            "minimum", [_counted(builder, count, name), least], name=name, sources=()
        )
    least = builder.op("maximum", [least, _counted(builder, 0, name)], name=name, sources=())
    return builder.op("cast", [least], CastAttrs("int32"), name=name, sources=())


def _root(builder: GraphBuilder, value: Value) -> tuple[Value, int]:
    """(value, constant): the summands of an integer, found through int_add and views."""
    total = 0
    for node in reversed(builder.nodes):
        if value not in node.outputs:
            continue
        constants = [v for v in node.inputs if isinstance(v, Constant) and v.type.elements == 1]
        if node.op.name == "int_add" and constants:
            (value,) = node.activations
            total += int(constants[0].data.item())
        elif node.op.fusion is Fusion.VIEW:
            (value,) = node.activations
    return value, total


@from_tflite("DYNAMIC_UPDATE_SLICE")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite DYNAMIC_UPDATE_SLICE."""
    return builder.op(UpdateSlice, raw.operands(3), name=raw.name)
