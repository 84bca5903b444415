"""Dynamic range: float activations that are quantized when the model runs, for int8 weights.

    range_of_rows     the largest magnitude of each row
    quantize_rows     each row to int8 by its own scale, or to int8 less its own zero point
    rescale_rows      int32 accumulators back to float32

Each operation has the precision (float32 or float64) of TFLite's hybrid kernels. Source:
SymmetricQuantizeFloats, AsymmetricQuantizeFloats and MatrixBatchVectorMultiplyAccumulate in
TFLite's portable_tensor_utils.cc, HybridConvPerChannel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node
from edgec.graph.ir import Value as GraphValue
from edgec.graph.operator import Fusion, RowWindow, get_op, register
from edgec.graph.traits import Storage
from edgec.graph.types import Quant, TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, cast, clamp, intrinsic, maximum, minimum, select
from edgec.ops.activation import append_activation
from edgec.ops.broadcast import constant_of, tensors_of
from edgec.ops.op import Op, RawNode
from edgec.ops.parts import Parts
from edgec.ops.requantize import weight_scales

#: A row's largest size; its smallest value or 0; its largest value or 0.
SIZE, LOW, HIGH = "size", "low", "high"
#: Of integers that count steps of a scale which is known only at run time.
STEPS = Quant((1.0,), (0,))


@dataclass(frozen=True)
class RangeOfRowsAttrs:
    """kind: SIZE, LOW or HIGH."""

    kind: str = SIZE


@register
class RangeOfRows(Op[RangeOfRowsAttrs]):
    """x float32 [N, K] -> float32 [N]; a NaN counts as 0."""

    name = "range_of_rows"
    attrs_class = RangeOfRowsAttrs
    fusion = Fusion.REDUCTION

    def infer(self, attrs: RangeOfRowsAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """One number for each row."""
        (x,) = inputs
        if x.dtype != "float32" or len(x.shape) != 2:
            raise TypeMismatch(f"range_of_rows needs float32 of rank 2, not {x}")
        if attrs.kind not in (SIZE, LOW, HIGH):
            raise TypeMismatch(f"unknown range {attrs.kind!r}")
        return (TensorType(x.shape[:1], "float32"),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One comparison, or two, for each value."""
        kind = node.attrs.kind
        (x,) = tensors_of(inputs)

        def update(acc: Value, n: Any, k: Any) -> Value:
            value = x[n, k]
            if kind == LOW:
                return smaller(acc, value)
            return larger(larger(acc, value), -value) if kind == SIZE else larger(acc, value)

        return target.reduce(
            "acc",
            node.output.type.shape,
            "float32",
            [("k", 0, x.shape[1])],
            init=lambda n: 0.0,
            update=update,
        )


def larger(acc: Value, value: Value) -> Value:
    """The larger number; the first one if they are equal (zeros of any sign) or the second is a
    NaN.
    """
    limited: Value = maximum(value, acc)
    return limited


def smaller(acc: Value, value: Value) -> Value:
    """The smaller number; see `larger`."""
    limited: Value = minimum(value, acc)
    return limited


@dataclass(frozen=True)
class QuantizeRowsAttrs:
    """asymmetric: with a zero point for each row, so that its ends use all of int8."""

    asymmetric: bool = False


