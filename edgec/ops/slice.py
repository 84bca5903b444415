"""slice: every stride-th element along each axis, from a beginning on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import register
from edgec.graph.traits import IntegerForm, Movement
from edgec.graph.types import TensorType, Types
from edgec.loop.define import Tensor
from edgec.ops.fill_beyond import is_open
from edgec.ops.moved import Moved
from edgec.ops.onnx_graph import OnnxGraph, written_list
from edgec.ops.op import NotConstant, RawNode, axis_of, from_onnx, from_tflite
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.slice_at import SliceAt, SliceAtAttrs, computed_slice, first_parts
from edgec.ops.transpose import in_order


@dataclass(frozen=True)
class SliceAttrs:
    """The first index, the step (negative: backwards), and the count, for each axis.

    moves: for axes of open size, the attribute that changes with it: `begin`, `count`, or
    `attrs_at`'s default (an empty word, or no words).
    """

    begin: tuple[int, ...]
    stride: tuple[int, ...]
    shape: tuple[int, ...]
    moves: tuple[str, ...] = ()


@register
class Slice(Moved[SliceAttrs]):
    """Moves elements of any dtype; quantization per tensor stays."""

    name = "slice"
    attrs_class = SliceAttrs
    movement = Movement.PART
    integer_form = IntegerForm.SHARED

    def attrs_at(self, attrs: SliceAttrs, largest: Types, inputs: Types) -> SliceAttrs:
        """Axes that are taken up to their end still are, unless `moves` says something else."""
        moves = attrs.moves or ("",) * len(attrs.begin)
        axes = zip(attrs.begin, attrs.stride, attrs.shape, moves, largest[0].shape,
                   inputs[0].shape, strict=True)  # fmt: skip
        found = [_part_at(*axis) for axis in axes]
        begin, shape = zip(*found, strict=True) if found else ((), ())
        return replace(attrs, begin=begin, shape=shape)

    def attrs_of_two(
        self, attrs: SliceAttrs, other: SliceAttrs, largest: Types, inputs: Types
    ) -> SliceAttrs:
        """Which attribute varies along each axis ("begin" or "count"), from this slice and another
        one.
        """
        moves = []
        for axis, (begin, now) in enumerate(zip(attrs.begin, other.begin, strict=True)):
            count, few = attrs.shape[axis], other.shape[axis]
            is_moved, is_counted = begin != now, count != few
            moves.append("" if is_moved == is_counted else "begin" if is_moved else "count")
        return replace(attrs, moves=tuple(moves) if any(moves) else ())

    def shape(self, attrs: SliceAttrs, x: TensorType, *others: TensorType) -> tuple[int, ...]:
        """The shape in the attributes; TypeMismatch where an index leaves the input."""
        if not len(attrs.begin) == len(attrs.stride) == len(attrs.shape) == len(x.shape):
            raise TypeMismatch(f"slice with {len(attrs.begin)} axes of {x}")
        for extent, begin, stride, count in zip(
            x.shape, attrs.begin, attrs.stride, attrs.shape, strict=True
        ):
            if not stride or not _is_inside(extent, begin, stride, count):
                raise TypeMismatch(
                    f"slice of {count} elements from {begin} by {stride} of {extent}"
                )
        return attrs.shape

    def source(self, attrs: SliceAttrs, at: tuple[Any, ...], x: Tensor, *others: Tensor) -> Any:
        """Indices multiplied and shifted."""
        axes = zip(at, attrs.stride, attrs.begin, strict=True)
        return tuple(i * stride + begin for i, stride, begin in axes)

    def axis_after(
        self, attrs: SliceAttrs, inputs: Types, position: int, axis: int, result: TensorType
    ) -> int | None:
        """The axis, if the slice takes it whole."""
        is_whole = (attrs.begin[axis], attrs.stride[axis]) == (0, 1)
        return axis if is_whole and attrs.shape[axis] == inputs[0].shape[axis] else None

    def attrs_for_permutation(self, attrs: SliceAttrs, order: Sequence[int]) -> SliceAttrs:
        """Places and extents by the axes of x."""
        listed = (attrs.begin, attrs.stride, attrs.shape)
        begin, stride, shape = (in_order(each, order) for each in listed)
        moves = in_order(attrs.moves, order) if attrs.moves else ()
        return SliceAttrs(begin, stride, shape, moves)

    def attrs_for_samples(self, attrs: SliceAttrs, count: int) -> SliceAttrs:
        """A first axis of one sample gets all samples."""
        if attrs.shape[0] != 1:
            return attrs
        return replace(attrs, shape=(count, *attrs.shape[1:]))

    def does_nothing(self, attrs: SliceAttrs) -> bool:
        """All elements; backwards it would begin at the end."""
        return not any(attrs.begin)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """Slice."""
        inputs, output, first = out.tensors_of(node)
        listed = (node.attrs.begin, node.attrs.stride, node.attrs.shape)
        begin, stride, shape = (written_list(values, first) for values in listed)
        # Backwards, an end before the first element is a very negative number.
        ends = [
            b + s * n if s > 0 or b + s * n >= 0 else np.iinfo(np.int64).min
            for b, s, n in zip(begin, stride, shape, strict=True)
        ]
        ranges = [
            out.initializer(f"{output}.{name}", np.asarray(values, np.int64))
            for name, values in (
                ("starts", begin), ("ends", ends), ("axes", range(len(begin))), ("steps", stride),
            )
        ]  # fmt: skip
        out.emit("Slice", [*inputs, *ranges], output)


def _part_at(
    begin: int, stride: int, count: int, moves: str, extent: int, now: int
) -> tuple[int, int]:
    """(begin, count) along an axis of the extent `now`, from begin and count along `extent`."""
    if moves == "begin":
        return begin + now - extent, count
    if stride < 0:
        is_whole = (begin, stride, count) == (extent - 1, -1, extent)
        return (now - 1, now) if is_whole else (begin, count)
    whole = -(-(extent - begin) // stride)
    if moves == "count" or count == whole:
        rest = 0 if count == whole else extent - begin - count * stride
        return begin, -(-(now - begin - rest) // stride)
    return begin, count


def _is_inside(extent: int, begin: int, stride: int, count: int) -> bool:
    """Whether all elements of a slice are; it may have none."""
    ends = (begin, begin + (count - 1) * stride) if count else ()
    return count >= 0 and all(0 <= end < extent for end in ends)


def sliced(
    builder: GraphBuilder,
    x: Value,
    ranges: Sequence[tuple[int, int, int]],
    name: str,
    sources: tuple[str, ...] | None = None,
) -> Value:
    """Append a slice; ranges: for each axis (first, step, count)."""
    begin, stride, shape = zip(*ranges, strict=True) if ranges else ((), (), ())
    attrs = SliceAttrs(tuple(begin), tuple(stride), tuple(shape))
    return builder.op("slice", [x], attrs, name=name, sources=sources)


def axis_range(
    extent: int, begin: int | None, end: int | None, stride: int
) -> tuple[int, int, int]:
    """(first, step, count) of Python's begin:end:stride; None is an end of the axis.

    Negative ends count from the end, and both are limited to the axis, as ONNX and TFLite do it.
    """
    if not stride:
        raise ImportFailed("a stride is 0")
    steps = range(*slice(begin, end, stride).indices(extent))
    return steps.start, stride, len(steps)


def constant_integers(value: Value | None, what: str) -> list[int]:
    """The integers of a constant operand; ImportFailed if it is computed."""
    if not isinstance(value, Constant) or value.type.is_float:
        raise NotConstant(f"{what} must be constant integers", value)
    return [int(v) for v in value.data.reshape(-1)]


@from_tflite("SLICE")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite SLICE of constant size; -1 goes to the end. A slice at a computed start must lie
    inside x, as TFLite demands; otherwise it is moved inside.
    """
    x, start = raw.operand(0), raw.operand(1)
    size = constant_integers(raw.operand(2), "size")
    if not isinstance(start, Constant):
        return builder.op(SliceAt, [x, start], SliceAtAttrs(tuple(size)), name=raw.name)
    begin = constant_integers(start, "begin")
    ranges = [
        (first, 1, extent - first if count < 0 else count)
        for extent, first, count in zip(x.type.shape, begin, size, strict=True)
    ]
    return sliced(builder, x, ranges, raw.name)


