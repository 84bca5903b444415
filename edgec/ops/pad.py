"""pad: the input with one constant value around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, register
from edgec.graph.traits import Channels, IntegerForm, Interval, Movement, Operand, StoredAs
from edgec.graph.types import TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.dtype import is_float
from edgec.loop.lowering import Lowering
from edgec.loop.values import index, maximum, minimum, select
from edgec.numerics.narrow_float import FORMATS, STORED_IN, stored_in
from edgec.ops.broadcast import tensors_of
from edgec.ops.mirror_pad import BORDERS, append_border
from edgec.ops.onnx_graph import OnnxGraph, written_list
from edgec.ops.op import Op, RawNode, from_onnx, from_tflite
from edgec.ops.transpose import in_order

Pair = tuple[int, int]

#: Of these only zeros are stored as such.
_ZEROS = STORED_IN.keys() - FORMATS.keys()


@dataclass(frozen=True)
class PadAttrs:
    """padding: (before, after) for each axis, not negative. value: the stored value around."""

    padding: tuple[Pair, ...]
    value: float = 0


@register
class Pad(Op[PadAttrs]):
    """Moves elements of any dtype; quantization per tensor stays."""

    name = "pad"
    attrs_class = PadAttrs
    fusion = Fusion.OPAQUE  # several nests write one output
    movement = Movement.PAD
    integer_form = IntegerForm.SHARED

    def infer(self, attrs: PadAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Every extent grows by its padding."""
        (x,) = inputs
        _check_padding(attrs, x)
        if x.dtype in _ZEROS and attrs.value:
            raise TypeMismatch(f"pad of {x} by {attrs.value:g}: only zeros are stored as such")
        if x.quant is not None and not x.quant.per_tensor:
            raise TypeMismatch("pad of a tensor that is quantized along an axis")
        if not x.is_float and not _fits(attrs.value, x.dtype):
            raise TypeMismatch(f"padding with {attrs.value} does not fit in {x.dtype}")
        return (
            x.with_shape(tuple(e + sum(p) for e, p in zip(x.shape, attrs.padding, strict=True))),
        )

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """The padding before, the rows, the padding after; a row chooses its own padding inside.

        In this order the output can grow over its input in memory.
        """
        attrs: PadAttrs = node.attrs
        (x,) = tensors_of(inputs)
        shape = node.output.type.shape
        value = _stored(attrs.value, node.output.type.dtype)
        outer = next((axis for axis, pair in enumerate(attrs.padding) if any(pair)), 0)
        before, after = attrs.padding[outer] if attrs.padding else (0, 0)
        extent = x.shape[outer] if attrs.padding else 1
        out = target.target
        assert out is not None  # nothing is fused after it

        def fill(name: str, start: int, count: int) -> None:
            if count:
                target.definition.compute(
                    out,
                    lambda *at: value,
                    shape=(*shape[:outer], count, *shape[outer + 1 :]),
                    at=lambda *at: (*at[:outer], at[outer] + start, *at[outer + 1 :]),
                    name=name,
                )

        def element(*at: Any) -> Any:
            return _inside(x, attrs.padding, outer, at, value)

        fill("before", 0, before)
        target.definition.compute(
            out,
            element,
            shape=(*shape[:outer], extent, *shape[outer + 1 :]) if shape else (),
            at=lambda *at: (*at[:outer], at[outer] + before, *at[outer + 1 :]) if at else (),
            name="inside",
        )
        fill("after", before + extent, after)
        return out

    def attrs_for_permutation(self, attrs: PadAttrs, order: Sequence[int]) -> PadAttrs:
        """The padding by the axes of x."""
        return replace(attrs, padding=in_order(attrs.padding, order))

    def attrs_for_integers(
        self, attrs: PadAttrs, inputs: Types, result: StoredAs
    ) -> PadAttrs | None:
        """Return the attributes with the integer that stores the value."""
        if result.quant.axis is not None:
            return None
        return replace(attrs, value=result.stored(attrs.value))

    def does_nothing(self, attrs: PadAttrs) -> bool:
        return True

    def channels(self, attrs: PadAttrs, inputs: Types, output: TensorType) -> Channels:
        """Each its own, unless there are new ones."""
        return Channels.UNKNOWN if any(attrs.padding[-1]) else Channels.SAME

    def interval(
        self, attrs: PadAttrs, operands: Sequence[Operand], output: TensorType
    ) -> Interval | None:
        """The padding's value as well, also in channels that are all padding."""
        if operands[0].interval is None:
            return None
        value, last = int(attrs.value), attrs.padding[-1]
        low, high = (np.pad(end, last, constant_values=value) for end in operands[0].interval)
        if any(any(pair) for pair in attrs.padding[:-1]):
            low, high = np.minimum(low, value), np.maximum(high, value)
        return low, high

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """Pad."""
        inputs, output, first = out.tensors_of(node)
        ends = [written_list([p[end] for p in node.attrs.padding], first) for end in (0, 1)]
        pads = out.initializer(f"{output}.pads", np.asarray(ends, np.int64).reshape(-1))
        around = np.asarray(node.attrs.value, node.output.type.dtype)
        value = out.initializer(f"{output}.value", around)
        out.emit("Pad", [*inputs, pads, value], output)


