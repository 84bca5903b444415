"""ATen operators beyond Core ATen that are a few others: special numbers, orders, counts."""

from __future__ import annotations

import math

import numpy as np

from edgec.frontends.aten import Call, Operand, Result, aten, ints
from edgec.graph.ir import Value
from edgec.ops.cumulate import Cumulate, CumulateAttrs
from edgec.ops.op import axis_of


@aten("exp2.default")
def power_of_two(call: Call, x: Value) -> Result:
    return call.onnx("Pow", call.like(2.0, call.dtype), call.cast(x, call.dtype))


@aten("round.decimals")
def round_to_decimals(call: Call, x: Value, decimals: int = 0) -> Result:
    """Rounded to a number of decimals; if negative, to tens and so on."""
    factor = call.like(10.0 ** abs(decimals), call.dtype)
    scale, back = ("Mul", "Div") if decimals >= 0 else ("Div", "Mul")
    return call.onnx(back, call.onnx("Round", call.onnx(scale, x, factor)), factor)


@aten("hypot.default")
def hypotenuse(call: Call, a: Value, b: Value) -> Result:
    """The root of a * a + b * b, without overflow: of the smaller as a part of the larger."""
    a, b = (call.onnx("Abs", call.cast(x, call.dtype)) for x in (a, b))
    large, small = call.onnx("Max", a, b), call.onnx("Min", a, b)
    one, most = call.like(1.0, call.dtype), call.like(np.inf, call.dtype)
    is_plain = call.onnx("And", call.onnx("Greater", large, call.like(0.0, call.dtype)),
                         call.onnx("Less", large, most))  # fmt: skip
    part = call.onnx("Div", small, call.onnx("Where", is_plain, large, one))
    root = call.onnx("Sqrt", call.onnx("Add", call.onnx("Mul", part, part), one))
    return call.onnx("Where", is_plain, call.onnx("Mul", large, root), large)


@aten("signbit.default")
def sign_bit(call: Call, x: Value) -> Result:
    """Whether the sign is minus, also for a negative zero."""
    below = call.onnx("Less", x, call.like(0, x.type.dtype))
    if not x.type.is_float:
        return below
    zero = call.like(0.0, x.type.dtype)
    is_under = call.onnx("Less", call.onnx("Div", call.like(1.0, x.type.dtype), x), zero)
    return call.onnx("Or", below, call.onnx("And", call.onnx("Equal", x, zero), is_under))


@aten("copysign.Tensor", "copysign.Scalar")
def with_sign(call: Call, a: Value, b: Operand) -> Result:
    """The magnitude of a with the sign of b."""
    size = call.onnx("Abs", call.cast(a, call.dtype))
    if not isinstance(b, Value):
        assert b is not None
        return call.onnx("Neg", size) if math.copysign(1, float(b)) < 0 else size
    negative = sign_bit(call, b)
    assert isinstance(negative, Value)
    return call.onnx("Where", negative, call.onnx("Neg", size), size)


@aten("fmax.default")
def largest_number(call: Call, a: Value, b: Value) -> Result:
    """The larger one; of a number and NaN the number."""
    return _number_of(call, a, b, "Max")


@aten("fmin.default")
def least_number(call: Call, a: Value, b: Value) -> Result:
    """The smaller one; of a number and NaN the number."""
    return _number_of(call, a, b, "Min")


def _number_of(call: Call, a: Value, b: Value, kind: str) -> Value:
    a, b = call.cast(a, call.dtype), call.cast(b, call.dtype)
    if not a.type.is_float:
        return call.onnx(kind, a, b)
    made = call.onnx("Where", call.onnx("IsNaN", b), a, call.onnx(kind, a, b))
    return call.onnx("Where", call.onnx("IsNaN", a), b, made)


@aten("median.default")
def median_of_all(call: Call, x: Value) -> Result:
    """The middle element of all, the lower of two."""
    return _median(call, call.shaped(x, [x.type.elements]), 0, False)[0]


@aten("median.dim")
def median(call: Call, x: Value, axis: int, keep: bool = False) -> Result:
    """The middle element along an axis, the lower of two, and where it was; NaN where one is."""
    return _median(call, x, axis, keep)


