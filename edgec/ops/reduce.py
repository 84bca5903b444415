"""reduce: the mean, the sum or the largest element over some axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, register
from edgec.graph.traits import Channels, Interval, Operand
from edgec.graph.types import Array, Quant, TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value as LoopValue
from edgec.loop.values import cast, clamp, int32, intrinsic, maximum, minimum
from edgec.numerics.fixed_point import (
    IntArray,
    Rounding,
    quantize_multiplier,
    requantize_tflm,
    wrap_int32,
)
from edgec.ops.broadcast import tensors_of
from edgec.ops.onnx_graph import OnnxGraph, written_axis
from edgec.ops.op import Op, RawNode, from_onnx, from_tflite
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.slice import constant_integers

#: What may be computed of the elements.
KINDS = ("mean", "sum", "max", "min")

#: Most elements of a sum that int32 holds, by the dtype of the elements.
MOST_ELEMENTS = {"int8": 1 << 23, "int16": 1 << 15}


@dataclass(frozen=True)
class ReduceAttrs:
    """axes: which are reduced to extent 1, ascending. kind: one of KINDS.

    output: quantization of an integer mean or sum, None for floats and for max and min, whose
    stored values stay. rounding: `tflm`, for integer means and sums.
    """

    axes: tuple[int, ...]
    kind: str
    output: Quant | None = None
    rounding: Rounding = "tflm"


def mean_multiplier(ratio: float, count: int) -> tuple[int, int]:
    """(multiplier, shift) of sum * ratio / count, ratio = input scale / output scale.

    Source: QuantizedMeanOrSum in TFLite's reduce.h. The multiplier's quotient is truncated, so
    it may have fewer than 31 bits.
    """
    multiplier, shift = quantize_multiplier(ratio)
    lift = min(count.bit_length() - 1, 32, 31 + shift)
    return (multiplier << lift) // count, shift - lift


@register
class Reduce(Op[ReduceAttrs]):
    """int8, int16, or float32 with the elements taken in row-major order; all axes stay."""

    name = "reduce"
    attrs_class = ReduceAttrs
    fusion = Fusion.REDUCTION
    tolerance = 2e-6

    def scale(self, attrs: ReduceAttrs, *scales: float) -> float:
        """That of the input: only sums are larger, and their errors with them."""
        return scales[0]

    def infer(self, attrs: ReduceAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The shape with extent 1 along the reduced axes."""
        (x,) = inputs
        if attrs.kind not in KINDS:
            raise TypeMismatch(f"unknown reduction {attrs.kind!r}")
        if list(attrs.axes) != sorted(set(attrs.axes)) or not all(
            0 <= axis < len(x.shape) for axis in attrs.axes
        ):
            raise TypeMismatch(f"reduction over the axes {attrs.axes} of {x}")
        shape = tuple(1 if axis in attrs.axes else e for axis, e in enumerate(x.shape))
        if x.dtype == "float32":
            return (TensorType(shape, x.dtype),)
        if x.dtype not in MOST_ELEMENTS or (x.quant is not None and not x.quant.per_tensor):
            raise TypeMismatch(
                f"reduction needs int8 or int16 quantized per tensor or float32, not {x}"
            )
        if attrs.kind in ("max", "min"):
            return (x.with_shape(shape),)
        if x.quant is None or attrs.output is None or not attrs.output.per_tensor:
            raise TypeMismatch("an integer mean or sum needs quantized input and output")
        if attrs.rounding != "tflm":
            raise TypeMismatch(f"reduce with rounding {attrs.rounding!r} is not defined")
        if _count(attrs, x) > MOST_ELEMENTS[x.dtype]:
            raise TypeMismatch(f"a sum of {_count(attrs, x)} elements may not fit in 32 bits")
        return (TensorType(shape, x.dtype, attrs.output),)

    def evaluate(
        self,
        attrs: ReduceAttrs,
        inputs: Sequence[Array],
        input_types: Sequence[TensorType],
        output_types: Sequence[TensorType],
    ) -> tuple[Array, ...]:
        """Integers exactly; floats one addition after the other, then one division."""
        x, output = inputs[0], output_types[0]
        if attrs.kind in ("max", "min"):
            reduce = np.max if attrs.kind == "max" else np.min
            return (np.asarray(reduce(x, axis=attrs.axes, keepdims=True)).astype(x.dtype),)
        if output.is_float:
            kept = [axis for axis in range(x.ndim) if axis not in attrs.axes]
            rows = x.transpose(*attrs.axes, *kept).reshape(-1, *(x.shape[axis] for axis in kept))
            total = np.zeros(rows.shape[1:], x.dtype)
            for row in rows:
                total += row
            if attrs.kind == "mean":
                total = total / x.dtype.type(len(rows))
            return (total.reshape(output.shape),)
        total = x.sum(axis=attrs.axes, keepdims=True, dtype=np.int64)
        zero_point, finish = _finish(attrs, input_types[0])
        rescaled = requantize_tflm(
            wrap_int32(total - zero_point), np.asarray(finish[0]), np.asarray(finish[1])
        )
        assert attrs.output is not None
        shifted: IntArray = rescaled + attrs.output.zero_point[0]
        info = np.iinfo(x.dtype)
        return (np.clip(shifted, info.min, info.max).astype(x.dtype),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One accumulator per output element."""
        attrs: ReduceAttrs = node.attrs
        (x,) = tensors_of(inputs)
        dtype = x.dtype if attrs.kind in ("max", "min") or x.dtype == "float32" else "int32"
        rank = len(x.shape)

        def read(at: Sequence[Any]) -> LoopValue:
            source = list(at[:rank])
            for axis, position in zip(attrs.axes, at[rank:], strict=True):
                source[axis] = position
            return cast(x[tuple(source)], dtype)

        combine: Callable[[Any, Any], Any] = {
            "max": maximum,
            "min": minimum,
        }.get(attrs.kind, lambda acc, value: acc + value)
        first: Callable[..., Any] = lambda *at: 0  # noqa: E731
        if attrs.kind in ("max", "min"):
            first = lambda *at: read((*at, *(0 for _ in attrs.axes)))  # noqa: E731
        total = target.definition.reduce(
            "acc",
            [(f"k{axis}", 0, x.shape[axis]) for axis in attrs.axes],
            init=first,
            update=lambda acc, *at: combine(acc, read(at)),
            shape=node.output.type.shape,
            dtype=dtype,
        )
        count = _count(attrs, node.inputs[0].type)

        def element(*at: Any) -> Any:
            if attrs.kind in ("max", "min"):
                return total[at]
            if dtype == "float32":
                return total[at] / float(count) if attrs.kind == "mean" else total[at]
            zero_point, finish = _finish(attrs, node.inputs[0].type)
            assert attrs.output is not None
            scaled = intrinsic("requantize_tflm", int32(total[at]) - zero_point, *finish)
            info = np.iinfo(x.dtype)
            moved = scaled + attrs.output.zero_point[0]
            return cast(clamp(moved, int(info.min), int(info.max)), x.dtype)

        return target.compute("element", node.output.type.shape, node.output.type.dtype, element)

    def attrs_for_permutation(self, attrs: ReduceAttrs, order: Sequence[int]) -> ReduceAttrs:
        """The axes by their new names."""
        return replace(attrs, axes=tuple(sorted(order[axis] for axis in attrs.axes)))

    def channels(
        self, attrs: ReduceAttrs, inputs: Sequence[TensorType], output: TensorType
    ) -> Channels:
        """Each its own, unless they are reduced themselves."""
        return Channels.UNKNOWN if len(output.shape) - 1 in attrs.axes else Channels.SAME

    def interval(
        self, attrs: ReduceAttrs, operands: Sequence[Operand], output: TensorType
    ) -> Interval | None:
        """A reduction of equal elements, all low or all high; not over the channels."""
        x = operands[0]
        if x.interval is None or len(x.type.shape) - 1 in attrs.axes:
            return None
        ends = []
        for end in x.interval:
            whole = np.broadcast_to(end.astype(x.type.dtype), x.type.shape)
            (result,) = self.evaluate(attrs, [whole], [x.type], (output,))
            ends.append(result.astype(np.int64).reshape(-1, len(end))[0])
        return ends[0], ends[1]

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """ReduceMean, ReduceSum, …: the axes of sums are an input, those of others since 18."""
        inputs, output, first = out.places(node)
        axes = sorted(written_axis(axis, first) for axis in node.attrs.axes)
        kind = f"Reduce{node.attrs.kind.capitalize()}"
        if node.attrs.kind == "sum" or out.opset >= 18:
            listed = out.initializer(f"{output}.axes", np.asarray(axes, np.int64))
            out.emit(kind, [*inputs, listed], output, keepdims=1)
            return
        out.emit(kind, inputs, output, axes=axes, keepdims=1)


def _count(attrs: ReduceAttrs, x: TensorType) -> int:
    """Elements that one result is made of."""
    return math.prod(x.shape[axis] for axis in attrs.axes)


def _finish(attrs: ReduceAttrs, x: TensorType) -> tuple[int, tuple[int, int]]:
    """What to take off an integer sum, and its (multiplier, shift)."""
    assert attrs.output is not None
    scale, zero_point = x.scalar_quant()
    count = _count(attrs, x)
    ratio = scale / attrs.output.scale[0]
    if attrs.kind == "mean":
        return zero_point * count, mean_multiplier(ratio, count)
    return zero_point * count, quantize_multiplier(ratio)


def _reduced(
    builder: GraphBuilder,
    raw: RawNode,
    x: Value,
    axes: Sequence[int],
    keep: bool,
    attrs: tuple[str, Quant | None],
) -> Any:
    """Append the reduction and, unless the axes are kept, a reshape without them."""
    shape = x.type.shape
    if any(not -len(shape) <= axis < len(shape) for axis in axes):
        raise ImportFailed(f"axes {list(axes)} of an input of rank {len(shape)}")
    chosen = tuple(sorted({axis % len(shape) for axis in axes}))
    kind, output = attrs
    node = ReduceAttrs(chosen, kind, output)
    if keep:
        return builder.op("reduce", [x], node, name=raw.name)
    whole = builder.op("reduce", [x], node, name=f"{raw.name}/{kind}", sources=(raw.name,))
    rest = tuple(e for axis, e in enumerate(shape) if axis not in chosen)
    return builder.op("reshape", [whole], ReshapeAttrs(rest), name=raw.name)


def _import_tflite(kind: str) -> None:
    name = {"mean": "MEAN", "sum": "SUM", "max": "REDUCE_MAX", "min": "REDUCE_MIN"}[kind]

    @from_tflite(name)
    def importer(builder: GraphBuilder, raw: RawNode) -> Any:
        declared = raw.output_types[0]
        x = raw.operand(0)
        axes = constant_integers(raw.operand(1), "the axes")
        if declared is None:
            raise ImportFailed("the output has no type")
        output = declared.quant if kind in ("mean", "sum") else None
        return _reduced(builder, raw, x, axes, raw.attribute("keep_dims"), (kind, output))


def _import_onnx(kind: str) -> None:
    @from_onnx(f"Reduce{kind.capitalize()}")
    def importer(builder: GraphBuilder, raw: RawNode) -> Any:
        x = raw.operand(0)
        axes = [int(axis) for axis in raw.attribute("axes", ())]
        if raw.optional(1) is not None:
            axes = constant_integers(raw.operand(1), "the axes")
        if not axes:
            if raw.attribute("noop_with_empty_axes", 0):
                raise ImportFailed("a reduction over no axes is not supported")
            axes = list(range(len(x.type.shape)))
        keep = bool(raw.attribute("keepdims", 1))
        return _reduced(builder, raw, x, axes, keep, (kind, None))


for _kind in KINDS:
    _import_tflite(_kind)
    _import_onnx(_kind)
