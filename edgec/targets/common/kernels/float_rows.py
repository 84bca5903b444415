"""Rows of floats that are quantized when the model runs (`runtime_c/kernels/common/float_rows.h`).

How far a row reaches from 0, in one direction or both, and its integers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from edgec.loop.define import Definition
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, register
from edgec.loop.values import Value, cast, clamp, intrinsic
from edgec.ops.dynamic_range import larger, smaller

QUANTIZE, QUANTIZE_MOVED = "ec_quantize_row_f32", "ec_quantize_moved_row_f32"
#: Values that are quantized side by side.
LANES = 16


def _reach(update: Callable[[Value, Value], Value], count: int) -> PrimFunc:
    """out[0] = `update` applied to 0 and each x[i]."""
    b = Definition("reach")
    out = b.output("out", (1,), "float32")
    x = b.input("x", (count,), "float32")
    b.reduce(out, [("k", 0, count)], init=lambda n: 0.0, update=lambda acc, n, k: update(acc, x[k]))
    return b.build()


def _size(acc: Value, value: Value) -> Value:
    return larger(larger(acc, value), -value)


#: The kernels for a range, each with its comparison.
REACHES = {"ec_size_of_row_f32": _size, "ec_high_of_row_f32": larger, "ec_low_of_row_f32": smaller}


def quantize(count: int) -> PrimFunc:
    """out[i] = x[i] * inverse[0], rounded and limited to +-127."""
    b = Definition("quantize_row")
    out = b.output("out", (count,), "int8")
    x, inverse = b.input("x", (count,), "float32"), b.input("inverse", (1,), "float32")
    b.compute(
        out,
        lambda i: cast(
            clamp(intrinsic("round_half_away_f32", x[i] * inverse[0]), -127, 127), "int8"
        ),
    )
    return b.build()


def quantize_moved(count: int) -> PrimFunc:
    """out[i] = zero[0] + x[i] * inverse[0], rounded and limited to int8, less zero[0]."""
    b = Definition("quantize_moved_row")
    out = b.output("out", (count,), "int16")
    x, inverse = b.input("x", (count,), "float32"), b.input("inverse", (1,), "float32")
    zero = b.input("zero", (1,), "int32")

    def element(i: Value) -> Value:
        moved = cast(zero[0], "float32") + x[i] * inverse[0]
        rounded = clamp(intrinsic("round_half_away_f32", moved), -128, 127)
        return cast(rounded - zero[0], "int16")

    b.compute(out, element)
    return b.build()


def _instructions(each: float, count: int) -> float:
    """Estimate the instructions by vectors of eight."""
    return 60 + each * count / 8


for _name, _update in REACHES.items():
    register(
        Microkernel(
            _name, partial(_reach, _update), sizes=("count",), header="common/float_rows.h",
            instructions=partial(_instructions, 4), code_bytes=300,
        )
    )  # fmt: skip
for _name, _meaning in ((QUANTIZE, quantize), (QUANTIZE_MOVED, quantize_moved)):
    register(
        Microkernel(
            _name, _meaning, sizes=("count",), header="common/float_rows.h",
            in_order=("out_i", LANES), reads_first=True,
            instructions=partial(_instructions, 14), code_bytes=500,
        )
    )  # fmt: skip
