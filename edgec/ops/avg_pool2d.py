"""avg_pool2d: the mean of each window over the elements that exist (padding is not counted)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node
from edgec.graph.ir import Value as GraphValue
from edgec.graph.operator import AttrsT, Fusion, RowWindow, register
from edgec.graph.traits import Channels, IntegerForm, Interval, Operand, StoredAs
from edgec.graph.types import Quant, TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, cast, clamp, index, int32, select
from edgec.loop.window import clipped
from edgec.numerics.fixed_point import Rounding
from edgec.ops.activation import activation_range, append_activation, check_range
from edgec.ops.broadcast import tensors_of
from edgec.ops.intervals import clamped
from edgec.ops.onnx_graph import OnnxGraph, write_pool
from edgec.ops.onnx_pool import real_element, stored_value
from edgec.ops.op import Op, RawNode, SumParts, from_tflite
from edgec.ops.window import NO_PADDING, Padding, Pair, output_extent, tflite_padding, window_steps


@dataclass(frozen=True)
class AvgPool2dAttrs:
    """kernel, stride: (height, width). padding: ((top, bottom), (left, right)).

    output: quantization of an integer mean, None for floats. minimum, maximum: inclusive range of
    the stored mean; ignored for floats. rounding: `tflm` and `single` are the same here; `onnx`
    see `edgec.ops.onnx_pool`. ties_up: halves are rounded up instead of away from zero, as TFLite
    does with values that its file has as uint8.
    """

    kernel: Pair
    stride: Pair
    padding: Padding = NO_PADDING
    output: Quant | None = None
    minimum: int = -128
    maximum: int = 127
    rounding: Rounding = "tflm"
    ties_up: bool = False


#: Elements of a window whose sum, and half their number, int32 holds.
MOST_TAPS = {"int8": 1 << 23, "int16": 1 << 15}
#: Element types of pools.
POOLED = ("int8", "int16", "float32")


def pool_type(name: str, x: TensorType, kernel: Pair, stride: Pair, padding: Padding) -> TensorType:
    """The type of a pool's result; x [N, H, W, C] and the result share dtype and quantization."""
    if len(x.shape) != 4:
        raise TypeMismatch(f"{name} needs an input of rank 4, not {x}")
    if x.dtype not in POOLED:
        raise TypeMismatch(f"{name} needs int8, int16 or float32, not {x}")
    if x.quant is not None and not x.quant.per_tensor:
        raise TypeMismatch(f"{name} needs quantization per tensor")
    height, width = (
        output_extent(x.shape[axis + 1], kernel[axis], stride[axis], 1, padding[axis])
        for axis in (0, 1)
    )
    return x.with_shape((x.shape[0], height, width, x.shape[3]))


class Pool2d(Op[AttrsT]):
    """The base class of both pools; their attributes have a kernel, a stride and a padding."""

    fusion = Fusion.REDUCTION
    clamps = True
    keeps_factors = True

    def row_window(self, attrs: Any, inputs: Types) -> RowWindow | None:
        """Return the window's height and stride."""
        return RowWindow(attrs.kernel[0], attrs.stride[0], attrs.padding[0][0])

    def steps(self, attrs: Any, inputs: Types) -> int:
        """Count the steps of many large windows."""
        return window_steps(self.infer(attrs, *inputs)[0], attrs.kernel)

    def attrs_for_rows(self, attrs: Any, top: int, bottom: int) -> Any:
        """Return the attributes with the padding of this row."""
        return replace(attrs, padding=((top, bottom), attrs.padding[1]))

    def channels(self, attrs: Any, inputs: Types, output: TensorType) -> Channels:
        """A window takes in rows and columns alone."""
        return Channels.SAME


