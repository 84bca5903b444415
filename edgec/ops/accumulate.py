"""Shared by the lowering of convolutions and dense layers: ranges, offsets, rescaling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from edgec.graph.ir import Node
from edgec.graph.types import Array
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, cast, int32, int64, intrinsic
from edgec.numerics.fixed_point import quantize_multiplier, short_multiplier, wrap_int32
from edgec.numerics.ordered_sum import without_negative_zeros


def weight_sums(weights: Array, axis: int | tuple[int, ...]) -> Array:
    """The sum of each output's integer weights; zeros for float weights."""
    integers = weights if weights.dtype.kind == "i" else np.zeros_like(weights, np.int8)
    return np.asarray(integers.sum(axis=axis, dtype=np.int64))


def fold_offset(node: Node, bias: Array, sums: Array) -> tuple[int, Array]:
    """The offset to add to each input, and the bias.

    sum((x - z) * w) + bias = sum(x * w) + (bias - z * sum(w)), exact modulo 2**32; but only when
    every window sees all weights, that is without padding.
    """
    quant = node.inputs[0].type.quant
    if quant is None:
        return 0, folded_bias(node, bias, sums)
    padding = getattr(node.attrs, "padding", ())
    if any(any(pair) for pair in padding):
        return -quant.zero_point[0], bias
    return 0, folded_bias(node, bias, sums)


def folded_bias(node: Node, bias: Array, sums: Array) -> Array:
    """The bias for inputs with their zero point left on, padding included."""
    quant = node.inputs[0].type.quant
    if node.output.type.is_float:
        return without_negative_zeros(bias)
    if quant is None or not quant.zero_point[0]:
        return bias
    folded = bias.astype(np.int64) - quant.zero_point[0] * sums.astype(np.int64)
    return wrap_int32(folded).astype(np.int32)


def widened(x: Value, accumulator: Value, offset: int) -> Value:
    """An input element in the accumulator's type, its zero point taken off."""
    wide = cast(x, accumulator.dtype)
    return wide + offset if offset else wide


def rescale(
    target: Lowering, multipliers: Sequence[float], rounding: str, dtype: str = "int32"
) -> Callable[[Value, Any], Value]:
    """A function (accumulator, channel) -> rounded integer; one or per-channel multipliers.

    dtype: of the accumulators.
    """
    single = len(multipliers) == 1
    if rounding == "tflm16":
        return _rescale_short(target, multipliers, dtype)
    if rounding == "onnx":
        scales = target.table("scale", np.asarray(multipliers, np.float32))
        return lambda acc, channel: intrinsic(
            "requantize_onnx", acc, scales[0 if single else channel]
        )
    pairs = [quantize_multiplier(m) for m in multipliers]
    factors = target.table("multiplier", np.asarray([p[0] for p in pairs], np.int32))
    shifts = target.table("shift", np.asarray([p[1] for p in pairs], np.int8))
    name = "requantize_tflm" if rounding == "tflm" else "requantize_single"
    if rounding == "tflm" and all(shift <= 0 for _, shift in pairs):
        name = "requantize_tflm_right"

    def scaled(acc: Value, channel: Any) -> Value:
        index = 0 if single else channel
        return intrinsic(name, acc, factors[index], int32(shifts[index]))

    return scaled


def _rescale_short(
    target: Lowering, multipliers: Sequence[float], dtype: str
) -> Callable[[Value, Any], Value]:
    """`rescale` by 15-bit multipliers: of an int32, by the upper half of one product."""
    single = len(multipliers) == 1
    pairs = [short_multiplier(m) for m in multipliers]
    by_high = dtype == "int32" and all(shift >= 18 for _, shift in pairs)
    if by_high:
        pairs = [(multiplier << 15, shift - 17) for multiplier, shift in pairs]
    factors = target.table("multiplier", np.asarray([p[0] for p in pairs], np.int32))
    shifts = target.table("shift", np.asarray([p[1] for p in pairs], np.int8))
    name = "requantize_tflm16_high" if by_high else "requantize_tflm16"

    def scaled(acc: Value, channel: Any) -> Value:
        index = 0 if single else channel
        value = acc if by_high else int64(acc)
        return intrinsic(name, value, factors[index], int32(shifts[index]))

    return scaled
