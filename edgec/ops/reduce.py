"""reduce: the mean, the sum, the largest element or another reduction over some axes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, register
from edgec.graph.traits import Channels, IntegerForm, Interval, Operand, StoredAs
from edgec.graph.types import Quant, TensorType, Types
from edgec.loop.define import ReduceAxis, Tensor
from edgec.loop.dtype import is_float
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value as LoopValue
from edgec.loop.values import cast, index, intrinsic, maximum, saturate, select
from edgec.numerics.fixed_point import Rounding
from edgec.ops.broadcast import tensors_of
from edgec.ops.fill_beyond import elements_in_use, filled, is_open
from edgec.ops.onnx_graph import OnnxGraph, written_axis
from edgec.ops.op import Op, RawNode, from_onnx, from_tflite
from edgec.ops.parts import Parts
from edgec.ops.reductions import BY_NAME, ROWS, Reduction, finite, rows_of
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.slice import constant_integers

#: Most elements of a sum that int32 holds, by the dtype of the elements.
MOST_ELEMENTS = {"int8": 1 << 23, "int16": 1 << 15}
#: Largest number of rows of the tables that rescale sums over an open count of elements.
MOST_COUNTS = 1 << 12


@dataclass(frozen=True)
class ReduceAttrs:
    """axes: which are reduced to extent 1, ascending. kind: the name of a row of the table.

    output: quantization of a mean or sum of quantized integers, else None. rounding: `tflm` or
    `onnx`, of these.
    """

    axes: tuple[int, ...]
    kind: str
    output: Quant | None = None
    rounding: Rounding = "tflm"


@register
class Reduce(Op[ReduceAttrs]):
    """The operator of a row of `edgec.ops.reductions`; all axes stay, with extent 1."""

    name = "reduce"
    attrs_class = ReduceAttrs
    fusion = Fusion.REDUCTION
    tolerance = 2e-6
    integer_form = IntegerForm.ONE_OPERAND
    approximates = True

    def form_of(self, attrs: ReduceAttrs) -> IntegerForm | None:
        """Elements are chosen, or their sums and products rescaled; roots have none."""
        row = BY_NAME[attrs.kind]
        if row.chooses:
            return IntegerForm.SHARED
        return None if row.multiplier is None else self.integer_form

    def attrs_for_integers(
        self, attrs: ReduceAttrs, inputs: Types, result: StoredAs
    ) -> ReduceAttrs | None:
        """The same with the result's parameters, where nothing else limits it."""
        if not result.is_whole:
            return None
        row = BY_NAME[attrs.kind]
        is_onnx = result.rounding == "onnx" and not row.steps
        rounding: Rounding = "onnx" if is_onnx else "tflm"
        return attrs if row.chooses else replace(attrs, output=result.quant, rounding=rounding)

    def scale(self, attrs: ReduceAttrs, *scales: float) -> float:
        """The scale of the input; sums are larger, and so are their errors."""
        return scales[0]

    def whole_axes(self, attrs: ReduceAttrs, inputs: Types, position: int) -> Collection[int]:
        return attrs.axes

    def infer(self, attrs: ReduceAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The shape with extent 1 along the reduced axes."""
        (x,) = inputs
        row = BY_NAME.get(attrs.kind)
        if row is None:
            raise TypeMismatch(f"unknown reduction {attrs.kind!r}")
        if list(attrs.axes) != sorted(set(attrs.axes)) or not all(
            0 <= axis < len(x.shape) for axis in attrs.axes
        ):
            raise TypeMismatch(f"reduction over the axes {attrs.axes} of {x}")
        shape = tuple(1 if axis in attrs.axes else e for axis, e in enumerate(x.shape))
        if x.quant is not None:
            return (_rescaled(attrs, row, x, shape),)
        if x.dtype in row.dtypes:
            return (TensorType(shape, x.dtype),)
        if row.multiplier is not None and x.dtype in MOST_ELEMENTS:
            raise TypeMismatch(f"an integer {row.name} needs quantized input and output")
        raise TypeMismatch(f"{row.name} of {x}: it needs {' or '.join(row.dtypes)}")

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One accumulator per output element."""
        attrs: ReduceAttrs = node.attrs
        row = BY_NAME[attrs.kind]
        (x,) = tensors_of(inputs)
        known = node.inputs[0].type
        if row.of_nothing is not None and not _count(attrs, known):
            nothing = row.of_nothing(x.dtype)
            return target.compute("element", node.output.type.shape, x.dtype, lambda *at: nothing)
        is_rescaled = known.quant is not None and not row.chooses
        most = _largest(target, x, attrs.axes) if row.shifted else None
        shift: Callable[..., Any] = lambda *at: () if most is None else (finite(most[at]),)  # noqa: E731

        def element(*at: Any) -> Any:
            taken = row.take(_read(x, attrs.axes, at), *shift(*at[: len(x.shape)]))
            return cast(taken, "int32" if is_rescaled else x.dtype)

        zeros = (0,) * len(attrs.axes)
        count = _count(attrs, known)
        factor = _factor_of(attrs, known, target)
        combine = _combine_of(row, known, factor)
        total = target.definition.reduce(
            "acc",
            _steps(x, attrs.axes),
            init=lambda *at: element(*at, *zeros) if row.first is None else row.first,
            update=lambda acc, *at: combine(acc, element(*at), *at[len(x.shape) :]),
            shape=node.output.type.shape,
            dtype="int32" if is_rescaled else x.dtype,
        )

        def finished(*at: Any) -> Any:
            if is_rescaled:
                return _requantized(attrs, known, total[at], factor)
            return row.finish(total[at], count, *shift(*at))

        return target.compute("element", node.output.type.shape, node.output.type.dtype, finished)

    def attrs_for_permutation(self, attrs: ReduceAttrs, order: Sequence[int]) -> ReduceAttrs:
        """The axes by their new names."""
        return replace(attrs, axes=tuple(sorted(order[axis] for axis in attrs.axes)))

    def channels(self, attrs: ReduceAttrs, inputs: Types, output: TensorType) -> Channels:
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
        """ReduceMean, ReduceSum, …: the axes of sums are an input; of others, since opset 18."""
        inputs, output, first = out.tensors_of(node)
        axes = sorted(written_axis(axis, first) for axis in node.attrs.axes)
        row = BY_NAME[node.attrs.kind]
        if not row.onnx or (node.inputs[0].type.dtype == "bool" and out.opset < 20):
            raise ImportFailed(f"{node.name}: ONNX has no {row.name} of these")
        if not axes:
            out.emit("Identity", inputs, output)
            return
        if row.name == "sum" or out.opset >= 18:
            listed = out.initializer(f"{output}.axes", np.asarray(axes, np.int64))
            out.emit(row.onnx, [*inputs, listed], output, keepdims=1)
            return
        out.emit(row.onnx, inputs, output, axes=axes, keepdims=1)


def _combine_of(row: Reduction, x: TensorType, factor: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the next accumulator from the accumulator, an element and the steps."""
    if row.steps and x.quant is not None:
        return functools.partial(_product, x.scalar_quant()[1], factor)
    return lambda acc, x, *steps: row.combine(acc, x)


def _product(
    zero_point: int, factor: tuple[Any, ...], total: LoopValue, x: LoopValue, *steps: Any
) -> LoopValue:
    """The rescaled product of a total and a stored integer; at the first step the integer."""
    real = x - zero_point
    whole = cast(total, "int64") * cast(real, "int64")
    before = functools.reduce(lambda a, b: a | b, map(index, steps), real * 0)
    return select(before.equals(0), real, intrinsic("requantize_tflm16", whole, *factor))


def _read(x: Tensor, axes: Sequence[int], at: Sequence[Any]) -> LoopValue:
    """The element of x at an index of the result, plus indices of the reduced axes."""
    source = list(at[: len(x.shape)])
    for axis, position in zip(axes, at[len(x.shape) :], strict=True):
        source[axis] = position
    return x[tuple(source)]


def _steps(x: Tensor, axes: Sequence[int]) -> list[ReduceAxis]:
    return [(f"k{axis}", 0, x.shape[axis]) for axis in axes]


def _largest(target: Lowering, x: Tensor, axes: Sequence[int]) -> Tensor:
    """The largest element over the axes, a temporary."""
    return target.definition.reduce(
        target.unique("most"),
        _steps(x, axes),
        init=lambda *at: _read(x, axes, (*at, *(0 for _ in axes))),
        update=lambda acc, *at: maximum(acc, _read(x, axes, at)),
        shape=[1 if axis in axes else extent for axis, extent in enumerate(x.shape)],
        dtype=x.dtype,
    )


def _count(attrs: ReduceAttrs, x: TensorType) -> int:
    """Elements that one result is made of."""
    return math.prod(x.shape[axis] for axis in attrs.axes)


def _rescaled(
    attrs: ReduceAttrs, row: Reduction, x: TensorType, shape: tuple[int, ...]
) -> TensorType:
    """The result's type for quantized elements. Raises TypeMismatch where it has no meaning."""
    assert x.quant is not None
    if x.dtype not in MOST_ELEMENTS or not x.quant.per_tensor:
        raise TypeMismatch(
            f"reduction needs int8 or int16 quantized per tensor or float32, not {x}"
        )
    return x.with_shape(shape) if row.chooses else _summed(attrs, row, x, shape)


def _summed(
    attrs: ReduceAttrs, row: Reduction, x: TensorType, shape: tuple[int, ...]
) -> TensorType:
    """The same of a sum, which is rescaled."""
    if row.multiplier is None:
        raise TypeMismatch(f"{row.name} of quantized integers is not defined")
    if attrs.output is None or not attrs.output.per_tensor:
        raise TypeMismatch(f"an integer {row.name} needs quantized input and output")
    if attrs.rounding not in ("tflm", "onnx"):
        raise TypeMismatch(f"reduce with rounding {attrs.rounding!r} is not defined")
    if _count(attrs, x) > MOST_ELEMENTS[x.dtype]:
        raise TypeMismatch(f"a sum of {_count(attrs, x)} elements may not fit in 32 bits")
    row.multiplier(x.scalar_quant()[0], attrs.output.scale[0], max(_count(attrs, x), 1))
    return TensorType(shape, x.dtype, attrs.output)


def _factor_of(attrs: ReduceAttrs, x: TensorType, target: Lowering) -> tuple[Any, ...]:
    """The (multiplier, shift) of a sum; where sizes are open, from tables by how many there are."""
    count, multiplier = _count(attrs, x), BY_NAME[attrs.kind].multiplier
    if x.quant is None or attrs.output is None or multiplier is None:
        return ()
    is_fixed = not target.is_open or count > MOST_COUNTS
    scales = x.scalar_quant()[0], attrs.output.scale[0]
    numbers = range(count, count + 1) if is_fixed else range(count + 1)
    if attrs.rounding == "onnx":
        return (_scale_of(attrs, scales[0] / scales[1], numbers, target),)
    if is_fixed:
        return multiplier(*scales, max(count, 1))
    found = np.asarray([multiplier(*scales, max(number, 1)) for number in numbers], np.int32)
    names = zip(("multiplier", "shift"), found.T, strict=True)
    return tuple(target.table(name, np.ascontiguousarray(row))[count] for name, row in names)


def _scale_of(attrs: ReduceAttrs, ratio: float, numbers: range, target: Lowering) -> Any:
    """The float that rescales a sum, of a table by how many there are where that is open."""
    parts = [ratio / max(n, 1) if attrs.kind == "mean" else ratio for n in numbers]
    scales = np.asarray(parts, np.float32)
    return float(scales[0]) if len(scales) == 1 else target.table("scale", scales)[numbers[-1]]


def _requantized(
    attrs: ReduceAttrs, x: TensorType, total: LoopValue, factor: tuple[Any, ...]
) -> LoopValue:
    """The stored result of an int32 sum of stored elements."""
    assert attrs.output is not None
    if BY_NAME[attrs.kind].steps:
        scaled = intrinsic("requantize_tflm16", cast(total, "int64"), *factor)
    else:
        zero_point = x.scalar_quant()[1] * _count(attrs, x)
        scaled = intrinsic(f"requantize_{attrs.rounding}", total - zero_point, *factor)
    return saturate(scaled + attrs.output.zero_point[0], x.dtype)


def without_axes(
    builder: GraphBuilder, raw: RawNode, op: str, attrs: Any, axes: Sequence[int], keep: bool
) -> Value:
    """Append a reduction of the first input and, unless the axes are kept, a reshape without them.

    axes: the reduced axes, not negative; they have extent 1 in the reduction's result.
    """
    x = raw.operand(0)
    if keep:
        return builder.op(op, [x], attrs, name=raw.name)
    whole = builder.op(op, [x], attrs, name=f"{raw.name}/{op}", sources=(raw.name,))
    rest = tuple(e for axis, e in enumerate(x.type.shape) if axis not in axes)
    return builder.op("reshape", [whole], ReshapeAttrs(rest), name=raw.name)


def known_axes(axes: Sequence[int], x: TensorType) -> tuple[int, ...]:
    """Axes, ascending and not negative. Raises ImportFailed for one outside x."""
    rank = len(x.shape)
    if any(not -rank <= axis < rank for axis in axes):
        raise ImportFailed(f"axes {list(axes)} of an input of rank {rank}")
    return tuple(sorted({axis % rank for axis in axes}))


def _row(raw: RawNode) -> Reduction:
    """The first row of this name that has the input's dtype."""
    x, rows = raw.operand(0).type, rows_of(raw.kind)
    for row in rows:
        if x.dtype in row.dtypes or (x.quant is not None and (row.chooses or row.multiplier)):
            return row
    dtypes = dict.fromkeys(dtype for row in rows for dtype in row.dtypes)
    raise ImportFailed(f"{x.dtype} input: only {', '.join(dtypes)} is supported yet")


def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite's reductions over constant axes."""
    row, x = _row(raw), raw.operand(0).type
    axes = known_axes(constant_integers(raw.operand(1), "the axes"), x)
    is_rescaled = x.quant is not None and not row.chooses
    output = raw.declared().quant if is_rescaled else None
    if is_rescaled and raw.rounding == "single" and not raw.unsigned:
        raise ImportFailed("LiteRT's sums of int8 and int16 are wrong: it limits them like uint8")
    attrs = ReduceAttrs(axes, row.name, output)
    return _appended(builder, raw, attrs, keep=bool(raw.attribute("keep_dims")))


def import_onnx(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX's reductions over constant axes, which are an attribute or an input; none means all."""
    x = raw.operand(0).type
    given = [int(axis) for axis in raw.attribute("axes", ())]
    if raw.optional(1) is not None:
        given = constant_integers(raw.operand(1), "the axes")
    if not given and not raw.attribute("noop_with_empty_axes", 0):
        given = list(range(len(x.shape)))
    axes = known_axes(given, x)
    attrs = ReduceAttrs(axes, _row(raw).name)
    return _appended(builder, raw, attrs, keep=bool(raw.attribute("keepdims", 1)))


def _appended(builder: GraphBuilder, raw: RawNode, attrs: ReduceAttrs, *, keep: bool) -> Value:
    """A reduction; over the used length of an axis where it depends on data."""
    axes, x = attrs.axes, raw.operand(0)
    if not is_open(builder, raw, axes) or x.type.quant is not None:
        return without_axes(builder, raw, "reduce", attrs, axes, keep)
    whole = filled(builder, raw, axes, BY_NAME[attrs.kind].neutral(x.type.dtype))
    if attrs.kind != "mean":
        return without_axes(builder, whole, "reduce", attrs, axes, keep)
    if not is_float(x.type.dtype):
        raise ImportFailed("a mean of integers whose number depends on the data is not supported")
    parts = Parts(builder, raw)
    total = parts.op("reduce", [whole.operand(0)], replace(attrs, kind="sum"), "sum")
    count = parts.cast(elements_in_use(builder, raw, axes), x.type.dtype, "count_in_use")
    divisor = parts.reshaped(count, [1] * len(x.type.shape))
    mean = parts.op("div", [total, divisor], what="mean")
    rest = [e for axis, e in enumerate(total.type.shape) if keep or axis not in axes]
    return parts.reshaped_last(mean, rest)


for _kind in dict.fromkeys(row.onnx for row in ROWS if row.onnx):
    from_onnx(_kind)(import_onnx)
for _kind in dict.fromkeys(row.tflite for row in ROWS if row.tflite):
    from_tflite(_kind)(import_tflite)
