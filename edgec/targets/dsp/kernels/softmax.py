"""Rows of int8 for softmax: what the kernels of `runtime_c/kernels/dsp/softmax_s8.h` mean.

A row takes three of them: for its largest element, for the sum of its exponentials, and for the
results. What a row has once, the reciprocal of the sum, is computed between them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgec.loop.define import Definition, Tensor
from edgec.loop.ir import For, PrimFunc, Store
from edgec.loop.microkernel import Microkernel, register
from edgec.loop.values import (
    ExprValue,
    Value,
    clamp,
    int8,
    int32,
    intrinsic,
    maximum,
    minimum,
    select,
)
from edgec.numerics.term import Var, as_term

#: Fraction bits that exponentials have more than their sum.
SUM_BITS = 12
#: What products are shifted by, less the headroom of the sum.
MOST_SHIFT = SUM_BITS + 31 - 8
#: Sums of longer rows may have so little headroom that the shift passes 31.
SHORT_ROW = 256
#: `ec_largest_s8_dsp` reads this many elements at once, and not fewer.
AT_ONCE = 4
#: Differences of two int8.
DIFFERENCES = 256


def _reduction(
    b: Definition, out: Tensor, count: int, update: Callable[[Value, Any], Value]
) -> PrimFunc:
    """out[0] = update(out[0], k) for k < count: a reduction after its start."""
    k = Var("k", 0, count)
    first = as_term(0)
    value = update(out[0], k)
    assert isinstance(value, ExprValue)
    store = Store(out.buffer, (first,), value.expr)
    params = tuple(tensor.buffer for tensor in b.tensors.values())
    return PrimFunc(b.name, params, (), For(k, first, as_term(count), "serial", store))


def largest(count: int) -> PrimFunc:
    """largest[0] = the largest of largest[0] and of x[k] for k < count."""
    b = Definition("largest")
    out = b.output("largest", (1,), "int32")
    x = b.input("x", (count,), "int8")
    return _reduction(b, out, count, lambda acc, k: maximum(acc, int32(x[k])))


def sum_exponentials(count: int) -> PrimFunc:
    """total[0] += exponentials[largest[0] - x[k]] / 2**SUM_BITS, rounded, for k < count."""
    b = Definition("sum_exponentials")
    out = b.output("total", (1,), "int32")
    x = b.input("x", (count,), "int8")
    most = b.input("largest", (1,), "int32")
    exponentials = b.constant("exponentials", (DIFFERENCES,), "int32")

    def update(acc: Value, k: Any) -> Value:
        exponential = exponentials[most[0] - int32(x[k])]
        return acc + intrinsic("rounding_divide_by_power_of_two", exponential, SUM_BITS)

    return _reduction(b, out, count, update)


def softmax(count: int) -> PrimFunc:
    """out[i] = exponentials[largest[0] - x[i]] * reciprocal[0], shifted by the sum's headroom."""
    b = Definition("softmax")
    out = b.output("out", (count,), "int8")
    x = b.input("x", (count,), "int8")
    most, reciprocal, headroom = (
        b.input(name, (1,), "int32") for name in ("largest", "reciprocal", "headroom")
    )
    exponentials = b.constant("exponentials", (DIFFERENCES,), "int32")

    def element(i: Any) -> Any:
        exponential = exponentials[most[0] - int32(x[i])]
        scaled = intrinsic("rounding_doubling_high_multiply", reciprocal[0], exponential)
        shift = MOST_SHIFT - headroom[0]
        share = intrinsic("rounding_divide_by_power_of_two", scaled, minimum(shift, 31))
        if count > SHORT_ROW:
            share = select(shift > 31, 0, share)
        return int8(clamp(share - 128, -128, 127))

    b.compute(out, element)
    return b.build()


#: Instructions of a call, of an element, and bytes of code.
for _name, _meaning, _call, _element, _code_bytes in (
    ("largest", largest, 16, 1.5, 80),
    ("sum_exponentials", sum_exponentials, 24, 5, 120),
    ("softmax", softmax, 42, 9.25, 200),
):
    register(
        Microkernel(
            f"ec_{_name}_s8_dsp",
            _meaning,
            sizes=("count",),
            header="dsp/softmax_s8.h",
            needs=frozenset({"dsp"}),
            alignment=tuple(
                (name, 4)
                for name in ("total", "exponentials", "largest", "reciprocal", "headroom")
                if name in {param.name for param in _meaning(AT_ONCE).params}
            ),
            reads_first=_name == "softmax",
            in_order=("out_i", 4) if _name == "softmax" else None,
            instructions=lambda count, call=_call, element=_element: call + element * count,
            code_bytes=_code_bytes,
        )
    )
