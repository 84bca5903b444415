"""Sums of tensors, means and maxima of channels on MVE (`elements_s8.h`, `pool_s8.h`)."""

from __future__ import annotations

import numpy as np

from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Struct, register
from edgec.loop.values import Value, clamp, float32, int32
from edgec.targets.dsp.kernels.elements import of_pairs, register_products
from edgec.targets.dsp.kernels.pool import WINDOW, max_pool, mean_pool, sum_of_channels


def linear_sum(
    count: int, first: int, second: int, constant: int, shift: int, minimum: int, maximum: int
) -> PrimFunc:
    """out[i] = (a[i] * first + constant + b[i] * second) >> shift, limited."""

    def element(a: Value, b: Value) -> Value:
        return clamp((a * first + constant + b * second) >> shift, minimum, maximum)

    return of_pairs("linear_sum", count, element)


def mean(kernel_h: int, kernel_w: int, channels: int, minimum: int, maximum: int) -> PrimFunc:
    """`mean_pool` of a whole image."""
    return mean_pool(kernel_h, kernel_w, channels, kernel_w * channels, minimum, maximum)


def sum_real_channels(
    kernel_h: int, kernel_w: int, channels: int, zero_point: int, scale_bits: int
) -> PrimFunc:
    """out[c] = the sum of (x[h, w, c] - zero_point) * s over h and w, in floats, in this order.

    scale_bits: the bits of the float s, as an int32.
    """
    scale = float(np.int32(scale_bits).view(np.float32))
    return sum_of_channels(
        kernel_h, kernel_w, channels, "float32", lambda x: float32(int32(x) - zero_point) * scale
    )


def _max_instructions(kernel_h: int, kernel_w: int, channels: int, pixels: int, **_: int) -> float:
    return 40 + pixels * (6 + -(-channels // 16) * (16 + kernel_h * (4 + 5 * kernel_w)))


register(
    Microkernel(
        "ec_max_pool_s8_mve",
        max_pool,
        sizes=(*WINDOW, "lowest", "maximum"),
        struct=Struct("ec_max_pool_sizes", (*WINDOW, "lowest", "maximum")),
        header="helium/pool_s8.h",
        needs=frozenset({"mve"}),
        in_order=("out_p", 1),
        instructions=_max_instructions,
        code_bytes=200,
    )
)
register(
    Microkernel(
        "ec_mean_s8_mve",
        mean,
        sizes=("kernel_h", "kernel_w", "channels", "minimum", "maximum"),
        header="helium/pool_s8.h",
        needs=frozenset({"mve"}),
        reads_first=True,
        in_order=("out_c", 16),
        instructions=lambda kernel_h, kernel_w, channels, **_: (
            20 + 15 * channels + (6 * (channels // 16) + 5 * (channels % 16)) * kernel_h * kernel_w
        ),
        code_bytes=200,
    )
)
register(
    Microkernel(
        "ec_sum_real_channels_s8_mve",
        sum_real_channels,
        sizes=("kernel_h", "kernel_w", "channels", "zero_point", "scale_bits"),
        header="helium/pool_s8_onnx.h",
        needs=frozenset({"mve", "fpu"}),
        alignment=(("out", 4),),
        instructions=lambda kernel_h, kernel_w, channels, **_: (
            20 + channels // 8 * (16 + 12 * kernel_h * kernel_w)
        ),
        code_bytes=110,
    )
)
_LINEAR = ("count", "first", "second", "constant", "shift", "minimum", "maximum")
register(
    Microkernel(
        "ec_linear_sum_s8_mve",
        linear_sum,
        sizes=_LINEAR,
        struct=Struct("ec_linear_sum_sizes", _LINEAR),
        header="helium/elements_s8.h",
        needs=frozenset({"mve"}),
        reads_first=True,
        in_order=("out_i", 4),
        instructions=lambda count, **_: 50 + 9 * -(-count // 4),
        code_bytes=120,
    )
)

register_products("mve", "helium/elements_s8.h", (("mul", 8, 25, 170), ("mul_high", 8, 19, 140)))