class _RowLoops:
    """Scale and zero point of each row, in the loop IR."""

    def __init__(self, target: Lowering, asymmetric: bool, ranges: Sequence[Tensor]) -> None:
        self.asymmetric = asymmetric
        self.ranges = ranges
        self.target = target

    def temporary(self, name: str, dtype: str, body: Any) -> Tensor:
        """A number for each row, computed once."""
        define = self.target.definition
        return define.compute(
            self.target.unique(name), body, shape=self.ranges[0].shape, dtype=dtype
        )

    def scale(self, n: Any) -> Value:
        """The row's scale, in float32."""
        if not self.asymmetric:
            return self.ranges[0][n] / 127.0
        return cast(self._wide_scale(n), "float32")

    def inverse(self, n: Any) -> Value:
        """The factor that scales values to integers, in float32."""
        if not self.asymmetric:
            return 127.0 / self.ranges[0][n]
        return 1.0 / self.scale(n)

    def zero_point(self, n: Any) -> Value:
        """The row's zero point, in int32."""
        low, high = self._ends(n)
        scale = self._wide_scale(n)
        from_low, from_high = low / scale, high / scale
        first = 128.0 - from_low < 127.0 + from_high
        point = select(first, -128.0 - from_low, 127.0 - from_high)
        rounded = clamp(intrinsic("round_half_away_f64", point), -128, 127)
        return select(low < high, rounded, 0)

    def _ends(self, n: Any) -> tuple[Value, Value]:
        low, high = (cast(tensor[n], "float64") for tensor in self.ranges)
        return low, high

    def _wide_scale(self, n: Any) -> Value:
        low, high = self._ends(n)
        return select(low < high, (high - low) / 255.0, 1.0)


def _check_ranges(op: str, asymmetric: bool, rows: int, ranges: Types) -> None:
    """TypeMismatch unless there is one range for each row, or two."""
    if len(ranges) != (2 if asymmetric else 1):
        raise TypeMismatch(f"{op} got {len(ranges)} ranges")
    if any(r.dtype != "float32" or r.shape != (rows,) for r in ranges):
        raise TypeMismatch(f"{op} needs one float32 range for each of {rows} rows")


