"""Products and sums of int8 element by element: what kernels for DSP instructions and vectors mean.

`ec_mul_s8_*` and `ec_mul_high_s8_*` of `runtime_c/kernels/dsp/elements_s8.h` and of
`helium/elements_s8.h`, and `ec_add_s8_dsp` of `dsp/add_s8.h`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from edgec.loop.define import Definition
from edgec.loop.intrinsics import HALF
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Struct, register
from edgec.loop.values import Value, clamp, int8, int32, int64, intrinsic

Rescale = Callable[[Value], Value]


def of_pairs(name: str, count: int, element: Callable[[Value, Value], Value]) -> PrimFunc:
    """out[i] = element(int32(a[i]), int32(b[i])) of int8."""
    b = Definition(name)
    out = b.output("out", (count,), "int8")
    left, right = (b.input(name, (count,), "int8") for name in ("a", "b"))
    b.compute(out, lambda i: int8(element(int32(left[i]), int32(right[i]))))
    return b.build()


def _product(count: int, first: int, second: int, rescale: Rescale) -> PrimFunc:
    return of_pairs(
        "mul", count, lambda a, b: clamp(rescale((a + first) * (b + second)), -128, 127)
    )


def mul(
    count: int, first: int, second: int, multiplier: int, shift: int, zero_point: int
) -> PrimFunc:
    """out[i] = (a[i] + first) * (b[i] + second), rescaled as TFLite Micro does, plus zero_point."""
    return _product(
        count, first, second,
        lambda product: intrinsic("requantize_tflm", product, multiplier, shift) + zero_point,
    )  # fmt: skip


def mul_high(count: int, first: int, second: int, multiplier: int, zero_point: int) -> PrimFunc:
    """out[i] = the upper word of (a[i] + first) * (b[i] + second) * multiplier, plus zero_point.

    Rounded half up.
    """
    return _product(
        count, first, second,
        lambda product: intrinsic("multiply_add_high", product, multiplier, HALF, zero_point),
    )  # fmt: skip


def add(count: int, first: int, second: int, constant: int) -> PrimFunc:
    """out[i] = (((a[i] * first >> 8) + constant + (b[i] * second >> 8)) >> 16) - 128, limited."""

    def element(a: Value, b: Value) -> Value:
        total = int32((int64(a) * first) >> 8) + constant + int32((int64(b) * second) >> 8)
        return clamp((total >> 16) - 128, -128, 127)

    return of_pairs("add", count, element)


register(
    Microkernel(
        "ec_add_s8_dsp",
        add,
        sizes=("count", "first", "second", "constant"),
        header="dsp/add_s8.h",
        needs=frozenset({"dsp"}),
        reads_first=True,
        in_order=("out_i", 4),
        instructions=lambda count, **_: 32 + 5.75 * count,
        code_bytes=110,
    )
)

OPERANDS = ("count", "first", "second", "multiplier")
MUL = Struct("ec_mul_sizes", (*OPERANDS, "shift", "zero_point"))


def register_products(unit: str, header: str, rows: Iterable[tuple[str, int, int, int]]) -> None:
    """Kernels of products for one instruction set.

    rows: name, elements at once, instructions for these, and bytes of code.
    """
    for name, lanes, step, code_bytes in rows:
        register(
            Microkernel(
                f"ec_{name}_s8_{unit}",
                mul if name == "mul" else mul_high,
                sizes=MUL.members if name == "mul" else (*OPERANDS, "zero_point"),
                struct=MUL if name == "mul" else None,
                header=header,
                needs=frozenset({unit}),
                reads_first=True,
                in_order=("out_i", lanes),
                instructions=lambda count, lanes=lanes, step=step, **_: (
                    40 + step * -(-count // lanes)
                ),
                code_bytes=code_bytes,
            )
        )


register_products("dsp", "dsp/elements_s8.h", (("mul", 4, 34, 320), ("mul_high", 4, 24, 240)))