@from_tflite("STRIDED_SLICE")
def import_strided(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite STRIDED_SLICE with constant ranges; as in TFLite Micro, without ellipsis or new axis.

    Source of the masks: the schema's StridedSliceOptions; an axis of `shrink_axis_mask` is taken
    at `begin` and dropped.
    """
    x, *bounds = raw.operands()
    begins, ends, strides = (
        constant_integers(value, what)
        for value, what in zip(bounds, ("begin", "end", "strides"), strict=True)
    )
    if raw.attribute("ellipsis_mask") or raw.attribute("new_axis_mask"):
        raise ImportFailed("an ellipsis or a new axis in a slice is not supported")
    shape = x.type.shape
    if not len(begins) == len(ends) == len(strides) <= len(shape):
        raise ImportFailed(f"ranges of {len(begins)} axes for a tensor of {len(shape)}")
    if raw.attribute("offset", False):
        ends = [begin + end for begin, end in zip(begins, ends, strict=True)]
    shrink = raw.attribute("shrink_axis_mask")
    ranges = []
    for axis, extent in enumerate(shape):
        if axis >= len(begins):
            ranges.append((0, 1, extent))
        elif shrink >> axis & 1:
            first = begins[axis] + (extent if begins[axis] < 0 else 0)
            ranges.append((first, 1, 1))
        else:
            begin = None if raw.attribute("begin_mask") >> axis & 1 else begins[axis]
            end = None if raw.attribute("end_mask") >> axis & 1 else ends[axis]
            ranges.append(axis_range(extent, begin, end, strides[axis]))
    if not shrink:
        return sliced(builder, x, ranges, raw.name)
    kept = tuple(r[2] for axis, r in enumerate(ranges) if not shrink >> axis & 1)
    part = sliced(builder, x, ranges, f"{raw.name}/slice", (raw.name,))
    return builder.op("reshape", [part], ReshapeAttrs(kept), name=raw.name)


@from_tflite("SPLIT")
def import_tflite_split(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """TFLite SPLIT: equal parts along a constant axis, each a slice."""
    (axis,) = constant_integers(raw.operand(0), "the axis")
    x = raw.operand(1)
    count = len(raw.outputs)
    extent = x.type.shape[axis]
    if extent % count:
        raise ImportFailed(f"{extent} elements in {count} equal parts")
    return _parts(builder, raw, x, axis, [extent // count] * count)


@from_tflite("SPLIT_V")
def import_tflite_split_sizes(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """TFLite SPLIT_V: parts of constant sizes along a constant axis; one may be -1, the rest."""
    x = raw.operand(0)
    sizes = constant_integers(raw.operand(1), "the sizes")
    (axis,) = constant_integers(raw.operand(2), "the axis")
    rest = x.type.shape[axis] - sum(size for size in sizes if size >= 0)
    return _parts(builder, raw, x, axis, [rest if size < 0 else size for size in sizes])


@from_onnx("Split", since=2)
def import_onnx_split(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """ONNX Split: `split` as attribute or constant input, or equal parts, the last one smaller."""
    x = raw.operand(0)
    axis = int(raw.attribute("axis", 0))
    extent, count = x.type.shape[axis], len(raw.outputs)
    sizes = [int(size) for size in raw.attribute("split", ())]
    if raw.optional(1) is not None:
        sizes = constant_integers(raw.operand(1), "the sizes")
    if not sizes:
        each = -(-extent // count)
        sizes = [min(each, extent - each * i) for i in range(count)]
    return _parts(builder, raw, x, axis, sizes)


def _parts(
    builder: GraphBuilder, raw: RawNode, x: Value, axis: int, sizes: Sequence[int]
) -> tuple[Value, ...]:
    """One slice for each part along an axis."""
    shape = x.type.shape
    axis = axis % len(shape)
    if sum(sizes) != shape[axis]:
        raise ImportFailed(f"parts {list(sizes)} of {shape[axis]} elements")
    made, first = [], 0
    for number, size in enumerate(sizes):
        ranges = [(0, 1, extent) for extent in shape]
        ranges[axis] = (first, 1, size)
        made.append(sliced(builder, x, ranges, f"{raw.name}/{number}", (raw.name,)))
        first += size
    return tuple(made)


@from_tflite("UNPACK")
def import_unpack(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """TFLite UNPACK: one slice for each index along an axis, and the axis dropped."""
    x = raw.operand(0)
    axis = raw.attribute("axis") % len(x.type.shape)
    extent = x.type.shape[axis]
    parts = _parts(builder, raw, x, axis, [1] * extent)
    shape = (*x.type.shape[:axis], *x.type.shape[axis + 1 :])
    return tuple(
        builder.op("reshape", [part], ReshapeAttrs(shape), name=raw.name, sources=(raw.name,))
        for part in parts
    )


@from_onnx("Slice", since=1)
def import_onnx_attributes(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Slice before opset 10: ranges are attributes."""
    starts, ends, axes = (
        [int(v) for v in raw.attribute(key, ())] for key in ("starts", "ends", "axes")
    )
    return _onnx_slice(builder, raw, starts, ends, axes or None, None)


@from_onnx("Slice", since=10)
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Slice with constant ranges, axes and steps."""
    names = ("starts", "ends", "axes", "steps")
    axes, steps = (
        constant_integers(v, n) if (v := raw.optional(p)) else [d]
        for p, n, d in ((3, "axes", 0), (4, "steps", 1))
    )
    part = _computed_part(builder, raw, axes[0]) if (len(axes), steps) == (1, [1]) else None
    if part is not None:
        return part
    given = [
        None if value is None else constant_integers(value, what)
        for value, what in zip([*raw.inputs[1:], None, None][:4], names, strict=True)
    ]
    if given[0] is None or given[1] is None:
        raise ImportFailed("starts or ends are absent")
    return _onnx_slice(builder, raw, given[0], given[1], given[2], given[3])


def _computed_part(builder: GraphBuilder, raw: RawNode, axis: int) -> Value | None:
    """A slice along one axis with a computed start or end, or of a length that depends on data."""
    x, end = raw.operand(0), raw.operand(2)
    if not isinstance(raw.operand(1), Constant):
        return computed_slice(builder, raw, axis)
    if isinstance(end, Constant):
        starts, ends = (constant_integers(raw.operand(n), "ranges") for n in (1, 2))
        axis = axis_of(axis, len(x.type.shape))
        if starts != [0] or ends >= [x.type.shape[axis]] or not is_open(builder, raw, [axis]):
            return None
    return first_parts(builder, raw, axis)


def _onnx_slice(
    builder: GraphBuilder,
    raw: RawNode,
    starts: list[int],
    ends: list[int],
    axes: list[int] | None,
    steps: list[int] | None,
) -> Value:
    x = raw.operand(0)
    shape = x.type.shape
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    ranges = [(0, 1, extent) for extent in shape]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        # Backwards, an end before the first element is given as a very negative number.
        stop = None if step < 0 and end < -shape[axis] else end
        ranges[axis] = axis_range(shape[axis], start, stop, step)
    return sliced(builder, x, ranges, raw.name)
