"""TFLite operators that go element by element and are made of several rows."""

from __future__ import annotations

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.ops.add import AddAttrs
from edgec.ops.cast import CastAttrs
from edgec.ops.clip import ClipAttrs
from edgec.ops.mul import MulAttrs
from edgec.ops.op import RawNode, axis_of, from_tflite
from edgec.ops.parts import Parts
from edgec.ops.reduce import ReduceAttrs
from edgec.ops.scattered import AxisAttrs


@from_tflite("RIGHT_SHIFT", plain_bytes=True)
def import_right_shift(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite RIGHT_SHIFT; the amount is limited to 0 to width - 1."""
    x, amount = raw.operands(2)
    parts, most = Parts(builder, raw), 8 * np.dtype(x.type.dtype).itemsize - 1
    low, high = (
        parts.table(end, name, amount.type.dtype) for name, end in (("least", 0), ("most", most))
    )
    limited = parts.op("maximum", [amount, low], what="not_less")
    limited = parts.op("minimum", [limited, high], what="limited")
    return parts.op("shift_right", [x, limited])


@from_tflite("CAST")
def import_cast(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite CAST to the output's declared dtype; scales are ignored."""
    x, parts, dtype = raw.operand(0), Parts(builder, raw), raw.declared().dtype
    if x.type.is_quantized:
        x = parts.numbers(x, 128 if raw.unsigned else 0)
    result = builder.op("cast", [x], CastAttrs(dtype), name=raw.name)
    if raw.operand(0) in builder.undefined:
        builder.undefined.add(result)
    return result


@from_tflite("BITCAST", plain_bytes=True)
def import_bitcast(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite BITCAST: bits as another type; narrower ones lie along one axis more, lowest first."""
    (x,) = raw.operands(1)
    parts, to = Parts(builder, raw), raw.declared().dtype
    own, other = (8 * np.dtype(dtype).itemsize for dtype in (x.type.dtype, to))
    if own == other:
        return _bits(parts, x, to, "")
    places = parts.table(np.arange(0, max(own, other), min(own, other)), "places", f"uint{own}")
    whole = _bits(parts, x, f"uint{own}", "whole")
    if own > other:
        wide = parts.reshaped(whole, (*x.type.shape, 1), "wide")
        shifted = parts.op("shift_right", [wide, places], what="shifted")
        return _bits(parts, parts.cast(shifted, f"uint{other}", "part"), to, "")
    if x.type.shape[-1:] != (other // own,):
        raise ImportFailed(f"{x.type} as {to}: its last axis must be {other // own}")
    sum_bits = max(other, 32)
    places = parts.table(places.data, "places", f"uint{sum_bits}")
    wide = parts.cast(whole, f"uint{sum_bits}", "wide")
    shifted = parts.op("shift_left", [wide, places], what="shifted")
    axis = len(x.type.shape) - 1
    total = parts.op("reduce", [shifted], ReduceAttrs((axis,), "sum"), "total")
    total = parts.reshaped(total, x.type.shape[:-1], "joined")
    return _bits(parts, parts.cast(total, f"uint{other}", "bits"), to, "")


def _bits(parts: Parts, x: Value, dtype: str, what: str) -> Value:
    if x.type.dtype == dtype and what:
        return x
    return parts.op("bit_cast", [x], CastAttrs(dtype), what)


@from_tflite("FAKE_QUANT")
def import_fake_quant(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite FAKE_QUANT: quantizes and dequantizes floats; the range is moved to contain 0.

    Source: NudgeQuantizationRange and FakeQuantizeArray of TFLite's kernels, in float32.
    """
    (x,) = raw.operands(1)
    parts, single = Parts(builder, raw), np.float32
    bits = raw.attribute("num_bits")
    low, high = single(raw.attribute("low")), single(raw.attribute("high"))
    if raw.attribute("narrow_range", False):
        raise ImportFailed("a narrow range is not supported, as by LiteRT")
    if not (2 <= bits <= 16 and low <= 0 <= high and low < high):
        raise ImportFailed(f"a range of {low} to {high} in {bits} bits")
    last = single((1 << bits) - 1)
    scale = (high - low) / last
    zero = min(max(single(np.floor(-low / scale + single(0.5))), single(0)), last)
    lowest, highest = -zero * scale, (last - zero) * scale
    limited = parts.op("clip", [x], ClipAttrs(float(lowest), float(highest)), "limited")
    moved = parts.op("add", [limited, parts.table(-lowest, "up", "float32")], AddAttrs(), "moved")
    inverse = parts.table(single(1) / scale, "inverse", "float32")
    steps = parts.op("mul", [moved, inverse], MulAttrs(), "steps")
    whole = parts.op("floor", [steps], what="floor")
    rest = parts.op("sub", [steps, whole], AddAttrs(), "rest")
    half, one = (parts.table(n, name, "float32") for name, n in (("half", 0.5), ("one", 1)))
    is_more = parts.op("greater_equal", [rest, half], what="is_more")
    next_ = parts.op("add", [whole, one], AddAttrs(), "next")
    nearest = parts.op("where", [is_more, next_, whole], what="nearest")
    scaled = parts.op(
        "mul", [nearest, parts.table(scale, "scale", "float32")], MulAttrs(), "scaled"
    )
    return parts.op("add", [scaled, parts.table(lowest, "down", "float32")], AddAttrs())


@from_tflite("REVERSE_SEQUENCE")
def import_reverse_sequence(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite REVERSE_SEQUENCE: reverse the first `length` elements of each sample."""
    x, lengths = raw.operands(2)
    rank, parts = len(x.type.shape), Parts(builder, raw)
    along, batch = (axis_of(raw.attribute(key), rank) for key in ("seq_dim", "batch_dim"))
    steps, samples = x.type.shape[along], x.type.shape[batch]
    if along == batch or lengths.type.shape != (samples,):
        raise ImportFailed(f"lengths {lengths.type} for axes {along} and {batch} of {x.type}")
    # [N, T]: where each step of each sample comes from.
    places = parts.table(np.arange(steps).reshape(1, -1), "steps", lengths.type.dtype)
    column = parts.reshaped(lengths, (samples, 1), "column")
    last = parts.op("int_add", [column, parts.table(-1, "before", lengths.type.dtype)], what="last")
    backwards = parts.op("int_sub", [last, places], what="backwards")
    is_part = parts.op("less", [places, column], what="is_part")
    source = parts.op("where", [is_part, backwards, places], what="source")
    order = (batch, along, *(n for n in range(rank) if n not in (batch, along)))
    first = x if order == tuple(range(rank)) else parts.moved(x, order, "first")
    tuples = parts.reshaped(source, (samples, steps, 1), "tuples")
    made = parts.op("gather_nd", [first, tuples], AxisAttrs(1), "made")
    back = tuple(order.index(n) for n in range(rank))
    return parts.last(made if first is x else parts.moved(made, back, "back"))