@register
class AvgPool2d(Pool2d[AvgPool2dAttrs]):
    """x [N, H, W, C] -> [N, OH, OW, C], int8, int16 or float32.

    Integers as TFLite Micro: the sum of stored values divided by their count, ties away from zero;
    scales play no part (the output's are the input's in any sound model). float32: the sum, row by
    row, and one division.
    """

    name = "avg_pool2d"
    attrs_class = AvgPool2dAttrs
    tolerance = 2e-6
    integer_form = IntegerForm.MEAN

    def attrs_at(self, attrs: AvgPool2dAttrs, largest: Types, inputs: Types) -> AvgPool2dAttrs:
        """A window of the whole height or width stays that."""
        before, now = largest[0].shape[1:3], inputs[0].shape[1:3]
        height, width = (
            few if size == extent else size
            for size, extent, few in zip(attrs.kernel, before, now, strict=True)
        )
        return replace(attrs, kernel=(height, width))

    def infer(self, attrs: AvgPool2dAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Extents by the window's geometry, with the output's quantization."""
        (x,) = inputs
        pooled = pool_type(self.name, x, attrs.kernel, attrs.stride, attrs.padding)
        if x.is_float:
            return (pooled,)
        if attrs.rounding == "onnx" and (x.quant is None or attrs.output is None):
            raise TypeMismatch("avg_pool2d as ONNX Runtime needs quantized input and output")
        if attrs.rounding == "onnx" and x.dtype != "int8":
            raise TypeMismatch(f"avg_pool2d of {x.dtype} with rounding 'onnx' is not defined")
        check_range(x, attrs.minimum, attrs.maximum)
        if attrs.kernel[0] * attrs.kernel[1] > MOST_TAPS[x.dtype]:
            raise TypeMismatch(f"a sum of {attrs.kernel} elements may not fit in 32 bits")
        return (TensorType(pooled.shape, x.dtype, attrs.output),)

    def sums_rows(self, attrs: AvgPool2dAttrs, inputs: Types) -> bool:
        """A pool over the whole image."""
        x = inputs[0]
        whole = attrs.kernel == x.shape[1:3] and attrs.padding == NO_PADDING
        return whole and x.dtype == "int8" and attrs.rounding != "onnx"

    def lower_sum(self, node: Node, parts: SumParts) -> None:
        """Sums of each channel in int32, divided at the end."""
        attrs: AvgPool2dAttrs = node.attrs
        _, height, width, channels = node.inputs[0].type.shape
        start, add, finish = parts.start, parts.add, parts.finish
        sums = (1, 1, 1, channels)
        start.definition.compute(start.output("out", sums, "int32"), lambda n, h, w, c: 0)
        x = add.input("x", (1, 1, width, channels), "int8")
        before = add.input("total", sums, "int32")
        acc = add.definition.reduce(
            "acc",
            [("kw", 0, width)],
            init=lambda n, h, w, c: before[n, h, w, c],
            update=lambda acc, n, h, w, c, kw: acc + int32(x[n, h, kw, c]),
            shape=sums,
            dtype="int32",
        )
        add.definition.compute(add.output("out", sums, "int32"), lambda *at: acc[at])
        total, count = finish.input("total", sums, "int32"), height * width

        def mean(*at: Any) -> Any:
            rounded = _rounded(attrs, total[at], count, count // 2)
            return cast(clamp(rounded, attrs.minimum, attrs.maximum), "int8")

        finish.definition.compute(finish.output("out", node.output.type.shape, "int8"), mean)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Sum the elements of each window inside x, then divide by their number, rounding half
        away.
        """
        attrs: AvgPool2dAttrs = node.attrs
        (x,) = tensors_of(inputs)
        is_float = node.output.type.is_float
        as_onnx = _as_onnx(attrs, node.inputs[0].type)
        wide = "float32" if is_float or as_onnx is not None else "int32"
        (stride_h, stride_w), ((top, _), (left, _)) = attrs.stride, attrs.padding
        rows = clipped(x.shape[1], attrs.kernel[0], stride_h, 1, top)
        columns = clipped(x.shape[2], attrs.kernel[1], stride_w, 1, left)

        def real(value: Value) -> Value:
            return cast(value, wide) if as_onnx is None else real_element(value, as_onnx[0])

        total = target.definition.reduce(
            "acc",
            [
                ("kh", lambda n, h, w, c: rows[0](h), lambda n, h, w, c: rows[1](h)),
                ("kw", lambda n, h, w, c: columns[0](w), lambda n, h, w, c: columns[1](w)),
            ],
            init=lambda n, h, w, c: 0,
            update=lambda acc, n, h, w, c, kh, kw: (
                acc + real(x[n, h * stride_h + kh - top, w * stride_w + kw - left, c])
            ),
            shape=node.output.type.shape,
            dtype=wide,
        )

        def mean(*at: Any) -> Any:
            _, h, w, _ = at
            counts = (rows[1](h) - rows[0](h), columns[1](w) - columns[0](w))
            count = index(counts[0]) * index(counts[1])
            if is_float:
                return total[at] / cast(count, wide)
            if as_onnx is not None:
                rounded = stored_value(total[at] / cast(count, wide), *as_onnx)
            else:
                rounded = _rounded(attrs, total[at], count, count / 2)
            return cast(clamp(rounded, attrs.minimum, attrs.maximum), node.output.type.dtype)

        return target.compute("element", node.output.type.shape, node.output.type.dtype, mean)

    def attrs_for_integers(
        self, attrs: AvgPool2dAttrs, inputs: Types, result: StoredAs
    ) -> AvgPool2dAttrs | None:
        """TFLite's mean does not rescale."""
        if result.rounding != "onnx" and inputs[0].quant != result.quant:
            return None
        return replace(
            attrs,
            output=result.quant,
            minimum=result.minimum,
            maximum=result.maximum,
            rounding=result.rounding,
        )

    def interval(
        self, attrs: AvgPool2dAttrs, operands: Sequence[Operand], output: TensorType
    ) -> Interval | None:
        """A mean lies between its elements; with ONNX's rounding it is rescaled, so unknown."""
        if attrs.rounding == "onnx":
            return None
        return clamped(operands[0], output, attrs.minimum, attrs.maximum)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """AveragePool."""
        write_pool(out, node, "AveragePool")


def _rounded(attrs: AvgPool2dAttrs, total: Value, count: Any, half: Any) -> Value:
    """The mean of some stored values by their sum; sums of uint8 are not negative."""
    mean: Value = (total + count * 128 + half) / count - 128
    if not attrs.ties_up:
        mean = select(total > 0, total + half, total - half) / count
    return mean


def _as_onnx(attrs: AvgPool2dAttrs, x: TensorType) -> tuple[Quant, Quant] | None:
    """Quantization of input and output where ONNX Runtime's arithmetic is asked for."""
    if x.is_float or attrs.rounding != "onnx":
        return None
    assert x.quant is not None and attrs.output is not None
    return x.quant, attrs.output


def tflite_pool(raw: RawNode) -> tuple[Pair, Pair, Padding, int, int]:
    """(kernel, stride, padding, minimum, maximum) of a TFLite pool of POOLED values.

    For floats the range is the range of int8, and has no meaning.
    """
    declared = raw.output_types[0]
    if declared is None:
        raise ImportFailed("an input is absent")
    x = raw.operand(0).type
    if x.dtype not in POOLED:
        raise ImportFailed(f"{x.dtype} input: only {', '.join(POOLED)} are supported")
    if len(x.shape) != 4:
        raise ImportFailed("the input is not of rank 4")
    kernel, stride = raw.attribute("kernel"), raw.attribute("stride")
    padding = tflite_padding(raw, x.shape[1:3], kernel, stride)
    if x.is_float:
        return kernel, stride, padding, -128, 127
    minimum, maximum = activation_range(raw.attribute("fused_activation", "NONE"), declared)
    return kernel, stride, padding, minimum, maximum


@from_tflite("AVERAGE_POOL_2D")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """TFLite AVERAGE_POOL_2D."""
    kernel, stride, padding, minimum, maximum = tflite_pool(raw)
    declared = raw.output_types[0]
    if raw.operand(0).type.is_float:
        pool = AvgPool2dAttrs(kernel, stride, padding)
        return append_activation(builder, raw, "avg_pool2d", raw.operands(), pool)
    attrs = AvgPool2dAttrs(
        kernel, stride, padding, declared.quant if declared else None, minimum, maximum,
        raw.rounding, raw.unsigned,
    )  # fmt: skip
    return builder.op("avg_pool2d", raw.operands(), attrs, name=raw.name)
