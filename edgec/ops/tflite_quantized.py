"""TFLite's element-wise operators on quantized integers, as TFLite Micro's kernels compute them.

Operands are lifted to one scale, combined as int32, and requantized. Functions of one int8 operand
are tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.graph.types import Array, TensorType
from edgec.numerics.fixed_point import (
    quantize_multiplier,
    requantize_tflm,
    round_half_away,
    rounding_divide_by_power_of_two,
    rounding_doubling_high_multiply,
    saturating_shift_left,
)
from edgec.ops.cumulate import cumulate_attrs
from edgec.ops.integer_root import append_root
from edgec.ops.lift import LiftAttrs
from edgec.ops.lookup import LookupAttrs
from edgec.ops.lookup_int16 import LookupInt16Attrs
from edgec.ops.mul import MulAttrs
from edgec.ops.op import RawNode
from edgec.ops.parts import Parts
from edgec.ops.quantize import QuantizeAttrs
from edgec.ops.requantize import RequantizeAttrs
from edgec.ops.row import OF_STORED
from edgec.ops.table import OPERANDS

#: Bits by which comparisons, and sums of many, raise operands: comparisons.cc, add_n.cc, cumsum.cc.
COMPARED_BITS, SUM_BITS = 8, 20
#: Bits by which differences raise theirs, by dtype. Source: squared_difference.cc.
DIFFERENCE_BITS = {"int8": 7, "int16": 0}


def _require(raw: RawNode, *dtypes: str) -> float:
    """The declared scale. Raises ImportFailed for operands that are not of one scale each."""
    for type_ in (raw.declared(), *(value.type for value in raw.operands())):
        if type_.dtype not in dtypes or type_.quant is None or not type_.quant.per_tensor:
            raise ImportFailed(f"{type_}: only {' and '.join(dtypes)} of one scale are supported")
    return raw.declared().scalar_quant()[0]


def _requantized(parts: Parts, declared: TensorType, acc: Value, factor: float) -> Value:
    if declared.quant is None:
        raise ImportFailed(f"the output is {declared}, without quantization")
    info = np.iinfo(declared.dtype)
    attrs = RequantizeAttrs((factor,), declared.quant, int(info.min), int(info.max), "tflm",
                            declared.dtype)  # fmt: skip
    return parts.op("requantize", [acc], attrs)


def _compare(builder: GraphBuilder, raw: RawNode) -> Value:
    """The comparisons of any two scales below 1; LiteRT compares stored int16 directly."""
    parts, scales = Parts(builder, raw), [x.type.scalar_quant()[0] for x in raw.operands(2)]
    orders = raw.kind not in ("EQUAL", "NOT_EQUAL")
    if orders and all(x.type.dtype == "int16" for x in raw.operands()):
        stored = [parts.numbers(x, what=f"number{n}") for n, x in enumerate(raw.operands())]
        return parts.op(raw.kind.lower(), stored)
    if max(scales) >= 1:
        raise ImportFailed(f"scales {scales}: TFLite compares only scales below 1")
    lifted = [
        parts.op("lift", [x], LiftAttrs(COMPARED_BITS, scale), f"real{number}")
        for number, (x, scale) in enumerate(zip(raw.operands(2), scales, strict=True))
    ]
    return parts.op(raw.kind.lower(), lifted)


def _squared_difference(builder: GraphBuilder, raw: RawNode) -> Value:
    output, parts, (a, b) = _require(raw, "int8", "int16"), Parts(builder, raw), raw.operands(2)
    bits, scales = DIFFERENCE_BITS[a.type.dtype], [x.type.scalar_quant()[0] for x in (a, b)]
    twice = 2 * max(scales)
    lifted = [
        parts.op("lift", [x], LiftAttrs(bits, scale / twice), f"real{number}")
        for number, (x, scale) in enumerate(zip((a, b), scales, strict=True))
    ]
    difference = parts.op("int_sub", lifted, what="difference")
    square = parts.op("int_mul", [difference, difference], what="square")
    factor = twice * twice / ((1 << 2 * bits) * output)
    return _requantized(parts, raw.declared(), square, factor)


def _abs(builder: GraphBuilder, raw: RawNode) -> Value:
    output, parts, (x,) = _require(raw, "int8", "int16"), Parts(builder, raw), raw.operands(1)
    size = parts.op("abs", [parts.op("lift", [x], LiftAttrs(), "difference")], what="size")
    return _requantized(parts, raw.declared(), size, x.type.scalar_quant()[0] / output)


def append_sum_of_many(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite ADD_N of int8 of one scale; sums begin, as TFLite Micro's do, with a stored 0."""
    output, parts, operands = _require(raw, "int8"), Parts(builder, raw), raw.operands()
    if any(x.type.quant != operands[0].type.quant for x in operands):
        raise ImportFailed("its operands have different scales")
    total, factor = _start(parts, operands[0], output)
    for number, x in enumerate(operands):
        share = parts.op("lift", [x], LiftAttrs(SUM_BITS, 0.5), f"real{number}")
        total = parts.op("int_add", [total, share], what=f"sum{number}")
    return _requantized(parts, raw.declared(), total, factor)


