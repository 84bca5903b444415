"""A line of values that moves on by one place (`runtime_c/kernels/common/shift_down.h`)."""

from __future__ import annotations

from functools import partial

from edgec.loop.define import Definition
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, register

SUFFIXES = {"int8": "s8", "int16": "s16"}
#: Values of a word.
LANES = {"int8": 4, "int16": 2}


def shift_down(dtype: str, count: int) -> PrimFunc:
    """out[i] = x[i + 1] for i < count."""
    b = Definition("shift_down")
    out = b.output("out", (count,), dtype)
    x = b.input("x", (count + 1,), dtype)
    b.compute(out, lambda i: x[i + 1])
    return b.build()


for _dtype, _suffix in SUFFIXES.items():
    register(
        Microkernel(
            f"ec_shift_down_{_suffix}",
            partial(shift_down, _dtype),
            sizes=("count",),
            header="common/shift_down.h",
            needs=frozenset({"unaligned"}),
            in_order=("out_i", 4 * LANES[_dtype]),
            reads_first=True,
            instructions=lambda count, lanes=LANES[_dtype]: 30 + 3.2 * count / lanes,
            code_bytes=60,
        )
    )