def _check_padding(attrs: PadAttrs, x: TensorType) -> None:
    if len(attrs.padding) != len(x.shape):
        raise TypeMismatch(f"{len(attrs.padding)} pairs of padding for {x}")
    if any(min(pair) < 0 for pair in attrs.padding):
        raise TypeMismatch(f"padding {attrs.padding} is negative")


def _fits(value: float, dtype: str) -> bool:
    if dtype == "bool":
        return value in (0, 1)
    info = np.iinfo(dtype)
    return value == int(value) and info.min <= value <= info.max


def _stored(value: float, dtype: str) -> float:
    """The value as elements are stored: a narrow float by its bits."""
    if is_float(dtype):
        return value
    return int(np.asarray(value, dtype).view(stored_in(dtype))) if dtype in FORMATS else int(value)


def _inside(
    x: Tensor, padding: tuple[Pair, ...], outer: int, at: tuple[Any, ...], value: float
) -> Any:
    """The element at `at`, an index that is inside along `outer` and counts from there."""
    source, conditions = list(at), []
    for axis in range(outer + 1, len(at)):
        before, after = padding[axis]
        position = at[axis] - before
        if before:
            conditions.append(index(position) >= 0)
            position = maximum(position, 0)
        if after:
            conditions.append(index(at[axis] - before) < x.shape[axis])
            position = minimum(position, x.shape[axis] - 1)
        source[axis] = position
    found = x[tuple(source)]
    if not conditions:
        return found
    inside = conditions[0]
    for condition in conditions[1:]:
        inside = inside & condition
    return select(inside, found, value)


@from_tflite("PAD")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite PAD: with the zero point, or 0 where there is none."""
    x, paddings = _constant_paddings(raw)
    quant = x.type.quant
    value = quant.zero_point[0] if quant is not None and quant.per_tensor else 0
    return builder.op("pad", [x], PadAttrs(paddings, value), name=raw.name)


@from_tflite("PADV2")
def import_tflite_v2(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite PADV2: with a constant stored value."""
    x, paddings = _constant_paddings(raw)
    value = raw.operand(2)
    if not isinstance(value, Constant) or value.type.elements != 1:
        raise ImportFailed("the padding value must be a constant")
    return builder.op("pad", [x], PadAttrs(paddings, value.data.reshape(-1)[0].item()),
                      name=raw.name)  # fmt: skip


def _constant_paddings(raw: RawNode) -> tuple[Any, tuple[Pair, ...]]:
    x, paddings = raw.operand(0), raw.operand(1)
    if not isinstance(paddings, Constant) or paddings.type.is_float:
        raise ImportFailed("the padding must be constant integers")
    return x, tuple((int(a), int(b)) for a, b in paddings.data.reshape(-1, 2))


@from_onnx("Pad", since=2)
def import_onnx_attributes(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Pad before opset 11: padding and value are attributes."""
    pads = tuple(int(p) for p in raw.attribute("pads", ()))
    return _onnx_pad(builder, raw, pads, raw.attribute("value", 0.0), None)


@from_onnx("Pad", since=11)
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Pad with constant padding, axes and value."""
    pads, value, axes = (
        None if raw.optional(place) is None else raw.constant(place, what).data.reshape(-1).tolist()
        for place, what in enumerate(("padding", "the value", "axes"), 1)
    )
    if pads is None:
        raise ImportFailed("the padding is absent")
    return _onnx_pad(builder, raw, pads, value[0] if value else 0, axes)


def _onnx_pad(
    builder: GraphBuilder, raw: RawNode, pads: Sequence[int], value: float, axes: Any
) -> Value:
    x = raw.operand(0)
    mode = raw.attribute("mode", "constant")
    if mode not in ("constant", *BORDERS):
        raise ImportFailed(f"padding by {mode!r} is unknown")
    rank = len(x.type.shape)
    chosen = range(rank) if axes is None else [int(axis) % rank for axis in axes]
    if len(pads) != 2 * len(chosen):
        raise ImportFailed(f"{len(pads)} numbers of padding for {len(chosen)} axes")
    pairs = [(0, 0)] * rank
    for position, axis in enumerate(chosen):
        pairs[axis] = (int(pads[position]), int(pads[position + len(chosen)]))
    if mode != "constant":
        return append_border(builder, raw, x, pairs, mode)
    return builder.op("pad", [x], PadAttrs(tuple(pairs), value), name=raw.name)