def append_cumulated(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite CUMSUM of int8, whose sums begin so, too."""
    x, parts, declared = raw.operand(0), Parts(builder, raw), raw.declared()
    if x.type.dtype != "int8" or declared.dtype != "int8":
        raise ImportFailed(f"{x.type}: only int8 is supported")
    real = parts.op("lift", [x], LiftAttrs(SUM_BITS, 0.5), "real")
    sums = parts.op("cumulate", [real], cumulate_attrs(raw), "sums")
    start, factor = _start(parts, x, declared.scalar_quant()[0])
    moved = parts.op("int_add", [sums, start], what="moved")
    return _requantized(parts, declared, moved, factor)


def _start(parts: Parts, x: Value, output: float) -> tuple[Value, float]:
    """The lifted stored 0 as a sum's start, and the factor from sums to the output's scale."""
    scale, zero_point = x.type.scalar_quant()
    raised = np.asarray(-zero_point * (1 << SUM_BITS))
    start = requantize_tflm(raised, *map(np.asarray, quantize_multiplier(0.5)))
    return parts.table(start, "start"), 2 * scale / ((1 << SUM_BITS) * output)


def _by_table(function: Callable[[float], float], builder: GraphBuilder, raw: RawNode) -> Value:
    """A function of real numbers by a table. Source: LUTPopulate of TFLite's common.h.

    Outside of the function's domain, where it is NaN, results are the smallest there are.
    """
    if raw.operand(0).type.dtype == "int16":
        return _by_int16_table(function, builder, raw)
    output, declared, (x,) = _require(raw, "int8"), raw.declared(), raw.operands(1)
    scale, zero_point = x.type.scalar_quant()
    real = np.float32(scale) * (OPERANDS - zero_point).astype(np.float32)
    ratio = _values(function, real, -math.inf) * (np.float32(1) / np.float32(output))
    rounded = round_half_away(np.clip(ratio.astype(np.float64), -1e6, 1e6))
    results = np.clip(rounded + declared.scalar_quant()[1], -128, 127).tolist()
    return builder.op("lookup", [x], LookupAttrs(tuple(results), declared.quant), name=raw.name)


def append_even_table(
    function: Callable[[float], float], builder: GraphBuilder, raw: RawNode
) -> Value:
    """A function of int8, halves rounded to even: LiteRT's XNNPACK sigmoid."""
    output, declared, (x,) = _require(raw, "int8"), raw.declared(), raw.operands(1)
    scale, zero_point = x.type.scalar_quant()
    real = np.float32(scale) * (OPERANDS - zero_point).astype(np.float32)
    steps = np.rint(_values(function, real, 0) * (np.float32(1) / np.float32(output)))
    results = np.clip(steps + declared.scalar_quant()[1], -128, 127).astype(int).tolist()
    return builder.op("lookup", [x], LookupAttrs(tuple(results), declared.quant), name=raw.name)


def _values(function: Callable[[float], float], real: Array, outside: Any) -> Array:
    made = np.array([function(float(each)) for each in real], np.float32)
    made[np.isnan(made)] = outside
    return made


def _by_int16_table(
    function: Callable[[float], float], builder: GraphBuilder, raw: RawNode
) -> Value:
    """The same for int16: 513 entries and linear interpolation.

    Each entry is corrected by half of the line's error in the middle of the interval. Source:
    LUTPopulateInt16 of TFLite's common.h, float by float.
    """
    scale, declared, (x,) = np.float32(_require(raw, "int16")), raw.declared(), raw.operands(1)
    low, high = (np.float32(x.type.scalar_quant()[0]) * np.float32(n) for n in (-32768, 32767))
    least, half = scale * np.float32(-32768), np.float32(0.5)
    by = np.float32(65536) / (scale * np.float32(32767) - least)
    step = (high - low) / np.float32(512)
    at = low + np.arange(513, dtype=np.float32) * step
    with np.errstate(all="ignore"):
        made, middles = (_values(function, r, least) * by for r in (at, at[:-1] + step * half))
        entries = _rounded(made)
        lines = _rounded((made[1:] + entries[:-1]) * half)
        entries[:-1] -= _rounded((lines - _rounded(middles)) * half)
        entries[-1:] = _rounded(_values(function, np.array([high]), least) * by)
    # Not a number, from powers beyond float32: a conversion to int16 makes 0 of it.
    entries = np.nan_to_num(np.clip(entries, -32768, 32767), nan=0)
    assert declared.quant is not None  # `_require` has seen its scale
    attrs = LookupInt16Attrs(tuple(entries.astype(int).tolist()), declared.quant)
    return builder.op("lookup_int16", [x], attrs, name=raw.name)


def _rounded(real: Array) -> Array:
    """The nearest whole float32, halves away from zero."""
    return np.asarray(np.trunc(real + np.copysign(np.float32(0.5), real)), np.float32)


def _gelu(builder: GraphBuilder, raw: RawNode) -> Value:
    """GELU in either form."""

    def function(x: float) -> float:
        if raw.attribute("approximate", False):
            return x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        return x / 2 * (1 + math.erf(x / math.sqrt(2)))

    return _by_table(function, builder, raw)


#: Bits that keep an inverse root an integer. Source: RsqrtEvalQuantized of elementwise.cc.
ROOT_BITS = 20


def _inverse_roots(builder: GraphBuilder, raw: RawNode) -> Value:
    """RSQRT by a table; of a real 0, or less, the largest result."""
    if raw.operand(0).type.dtype == "int16":
        if raw.rounding == "single":
            raise ImportFailed("LiteRT and TFLite Micro compute int16 roots differently")
        return append_root(builder, raw, of_rows=False)
    output, declared, (x,) = _require(raw, "int8"), raw.declared(), raw.operands(1)
    scale, zero_point = x.type.scalar_quant()
    multiplier, shift = quantize_multiplier(1 / (math.sqrt(scale) * output))
    results = []
    for value in (OPERANDS - zero_point).tolist():
        root, root_shift = inverse_root(max(value, 1))
        one = _rescaled(1, root, root_shift + ROOT_BITS)
        found = _rescaled(one, multiplier, shift - ROOT_BITS) + declared.scalar_quant()[1]
        results.append(min(max(found, -128), 127) if value > 0 else 127)
    return builder.op("lookup", [x], LookupAttrs(tuple(results), declared.quant), name=raw.name)


def _roots(builder: GraphBuilder, raw: RawNode) -> Value:
    """SQRT rounded down as LiteRT does; 0 for negative numbers, which LiteRT refuses.

    int8 takes a table, int16 floats.
    """
    output, declared, (x,) = _require(raw, "int8", "int16"), raw.declared(), raw.operands(1)
    scale, zero_point = x.type.scalar_quant()
    if x.type.dtype == "int16":
        return _int16_roots(Parts(builder, raw), x, declared, output)
    real = np.float32(scale) * np.maximum(OPERANDS - zero_point, 0).astype(np.float32)
    stored = np.floor(np.sqrt(real) / np.float32(output)) + declared.scalar_quant()[1]
    results = tuple(np.clip(stored, -128, 127).astype(int).tolist())
    return builder.op("lookup", [x], LookupAttrs(results, declared.quant), name=raw.name)


def _int16_roots(parts: Parts, x: Value, declared: TensorType, output: float) -> Value:
    zero, step = (parts.table(n, f"const{n:g}", "float32") for n in (0, output))
    assert declared.quant is not None  # `_require` has seen its scale
    least = parts.op("maximum", [parts.op("dequantize", [x], what="real"), zero], what="least")
    ratio = parts.op("div", [parts.op("sqrt", [least], what="root"), step], what="ratio")
    whole = parts.op("floor", [ratio], what="floor")
    real = parts.op("mul", [whole, step], MulAttrs(), "whole")
    return parts.op("quantize", [real], QuantizeAttrs(declared.quant, "int16"))


def _rescaled(value: int, multiplier: int, shift: int) -> int:
    return int(requantize_tflm(np.asarray(value), np.asarray(multiplier), np.asarray(shift)))


def inverse_root(value: int) -> tuple[int, int]:
    """(multiplier, shift) of 1 / sqrt(value) for a positive integer.

    Source: GetInvSqrtQuantizedMultiplierExp of TFLite's common.h: five steps of Newton's method in
    fixed point with 28 fraction bits.
    """
    if value <= 1:
        return 2**31 - 1, 0
    shift = 11
    while value >= 1 << 29:
        value, shift = value // 4, shift + 1
    pairs = (31 - value.bit_length()) // 2 - 1
    shift -= pairs
    value <<= 2 * pairs
    high = rounding_doubling_high_multiply
    given = np.asarray(value >> 1)
    half, x = rounding_divide_by_power_of_two(given, 1), np.asarray(1 << 28)
    three_halves = np.asarray((1 << 28) + (1 << 27))
    for _ in range(5):
        cube = saturating_shift_left(high(high(x, x), x), 6)
        x = saturating_shift_left(high(three_halves, x) - high(half, cube), 3)
    root = int(high(x, np.asarray(1518500250)))
    return (root << -shift, 0) if shift < 0 else (root, -shift)


OF_STORED |= {
    **dict.fromkeys(
        ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"), _compare
    ),
    "SQUARED_DIFFERENCE": _squared_difference, "ABS": _abs, "RSQRT": _inverse_roots,
    "SQRT": _roots,
    "ELU": partial(_by_table, lambda x: x if x >= 0 else math.expm1(x)),
    "LOG": partial(_by_table, lambda x: math.log(x) if x > 0 else math.nan),
    "GELU": _gelu,
    "EXP": partial(_by_table, lambda x: math.exp(min(x, 89.0))),
}  # fmt: skip
