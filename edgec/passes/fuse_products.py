"""Layers with weights and products of matrices between dequantize and quantize, as integers.

See `edgec.passes.fuse_qdq`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.traits import StoredAs
from edgec.graph.types import Array, Quant
from edgec.numerics.fixed_point import MOST_SHORT_SHIFT, Rounding
from edgec.ops.requantize import Requantize, RequantizeAttrs
from edgec.passes.rewriter import Rewriter


def accumulate(
    rewriter: Rewriter,
    above: Node,
    integers: Sequence[Value | None],
    result: StoredAs,
    identity: dict[str, Any],
) -> Value | None:
    """Sums of integers and their requantize; None where there is no integer form.

    above: the float operator. integers: the stored form of its dequantized operands. result: how it
    is stored. identity: name, provenance and sources of the new nodes.
    """
    x, weights = integers[0], _symmetric(rewriter, integers[1], above)
    if x is None or weights is None or weights.type.quant is None:
        return None
    if x.type.quant is None or not x.type.quant.per_tensor:
        return None
    rounding = result.rounding
    bias = _integer_bias(rewriter, above, integers, weights, x.type.quant.scale[0])
    if bias is None:
        return None
    if x.type.dtype == "int16":
        if x.type.quant.zero_point[0]:
            return None
        bias = rewriter.builder.constant(bias.name, bias.data.astype(np.int64), None, bias.origin)
        rounding = "tflm16"
    factors = multipliers(
        x.type.quant.scale[0], weights.type.quant.scale, result.quant.scale[0], rounding
    )
    if rounding == "tflm16" and max(factors) >= 2**MOST_SHORT_SHIFT:
        return None
    accumulators = rewriter.builder.op(
        above.op,
        [x, weights, bias],
        above.attrs,
        name=above.name,
        output_names=[f"{above.name}.accumulators"],
        sources=above.sources,
    )
    attrs = RequantizeAttrs(
        multiplier=factors,
        output=result.quant,
        minimum=result.minimum,
        maximum=result.maximum,
        rounding=rounding,
        dtype=result.dtype,
    )
    return rewriter.builder.op(Requantize, [accumulators], attrs, **identity)


def multiply(
    rewriter: Rewriter,
    above: Node,
    integers: Sequence[Value | None],
    result: StoredAs,
    identity: dict[str, Any],
) -> Value | None:
    """Products of two stored matrices and their requantize; None where there are none."""
    operands = [value for value in integers if value is not None]
    if len(operands) != len(integers):
        return None
    try:
        accumulators = rewriter.builder.op(
            above.op, operands, above.attrs, name=above.name,
            output_names=[f"{above.name}.accumulators"], sources=above.sources,
        )  # fmt: skip
    except TypeMismatch:
        return None
    (first, _), (second, _) = (value.type.scalar_quant() for value in operands)
    rounding = "tflm16" if accumulators.type.dtype == "int64" else result.rounding
    factors = multipliers(first, (second,), result.quant.scale[0], rounding)
    if rounding == "tflm16" and factors[0] >= 2**MOST_SHORT_SHIFT:
        return None
    attrs = RequantizeAttrs(
        factors, result.quant, result.minimum, result.maximum, rounding, result.dtype
    )
    return rewriter.builder.op(Requantize, [accumulators], attrs, **identity)


def _symmetric(rewriter: Rewriter, weights: Value | None, above: Node) -> Constant | None:
    """Constant weights of int8 with zero points of 0, which are subtracted if the rest fits.

    None for scales along another axis than the outputs': sums of products have none in common.
    """
    if not isinstance(weights, Constant) or weights.type.quant is None:
        return None
    quant, products = weights.type.quant, above.op.products
    if len(quant.scale) > 1 and (products is None or quant.axis != products.outputs):
        return None
    if not any(quant.zero_point):
        return weights
    zeros = np.asarray(quant.zero_point, np.int64)
    if quant.axis is not None:
        zeros = zeros.reshape([-1 if a == quant.axis else 1 for a in range(weights.data.ndim)])
    centred = weights.data.astype(np.int64) - zeros
    if weights.type.dtype != "int8" or centred.min() < -128 or centred.max() > 127:
        return None
    symmetric = Quant(quant.scale, (0,) * len(quant.scale), quant.axis)
    return rewriter.builder.constant(weights.name, centred.astype(np.int8), symmetric)


def _integer_bias(
    rewriter: Rewriter, above: Node, integers: Sequence[Value | None], weights: Constant, x: float
) -> Constant | None:
    """The bias as int32 in the accumulators' scale.

    A stored one is taken as it is (its own scale is ignored, as the runtime's kernels do). A float
    one, as training leaves it, is rounded as ONNX Runtime does: the division in float32, halves to
    even.
    """
    bias, given = integers[2], above.inputs[2]
    if bias is not None:
        if not isinstance(bias, Constant) or bias.type.dtype != "int32":
            return None
        return rewriter.builder.constant(f"{bias.name}.int32", bias.data, None, bias.origin)
    if not isinstance(given, Constant) or not np.all(np.isfinite(given.data)):
        return None
    assert weights.type.quant is not None
    scale = np.float32(x) * np.asarray(weights.type.quant.scale, np.float32)
    return rewriter.builder.constant(f"{given.name}.int32", rounded_bias(given.data, scale))


def rounded_bias(bias: Array, scale: Array) -> Array:
    """Float32 numbers in int32 steps of these scales."""
    limits = np.iinfo(np.int32)
    with np.errstate(over="ignore", divide="ignore"):
        steps = np.rint(bias.astype(np.float32) / scale).astype(np.float64)
    steps = np.nan_to_num(steps)  # nothing of nothing
    return np.asarray(np.clip(steps, limits.min, limits.max), np.int32)


def multipliers(
    x: float, weights: tuple[float, ...], y: float, rounding: Rounding
) -> tuple[float, ...]:
    """Real multipliers from accumulators to stored outputs.

    `onnx`: in float32, from left to right, as ONNX Runtime's QLinearConv does. Otherwise in
    double, where the product of two float32 scales is exact (TFLite's rule for convolutions).
    """
    if rounding != "onnx":
        return tuple(x * w / y for w in weights)
    single = np.float32
    return tuple(float(single(single(x) * single(w)) / single(y)) for w in weights)