@aten("kthvalue.default")
def kth_value(call: Call, x: Value, k: int, axis: int = -1, keep: bool = False) -> Result:
    """The k-th smallest element along an axis, counted from 1, and where it was."""
    return _kth(call, x, k, axis, keep)


def _median(call: Call, x: Value, axis: int, keep: bool) -> tuple[Value, ...]:
    count = x.type.shape[axis] if x.type.shape else 1
    value, place = _kth(call, x, (count + 1) // 2, axis, keep)
    if not x.type.is_float or not x.type.shape:
        return value, place
    unknown = call.cast(call.onnx("IsNaN", x), "float32")
    mixed = call.onnx("ReduceMax", unknown, ints([axis % len(x.type.shape)]), keepdims=int(keep))
    nan = call.like(np.nan, x.type.dtype)
    return call.onnx("Where", call.cast(mixed, "bool"), nan, value), place


def _kth(call: Call, x: Value, k: int, axis: int, keep: bool) -> tuple[Value, ...]:
    if not x.type.shape:
        return x, call.builder.constant(call.name, np.asarray(0, np.int64))
    axis %= len(x.type.shape)
    found = call.onnx_all("TopK", x, ints([k]), results=2, axis=axis, largest=0, sorted=1)
    shape = [n for at, n in enumerate(x.type.shape) if at != axis]
    shape[axis:axis] = [1] * keep
    return tuple(
        call.shaped(call.onnx("Gather", part, ints([k - 1]), axis=axis), shape) for part in found
    )


@aten("cumprod.default")
def running_product(call: Call, x: Value, axis: int, dtype: object = None) -> Result:
    """Products of all elements up to each."""
    x = call.cast(x, call.dtype)
    if not x.type.shape:
        return x
    attrs = CumulateAttrs(axis_of(axis, len(x.type.shape)), is_product=True)
    return call.builder.op(Cumulate, [x], attrs, name=call.name)


@aten("histc.default")
def histogram(call: Call, x: Value, bins: int = 100, low: float = 0, high: float = 0) -> Result:
    """Number of elements in each part of a range: the elements' own range if both ends are 0."""
    flat = call.shaped(x, [x.type.elements])
    first, last = (call.value(call.like(end, x.type.dtype)) for end in (low, high))
    if low == high == 0:
        first, last = (call.onnx(f"Reduce{kind}", flat, keepdims=0) for kind in ("Min", "Max"))
    assert first is not None
    assert last is not None
    one = call.like(1, x.type.dtype)
    is_point = call.onnx("Equal", first, last)
    first = call.onnx("Where", is_point, call.onnx("Sub", first, one), first)
    last = call.onnx("Where", is_point, call.onnx("Add", last, one), last)
    inside = call.onnx("And", call.onnx("GreaterOrEqual", flat, first),
                       call.onnx("LessOrEqual", flat, last))  # fmt: skip
    real = "float32" if not x.type.is_float else x.type.dtype
    place, extent = (call.cast(call.onnx("Sub", end, first), real) for end in (flat, last))
    part = call.onnx("Mul", call.onnx("Div", place, extent), call.like(float(bins), real))
    within = call.onnx("Where", inside, part, call.like(-1.0, real))
    number = call.onnx("Min", call.onnx("Floor", within), call.like(bins - 1.0, real))
    numbers = np.arange(bins, dtype=real)
    own = call.onnx("Equal", call.shaped(number, (x.type.elements, 1)), numbers)
    return call.onnx("ReduceSum", call.cast(own, call.dtype), ints([0]), keepdims=0)


@aten("bucketize.Tensor", "bucketize.Scalar")
def bucket(call: Call, x: Operand, limits: Value, out_int32: bool = False,
           right: bool = False) -> Result:  # fmt: skip
    """The number of sorted limits below each element, including equal ones if `right`."""
    value = call.value(call.like(x, limits.type.dtype))
    assert value is not None
    common = str(np.promote_types(value.type.dtype, limits.type.dtype))
    column = call.shaped(call.cast(value, common), (*value.type.shape, 1))
    kind = "Less" if right else "LessOrEqual"
    above = call.onnx(kind, column, call.cast(limits, common))  # NaN is above all
    counted = call.cast(call.onnx("Not", above), call.dtype)
    return call.onnx("ReduceSum", counted, ints([len(value.type.shape)]), keepdims=0)
