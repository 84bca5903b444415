"""reshape: the same elements in row-major order, seen with another shape."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.evaluate import constant_value
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, register
from edgec.graph.traits import Channels, IntegerForm, Interval, Movement, Operand
from edgec.graph.types import TensorType, Types
from edgec.numerics.term import Product, Term
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.op import NotConstant, Op, RawNode, from_onnx, from_tflite


@dataclass(frozen=True)
class ReshapeAttrs:
    """shape: the result's extents, all known. terms: the same, where open axes join or part."""

    shape: tuple[int, ...]
    terms: tuple[Term, ...] = ()


def attrs_of_view(shape: tuple[int, ...], terms: tuple[Term, ...] | None) -> ReshapeAttrs:
    """Attributes of a reshape to these extents, with terms where numbers do not say the sizes."""
    terms = terms or ()
    opened = [term for term in terms if term.constant is None]
    has_product = any(isinstance(atom, Product) for term in opened for atom, _ in term.parts)
    return ReshapeAttrs(shape, terms if has_product or len(opened) > 1 else ())


@register
class Reshape(Op[ReshapeAttrs]):
    """A view: no code at all. Quantization per tensor stays."""

    name = "reshape"
    attrs_class = ReshapeAttrs
    fusion = Fusion.VIEW
    movement = Movement.RESHAPE
    integer_form = IntegerForm.SHARED
    keeps_factors = True
    numbers = "shape"

    def attrs_at(self, attrs: ReshapeAttrs, largest: Types, inputs: Types) -> ReshapeAttrs:
        """Axes that are the same in both shapes stay; see `_shape_at` for the others."""
        return replace(attrs, shape=_shape_at(attrs.shape, largest[0].shape, inputs[0].shape))

    def attrs_of(self, numbers: tuple[int, ...], terms: tuple[Term, ...]) -> ReshapeAttrs:
        """Extents, with terms where numbers do not say the sizes."""
        return attrs_of_view(numbers, terms)

    def infer(self, attrs: ReshapeAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The same dtype and quantization with another shape."""
        (x,) = inputs
        if any(extent < 0 for extent in attrs.shape) or math.prod(attrs.shape) != x.elements:
            raise TypeMismatch(f"{x} has no shape {list(attrs.shape)}")
        if x.quant is not None and not x.quant.per_tensor:
            raise TypeMismatch("reshape of a tensor that is quantized along an axis")
        return (x.with_shape(attrs.shape),)

    def attrs_for_channels(self, attrs: ReshapeAttrs, kept: Sequence[int]) -> ReshapeAttrs:
        """The same shape with fewer channels."""
        return ReshapeAttrs((*attrs.shape[:-1], len(kept)))

    def attrs_for_samples(self, attrs: ReshapeAttrs, count: int) -> ReshapeAttrs:
        """A first axis of one sample gets all samples."""
        return ReshapeAttrs((count, *attrs.shape[1:])) if attrs.shape[0] == 1 else attrs

    def channels(self, attrs: ReshapeAttrs, inputs: Types, output: TensorType) -> Channels:
        """A view that keeps the last axis or flattens whole axes into it repeats channels."""
        before, after = inputs[0].shape, output.shape
        repeats = before and after and before[-1] and after[-1] and after[-1] % before[-1] == 0
        return Channels.REPEATED if repeats else Channels.UNKNOWN

    def interval(
        self, attrs: ReshapeAttrs, operands: Sequence[Operand], output: TensorType
    ) -> Interval | None:
        """Flattening repeats the channels; a shape with the same last axis keeps them."""
        x = operands[0]
        if x.interval is None or self.channels(attrs, [x.type], output) is not Channels.REPEATED:
            return None
        low, high = (np.tile(end, output.shape[-1] // x.type.shape[-1]) for end in x.interval)
        return low, high

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """Reshape; the axis that data decide on follows from the others."""
        extents, opened = list(node.output.type.shape), out.open_axes(node.output)
        if len(opened) > 1:
            raise ImportFailed(f"{node.name}: a reshape of two open axes has no ONNX form yet")
        for axis in opened:
            extents[axis] = -1
        shape = out.initializer(f"{node.name}.shape", np.asarray(extents, np.int64))
        zeros = {} if all(extents) else {"allowzero": 1}
        out.emit("Reshape", [out.own(node.inputs[0]), shape], out.define_own(node.output), **zeros)


def _shape_at(
    shape: tuple[int, ...], largest: tuple[int, ...], now: tuple[int, ...]
) -> tuple[int, ...]:
    """The shape that an input of the extents `now` gets where `largest` gets `shape`.

    Both are split into the shortest runs of axes with equal elements. In a run the axis that has
    the extent of the open one takes its size, or else the first one that is not 1.
    """
    found = list(shape)
    for before, after in _runs(largest, shape):
        old, new = largest[before], now[before]
        if old == new or len(old) != len(new):
            continue
        changed = [a for a, b in zip(old, new, strict=True) if a != b]
        axis = after.start + _open_axis(shape[after], changed)
        rest = math.prod(shape[after]) // max(shape[axis], 1)
        if rest and not math.prod(new) % rest:
            found[axis] = math.prod(new) // rest
    return tuple(found)


def _open_axis(shape: tuple[int, ...], changed: Sequence[int]) -> int:
    """The axis of a run that takes the open size."""
    if len(changed) == 1 and changed[0] in shape:
        return shape.index(changed[0])
    return next((axis for axis, extent in enumerate(shape) if extent != 1), 0)


def _runs(one: tuple[int, ...], other: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    """The shortest runs of axes with equal numbers of elements in both shapes, from the first axis
    on.
    """
    i = j = 0
    while i < len(one) and j < len(other):
        first, other_first = i, j
        i, j = i + 1, j + 1
        while (mine := math.prod(one[first:i])) != (theirs := math.prod(other[other_first:j])):
            if mine < theirs and i < len(one):
                i += 1
            elif j < len(other):
                j += 1
            else:
                return
        yield slice(first, i), slice(other_first, j)


@from_tflite("RESHAPE")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite RESHAPE to the shape that the output tensor declares, as TFLite Micro does it.

    Where the file leaves that open, to the shape that is computed from constants.
    """
    declared = raw.output_types[0]
    if declared is None or not raw.inputs or raw.inputs[0] is None:
        raise ImportFailed("an input is absent")
    x, shape = raw.operand(0), declared.shape
    if declared.elements != x.type.elements and raw.optional(1) is not None:
        computed = constant_value(builder.nodes, raw.operand(1))
        if computed is not None:
            shape = _completed([int(extent) for extent in computed.reshape(-1)], x.type)
    return builder.op("reshape", [x], ReshapeAttrs(shape), name=raw.name)


def _completed(shape: list[int], x: TensorType) -> tuple[int, ...]:
    """A shape whose extent -1, if any, is replaced by the remaining elements of x."""
    if shape.count(-1) == 1:
        known = math.prod(extent for extent in shape if extent != -1)
        shape[shape.index(-1)] = x.elements // known if known else 0
    return tuple(shape)


@from_tflite("SQUEEZE")
@from_tflite("EXPAND_DIMS")
def import_tflite_extents(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...] | Value:
    """TFLite SQUEEZE and EXPAND_DIMS: axes of extent 1 go or come, as the output declares."""
    return import_tflite(builder, raw)


@from_onnx("Reshape", since=5)
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Reshape to a constant shape; 0 keeps an extent, -1 takes the remaining elements."""
    x, wanted = raw.operands(2)
    if not isinstance(wanted, Constant):
        declared = ReshapeAttrs(declared_shape(raw, "the shape"))
        return builder.op("reshape", [x], declared, name=raw.name)
    shape = [int(extent) for extent in wanted.data.reshape(-1)]
    if not raw.attribute("allowzero", 0):
        shape = [x.type.shape[i] if e == 0 and i < len(x.type.shape) else e
                 for i, e in enumerate(shape)]  # fmt: skip
    return builder.op("reshape", [x], ReshapeAttrs(_completed(shape, x.type)), name=raw.name)


def declared_shape(raw: RawNode, what: str) -> tuple[int, ...]:
    """The shape that the file declares, where the input that decides it is computed."""
    declared = raw.output_types[0] if raw.output_types else None
    if declared is None or raw.optional(1) is None:
        raise NotConstant(f"{what} must be a constant", raw.optional(1))
    return declared.shape


def _axes(raw: RawNode) -> list[int] | None:
    """`axes`, an attribute up to opset 12 and then an input; None if it is absent."""
    if raw.optional(1) is not None:
        return [int(axis) for axis in raw.constant(1, "the axes").data.reshape(-1)]
    given = raw.attribute("axes")
    return None if given is None else [int(axis) for axis in given]


@from_onnx("Squeeze")
def import_squeeze(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Squeeze: axes of extent 1 go, all of them if none is named."""
    shape = raw.operand(0).type.shape
    axes = _axes(raw)
    gone = {axis % len(shape) for axis in axes} if axes else {
        axis for axis, extent in enumerate(shape) if extent == 1
    }  # fmt: skip
    if any(shape[axis] != 1 for axis in gone):
        raise ImportFailed(f"the axes {sorted(gone)} of {list(shape)} are longer than 1")
    kept = tuple(extent for axis, extent in enumerate(shape) if axis not in gone)
    return builder.op("reshape", [raw.operand(0)], ReshapeAttrs(kept), name=raw.name)


@from_onnx("Unsqueeze")
def import_unsqueeze(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Unsqueeze: axes of extent 1 come, counted in the result."""
    shape = list(raw.operand(0).type.shape)
    axes = _axes(raw)
    if not axes:
        raise ImportFailed("the axes are absent")
    rank = len(shape) + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        shape.insert(axis, 1)
    return builder.op("reshape", [raw.operand(0)], ReshapeAttrs(tuple(shape)), name=raw.name)


@from_onnx("Flatten")
def import_flatten(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Flatten to two dimensions at `axis`."""
    (x,) = raw.operands(1)
    rank = len(x.type.shape)
    axis = int(raw.attribute("axis", 1))
    if not -rank <= axis <= rank:
        raise ImportFailed(f"axis {axis} of a tensor of rank {rank}")
    axis += rank if axis < 0 else 0
    shape = (math.prod(x.type.shape[:axis]), math.prod(x.type.shape[axis:]))
    return builder.op("reshape", [x], ReshapeAttrs(shape), name=raw.name)


@from_onnx("Dropout", since=7)
def import_dropout(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """ONNX Dropout copies its input, and its mask is all true; random numbers are refused."""
    x, ratio, training = raw.operand(0), raw.optional(1), raw.optional(2)
    is_trained = training is not None and _is_true(training, "training_mode")
    if is_trained and (ratio is None or _is_true(ratio, "the ratio of training")):
        raise ImportFailed("it drops at random: the model was exported for training")
    return x, builder.constant(f"{raw.name}.mask", np.ones(x.type.shape, np.bool_))


def _is_true(value: Value, what: str) -> bool:
    """Whether a constant is not 0. Raises NotConstant where it is computed."""
    if not isinstance(value, Constant):
        raise NotConstant(f"{what} must be a constant", value)
    return bool(value.data.any())