@register
class QuantizeRows(Op[QuantizeRowsAttrs]):
    """(x float32 [N, K], size [N]) -> int8 [N, K]; asymmetric (x, low, high) -> int16 [N, K].

    The asymmetric result is the int8 value less its row's zero point, so that 0 stands for 0.0.
    """

    name = "quantize_rows"
    attrs_class = QuantizeRowsAttrs
    fusion = Fusion.OPAQUE
    storage = Storage.QUANTIZE_ROWS

    def infer(self, attrs: QuantizeRowsAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """x's shape, in steps of its rows' scales."""
        x, *ranges = inputs
        if x.dtype != "float32" or len(x.shape) != 2:
            raise TypeMismatch(f"quantize_rows needs float32 of rank 2, not {x}")
        _check_ranges(self.name, attrs.asymmetric, x.shape[0], ranges)
        return (TensorType(x.shape, "int16" if attrs.asymmetric else "int8", STEPS),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """The rows' factors once, then one product for each value."""
        attrs: QuantizeRowsAttrs = node.attrs
        x, *ranges = tensors_of(inputs)
        rows = _RowLoops(target, attrs.asymmetric, ranges)
        inverse = rows.temporary("inverse", "float32", rows.inverse)
        zero_point = (
            rows.temporary("zero_point", "int32", rows.zero_point) if attrs.asymmetric else None
        )

        def element(*at: Any) -> Value:
            row = at[:-1]
            scaled = x[at] * inverse[row]
            if zero_point is None:
                rounded = intrinsic("round_half_away_f32", scaled)
                return cast(clamp(rounded, -127, 127), "int8")
            start = zero_point[row]
            rounded = intrinsic("round_half_away_f32", cast(start, "float32") + scaled)
            return cast(clamp(rounded, -128, 127) - start, "int16")

        return target.compute("element", node.output.type.shape, node.output.type.dtype, element)


@dataclass(frozen=True)
class RescaleRowsAttrs:
    """scales: of the weights, float32 values: one, or one for each output channel.

    scales_first: whether TFLite multiplies both scales before the accumulator.
    """

    scales: tuple[float, ...]
    asymmetric: bool = False
    scales_first: bool = True


@register
class RescaleRows(Op[RescaleRowsAttrs]):
    """(acc int32 [N, ..., O], bias float32 [O], ranges [N] ...) -> float32 [N, ..., O].

    bias + acc * (row scale * weight scale), or bias + (acc * weight scale) * row scale, each
    operation rounded to float32.
    """

    name = "rescale_rows"
    attrs_class = RescaleRowsAttrs
    constant_inputs = (1,)
    fusion = Fusion.BROADCAST  # of the ranges: a clip after it joins its group
    storage = Storage.RESCALE_ROWS

    def infer(self, attrs: RescaleRowsAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The accumulators' shape in float32."""
        acc, bias, *ranges = inputs
        if acc.dtype != "int32" or len(acc.shape) < 2:
            raise TypeMismatch(f"rescale_rows needs int32 accumulators, not {acc}")
        if bias.dtype != "float32" or bias.shape != acc.shape[-1:]:
            raise TypeMismatch(f"rescale_rows needs a float32 bias for each channel, not {bias}")
        if len(attrs.scales) not in (1, acc.shape[-1]):
            raise TypeMismatch(f"{len(attrs.scales)} scales for {acc.shape[-1]} channels")
        _check_ranges(self.name, attrs.asymmetric, acc.shape[0], ranges)
        return (TensorType(acc.shape, "float32"),)

    def row_window(self, attrs: RescaleRowsAttrs, inputs: Types) -> RowWindow | None:
        return RowWindow()

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """The same three operations; a row's scale is computed once."""
        attrs: RescaleRowsAttrs = node.attrs
        acc, *ranges = tensors_of((inputs[0], *inputs[2:]))
        rows = _RowLoops(target, attrs.asymmetric, ranges)
        row_scale = rows.temporary("row_scale", "float32", rows.scale)
        scales = target.table("scale", np.asarray(attrs.scales, np.float32))
        biases = target.table("bias", constant_of(inputs[1]).data)

        def element(*at: Any) -> Value:
            wide = cast(acc[at], "float32")
            scale = scales[at[-1] if len(attrs.scales) > 1 else 0]
            row = row_scale[at[0]]
            product = wide * (row * scale) if attrs.scales_first else (wide * scale) * row
            return product + biases[at[-1]]

        return target.compute("element", node.output.type.shape, "float32", element)


def hybrid_rescale(weights: TensorType, channels: int, *, depthwise: bool) -> RescaleRowsAttrs:
    """Quantization of a hybrid convolution: with a zero point if its kernel works by channel.

    Source: TFLite's EvalHybridPerChannel and EvalHybrid (conv.cc, depthwise_conv.cc).
    """
    scales = weight_scales(weights, channels)
    by_channel = depthwise or len(scales) > 1
    return RescaleRowsAttrs(scales, asymmetric=by_channel, scales_first=not by_channel)


def append_hybrid(
    builder: GraphBuilder,
    raw: RawNode,
    op: str,
    operands: tuple[GraphValue, Constant, GraphValue],
    attrs: Any,
    rescale: RescaleRowsAttrs,
) -> GraphValue:
    """Append the operators of a node's TFLite hybrid kernel, with its fused activation.

    operands: float32 input, whose first axis are the rows, int8 weights as `op` reads them, and
    float32 bias.
    """
    x, weights, bias = operands
    acc, ranges = hybrid_sums(Parts(builder, raw), op, x, weights, attrs, rescale)
    return append_activation(builder, raw, "rescale_rows", [acc, bias, *ranges], rescale)


def hybrid_sums(
    parts: Parts,
    op: str,
    x: GraphValue,
    weights: Constant,
    attrs: Any,
    rescale: RescaleRowsAttrs,
    what: str = "",
) -> tuple[GraphValue, list[GraphValue]]:
    """The accumulators of float rows that are quantized first, and the ranges of these rows."""
    shape = x.type.shape
    rows = parts.reshaped(x, (shape[0], x.type.elements // shape[0]), f"{what}rows")
    ranges = [
        parts.op("range_of_rows", [rows], RangeOfRowsAttrs(kind), f"{what}{kind}")
        for kind in ((LOW, HIGH) if rescale.asymmetric else (SIZE,))
    ]
    quantize = QuantizeRowsAttrs(rescale.asymmetric)
    steps = parts.op("quantize_rows", [rows, *ranges], quantize, f"{what}quantize")
    steps = parts.reshaped(steps, shape, f"{what}shape")
    products = get_op(op).products
    assert products is not None
    zeros = parts.table(np.zeros(weights.type.shape[products.outputs]), f"{what}zeros")
    return parts.op(op, [steps, weights, zeros], attrs, f"{what}accumulate"), ranges
