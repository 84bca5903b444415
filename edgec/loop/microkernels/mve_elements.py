"""Element-wise functions on MVE (`runtime_c/microkernels/mve/elements_s8.h`)."""

from __future__ import annotations

from edgec.loop.define import Definition
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, register
from edgec.loop.values import clamp, int8, int32


def linear_sum(
    count: int, first: int, second: int, constant: int, shift: int, minimum: int, maximum: int
) -> PrimFunc:
    """out[i] = (a[i] * first + constant + b[i] * second) >> shift, limited."""
    b = Definition("linear_sum")
    out = b.output("out", (count,), "int8")
    left, right = (b.input(name, (count,), "int8") for name in ("a", "b"))

    def element(i: int) -> object:
        total = int32(left[i]) * first + constant + int32(right[i]) * second
        return int8(clamp(total >> shift, minimum, maximum))

    b.compute(out, element)  # type: ignore[arg-type]
    return b.build()


register(
    Microkernel(
        "ec_linear_sum_s8_mve",
        linear_sum,
        sizes=("count", "first", "second", "constant", "shift", "minimum", "maximum"),
        header="mve/elements_s8.h",
        needs=frozenset({"mve"}),
        reads_first=True,
        in_order=("out_i", 4),
        instructions=lambda count, **_: 50 + 9 * -(-count // 4),
    )
)
