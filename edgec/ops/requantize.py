"""requantize: integers of one scale to integers of another, clamp(round(x * m) + zero_point)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, register
from edgec.graph.traits import Interval, Operand, Storage
from edgec.graph.types import Quant, TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value as LoopValue
from edgec.loop.values import cast, clamp
from edgec.numerics.fixed_point import INT32_MAX, ROUNDINGS, Rounding, check_factors
from edgec.ops.accumulate import rescale
from edgec.ops.activation import activation_range, check_range
from edgec.ops.broadcast import tensors_of
from edgec.ops.intervals import by_corners
from edgec.ops.op import Op, RawNode


@dataclass(frozen=True)
class RequantizeAttrs:
    """Rescaling of accumulators, or of stored values minus their zero point, to stored values.

    multiplier: real factors, exact as doubles: one, or one for each index of the last axis.
    output: quantization of the result, per tensor. minimum, maximum: inclusive range of the
    stored result (the fused activation's). rounding: see `edgec.numerics.fixed_point`.
    """

    multiplier: tuple[float, ...]
    output: Quant
    minimum: int
    maximum: int
    rounding: Rounding
    dtype: str = "int8"


#: Factors that stored values of eight bits are multiplied by exactly.
WHOLE_STEPS = tuple(2.0**exponent for exponent in range(16))
#: Steps of int16 for one of int8: the most with which every difference from a zero point fits.
WIDENING = 128
#: Output dtypes.
STORED = ("int8", "uint8", "int16", "int32")


@register
class Requantize(Op[RequantizeAttrs]):
    """Requantize int32 or int64 accumulators, or a value that is quantized per tensor.

    Exact in every bit for each of the four roundings.
    """

    name = "requantize"
    attrs_class = RequantizeAttrs
    fusion = Fusion.ELEMENTWISE
    storage = Storage.REQUANTIZE
    clamps = True
    rescales = True

    def infer(self, attrs: RequantizeAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The input's shape with the output's dtype and quantization."""
        (acc,) = inputs
        if attrs.rounding not in ROUNDINGS:
            raise TypeMismatch(f"unknown rounding {attrs.rounding!r}")
        if acc.quant is not None and not (acc.quant.per_tensor and acc.dtype in STORED):
            raise TypeMismatch(f"requantize needs a value quantized per tensor, not {acc}")
        if acc.quant is None and acc.dtype not in ("int32", "int64"):
            raise TypeMismatch(f"requantize needs int32 or int64 accumulators, not {acc}")
        if acc.dtype == "int64" and attrs.rounding != "tflm16":
            raise TypeMismatch(f"rounding {attrs.rounding!r} is for int32 accumulators, not {acc}")
        check_factors(attrs.multiplier, attrs.rounding)
        if attrs.dtype not in STORED:
            raise TypeMismatch(f"requantize to {attrs.dtype} has no meaning")
        if not attrs.output.per_tensor:
            raise TypeMismatch("the result of requantize has one scale for the whole tensor")
        channels = acc.shape[-1] if acc.shape else 1
        if len(attrs.multiplier) not in (1, channels):
            raise TypeMismatch(f"{len(attrs.multiplier)} multipliers for {channels} channels")
        made = TensorType(acc.shape, attrs.dtype, attrs.output)
        check_range(made, attrs.minimum, attrs.maximum)
        return (made,)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Scale, round, move to the zero point, limit; parameters come from tables."""
        attrs: RequantizeAttrs = node.attrs
        (x,) = tensors_of(inputs)
        start = _zero_point(node.inputs[0].type)
        wide = "int64" if x.dtype == "int64" else "int32"
        multiplier = attrs.multiplier
        steps = _whole_steps(node.inputs[0].type, multiplier)
        scaled = (
            rescale(target, multiplier, attrs.rounding, wide)
            if steps is None
            else lambda acc, channel: acc if steps == 1 else acc * steps
        )
        zero_point = attrs.output.zero_point[0]
        fits = steps is not None and _fits(attrs, x.dtype, start, steps)

        def value(*indices: Any) -> LoopValue:
            acc = cast(x[indices], wide)
            rounded = scaled(acc - start if start else acc, indices[-1] if indices else 0)
            moved = rounded + zero_point if zero_point or not fits else rounded
            return cast(moved if fits else clamp(moved, attrs.minimum, attrs.maximum), attrs.dtype)

        return target.compute("element", node.output.type.shape, attrs.dtype, value)

    def attrs_for_channels(self, attrs: RequantizeAttrs, kept: Sequence[int]) -> RequantizeAttrs:
        """The multipliers of these channels."""
        if len(attrs.multiplier) == 1:
            return attrs
        return replace(attrs, multiplier=tuple(attrs.multiplier[c] for c in kept))

    def channel_facts(self, attrs: RequantizeAttrs, channels: int) -> Sequence[Hashable] | None:
        """The multiplier of each channel."""
        return attrs.multiplier if len(attrs.multiplier) == channels else None

    def interval(
        self, attrs: RequantizeAttrs, operands: Sequence[Operand], output: TensorType
    ) -> Interval | None:
        """The result is monotonic, unless a product may wrap."""
        acc = operands[0].interval
        if acc is None or any(multiplier < 0 for multiplier in attrs.multiplier):
            return None
        largest = max(int(np.abs(end).max(initial=0)) for end in acc)
        if largest * max(attrs.multiplier) >= INT32_MAX:
            return None
        return by_corners(self, attrs, operands, output)


def _whole_steps(x: TensorType, multiplier: tuple[float, ...]) -> int | None:
    """A factor whose product is exact: 1, 2, 4 and so on; None for all others.

    Each rounding then returns the product, which float32 holds exactly.
    """
    if x.quant is None or x.dtype not in ("int8", "uint8") or len(multiplier) != 1:
        return None
    (factor,) = multiplier
    return int(factor) if factor in WHOLE_STEPS else None


def _fits(attrs: RequantizeAttrs, dtype: str, start: int, steps: int) -> bool:
    """Whether no value of this dtype, times a factor after `start`, goes beyond the range."""
    info = np.iinfo(dtype)
    ends = ((end - start) * steps + attrs.output.zero_point[0] for end in (info.min, info.max))
    return all(attrs.minimum <= end <= attrs.maximum for end in ends)


def _zero_point(x: TensorType) -> int:
    """The zero point that is subtracted first; 0 for accumulators."""
    return 0 if x.quant is None else x.quant.zero_point[0]


def weight_scales(weights: TensorType, channels: int) -> tuple[float, ...]:
    """The scales of quantized weights, one or one for each output channel.

    Raises ImportFailed unless the weights are symmetric (zero point 0).
    """
    if weights.quant is None:
        raise ImportFailed("the weights are not quantized")
    if any(weights.quant.zero_point):
        raise ImportFailed("weights with a zero point other than 0 are not supported")
    if len(weights.quant.scale) not in (1, channels):
        raise ImportFailed(f"{len(weights.quant.scale)} weight scales for {channels} channels")
    return weights.quant.scale


#: The weights' dtype by the input's dtype.
_WEIGHTS_DTYPE = {"int8": "int8", "int16": "int8", "float32": "float32"}


def check_finite(weights: Constant) -> None:
    """Raise ImportFailed if float weights hold an infinity or a NaN.

    Padding contributes nothing, whether it is skipped or multiplied, only with finite weights.
    """
    if not np.isfinite(weights.data).all():
        raise ImportFailed(f"the weights {weights.name} hold an infinity or a NaN")


def tflite_operands(
    builder: GraphBuilder,
    raw: RawNode,
    channel_axis: int,
    *,
    wide_bias: tuple[str, ...] = ("int64",),
    hybrid: bool = False,
) -> tuple[Value, Constant, Value]:
    """(x, weights, bias) of a TFLite convolution or fully connected node, all checked.

    They are int8, int8 and int32; int16, int8 and one of `wide_bias`; all float32; or, where
    `hybrid` allows it, float32, int8 and float32. The bias, one number for each index of the
    weights' `channel_axis`, has the accumulators' dtype. A missing bias becomes zeros, of int64 for
    int16 as in TFLite Micro. Raises ImportFailed for other dtypes.
    """
    if len(raw.inputs) not in (2, 3) or None in raw.inputs[:2]:
        raise ImportFailed("it needs an input, weights and perhaps a bias")
    x, weights = raw.operand(0), raw.operand(1)
    if not isinstance(weights, Constant):
        raise ImportFailed("weights that are computed are not supported: they must be constants")
    dtype = x.type.dtype
    hybrid = hybrid and (dtype, weights.type.dtype) == ("float32", "int8")
    if not hybrid and weights.type.dtype != _WEIGHTS_DTYPE.get(dtype):
        raise ImportFailed(
            f"{dtype} input and {weights.type.dtype} weights: only both int8, int16 and int8, or"
            " both float32 are supported yet"
        )
    if x.type.is_float:
        if not hybrid:
            check_finite(weights)
    elif x.type.quant is None or not x.type.quant.per_tensor:
        raise ImportFailed("the input is not quantized per tensor")
    if len(weights.type.shape) <= channel_axis:
        raise ImportFailed(f"weights of rank {len(weights.type.shape)}")
    channels = weights.type.shape[channel_axis]
    bias = raw.optional(2)
    known = {"int8": ("int32",), "int16": wide_bias, "float32": ("float32",)}[dtype]
    if bias is None:
        bias = builder.constant(f"{raw.name}.bias", np.zeros(channels, known[-1]))
    elif bias.type.dtype not in known:
        raise ImportFailed(f"{bias.type.dtype} bias: {' or '.join(known)} is expected")
    elif not isinstance(bias, Constant):
        raise ImportFailed("a bias that is computed is not supported: it must be a constant")
    return x, weights, bias


def append_requantize(
    builder: GraphBuilder, raw: RawNode, accumulators: Value, multiplier: tuple[float, ...]
) -> Value:
    """Append the requantize of a TFLite node with its fused activation; `raw` declares the output.

    The value is named after the node; its operator node `<node>/requantize`.
    """
    declared = raw.output_types[0]
    if declared is None or declared.dtype not in ("int8", "int16") or declared.quant is None:
        raise ImportFailed("the output is not quantized int8 or int16")
    minimum, maximum = activation_range(raw.attribute("fused_activation", "NONE"), declared)
    is_wide = accumulators.type.dtype == "int64"
    rounding: Any = "tflm16" if is_wide else raw.rounding  # checked by infer
    attrs = RequantizeAttrs(
        multiplier=multiplier,
        output=declared.quant,
        minimum=minimum,
        maximum=maximum,
        rounding=rounding,
        dtype=declared.dtype,
    )
    return builder.op(
        "requantize", [accumulators], attrs, name=f"{raw.name}/requantize",
        output_names=[raw.name], sources=(raw.name,),
    )  # fmt: skip


def product_multipliers(
    x: TensorType, weights: tuple[float, ...], output: TensorType | None
) -> tuple[float, ...]:
    """input scale * weight scale / output scale, in double, one for each weight scale.

    Source: TFLite's PopulateConvolutionQuantizationParams.
    """
    if output is None or output.quant is None or not output.quant.per_tensor:
        raise ImportFailed("the output is not quantized per tensor")
    scale, _ = x.scalar_quant()
    return tuple(scale * weight / output.quant.scale[0] for weight in weights)
