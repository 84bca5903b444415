"""Pools of int8 and sums of its channels: what kernels for DSP instructions and vectors mean.

`runtime_c/kernels/dsp/pool_s8.h`; of `helium/pool_s8.h` the maxima.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from edgec.loop import values
from edgec.loop.define import Definition
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, register
from edgec.loop.schedule import Schedule
from edgec.loop.values import Value, clamp, index, int8, int32, select

#: Elements whose sum fits in int16, on the DSP extension.
MOST_TAPS = 255
#: Channels that are pooled at once, and that are added to totals at once.
POOLED, SUMMED = 4, 8
#: What a pool is given by: its window, the image's rows and the pixels of a row.
WINDOW = ("kernel_h", "kernel_w", "channels", "pitch", "step", "pixels")


def _sums(b: Definition, loop: str = "acc_kh") -> PrimFunc:
    schedule = Schedule(b.build())
    schedule.compute_at("acc", "out_c")
    schedule.decompose_reduction("acc", loop)
    schedule.simplify()
    return schedule.func


def max_pool(
    kernel_h: int,
    kernel_w: int,
    channels: int,
    pitch: int,
    step: int,
    pixels: int,
    lowest: int,
    maximum: int,
) -> PrimFunc:
    """out[p, c] = the largest of lowest and x[kh*pitch + kw*channels + p*step + c], limited."""
    b = Definition("max_pool")
    out = b.output("out", (pixels, channels), "int8")
    last = (kernel_h - 1) * pitch + kernel_w * channels + (pixels - 1) * step
    x = b.input("x", (last,), "int8")
    acc = b.reduce(
        "acc",
        [("kh", 0, kernel_h), ("kw", 0, kernel_w)],
        init=lambda p, c: lowest,
        update=lambda acc, p, c, kh, kw: values.maximum(
            acc, int32(x[kh * pitch + kw * channels + p * step + c])
        ),
        shape=(pixels, channels),
        dtype="int32",
    )
    b.compute(out, lambda p, c: int8(values.minimum(acc[p, c], maximum)))
    return _sums(b)


def mean_pool(
    kernel_h: int, kernel_w: int, channels: int, pitch: int, minimum: int, maximum: int
) -> PrimFunc:
    """out[c] = the mean of x[kh*pitch + kw*channels + c], ties away from zero, limited."""
    b = Definition("mean_pool")
    out = b.output("out", (channels,), "int8")
    x = b.input("x", ((kernel_h - 1) * pitch + kernel_w * channels,), "int8")
    acc = b.reduce(
        "acc",
        [("kh", 0, kernel_h), ("kw", 0, kernel_w)],
        init=lambda c: 0,
        update=lambda acc, c, kh, kw: acc + int32(x[kh * pitch + kw * channels + c]),
        shape=(channels,),
        dtype="int32",
    )
    count = index(kernel_h) * index(kernel_w)
    half = count / 2

    def element(c: Any) -> Any:
        total = acc[c]
        rounded = select(total > 0, total + half, total - half) / count
        return int8(clamp(rounded, minimum, maximum))

    b.compute(out, element)
    return _sums(b)


def add_channels(count: int, channels: int) -> PrimFunc:
    """out[c] = total[c] plus the sum of x[k, c] over k."""
    b = Definition("add_channels")
    out = b.output("out", (channels,), "int32")
    x = b.input("x", (count, channels), "int8")
    total = b.input("total", (channels,), "int32")
    acc = b.reduce(
        "acc",
        [("k", 0, count)],
        init=lambda c: total[c],
        update=lambda acc, c, k: acc + int32(x[k, c]),
        shape=(channels,),
        dtype="int32",
    )
    b.compute(out, lambda c: acc[c])
    return _sums(b, "acc_k")


def sum_channels(kernel_h: int, kernel_w: int, channels: int) -> PrimFunc:
    """out[c] = the sum of x[h, w, c] over all h and w."""
    return sum_of_channels(kernel_h, kernel_w, channels, "int32", int32)


def sum_of_channels(
    kernel_h: int, kernel_w: int, channels: int, dtype: str, term: Callable[[Value], Value]
) -> PrimFunc:
    """out[c] = the sum of the terms of x[h, w, c], which are of this dtype, over all h and w."""
    b = Definition("sum_channels")
    out = b.output("out", (channels,), dtype)
    x = b.input("x", (kernel_h, kernel_w, channels), "int8")
    acc = b.reduce(
        "acc",
        [("kh", 0, kernel_h), ("kw", 0, kernel_w)],
        init=lambda c: 0,
        update=lambda acc, c, kh, kw: acc + term(x[kh, kw, c]),
        shape=(channels,),
        dtype=dtype,
    )
    b.compute(out, lambda c: acc[c])
    return _sums(b)


def _mean_instructions(kernel_h: int, kernel_w: int, channels: int, pitch: int, **_: int) -> float:
    rows, taps = kernel_h, kernel_w
    if pitch == kernel_w * channels:
        rows, taps = 1, kernel_h * kernel_w
    return 8 + channels // POOLED * (50 + rows * (5 + 6 * taps))


def _max_instructions(kernel_h: int, kernel_w: int, channels: int, **_: int) -> float:
    return 8 + channels // POOLED * (10 + 4 * kernel_h * kernel_w)


def _add_instructions(count: int, channels: int, **_: int) -> float:
    return 25 + channels // SUMMED * (36 + 9 * count)


def _sum_instructions(kernel_h: int, kernel_w: int, channels: int) -> float:
    count = kernel_h * kernel_w
    parts = -(-count // MOST_TAPS)
    return 50 + parts * (40 + channels // SUMMED * 36) + channels // SUMMED * 9 * count


_DSP: dict[str, Any] = {"header": "dsp/pool_s8.h", "needs": frozenset({"dsp"})}
register(
    Microkernel(
        "ec_mean_s8_dsp",
        mean_pool,
        sizes=("kernel_h", "kernel_w", "channels", "pitch", "minimum", "maximum"),
        reads_first=True,
        in_order=("out_c", POOLED),
        instructions=_mean_instructions,
        code_bytes=150,
        **_DSP,
    )
)
register(
    Microkernel(
        "ec_max_pool_s8_dsp",
        partial(max_pool, pixels=1, step=0),
        sizes=("kernel_h", "kernel_w", "channels", "pitch", "lowest", "maximum"),
        reads_first=True,
        in_order=("out_c", POOLED),
        instructions=_max_instructions,
        code_bytes=120,
        **_DSP,
    )
)
register(
    Microkernel(
        "ec_add_channels_s8_dsp",
        add_channels,
        sizes=("count", "channels"),
        alignment=(("out", 4), ("total", 4)),
        reads_first=True,
        in_order=("out_c", SUMMED),
        instructions=_add_instructions,
        code_bytes=150,
        **_DSP,
    )
)
register(
    Microkernel(
        "ec_sum_channels_s8_dsp",
        sum_channels,
        sizes=("kernel_h", "kernel_w", "channels"),
        alignment=(("out", 4),),
        instructions=_sum_instructions,
        code_bytes=200,
        **_DSP,
    )
)
