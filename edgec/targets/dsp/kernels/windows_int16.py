"""Depthwise convolutions of int16 (`runtime_c/kernels/dsp/depthwise_windows_s16.h`)."""

from __future__ import annotations

from functools import partial

from edgec.loop.microkernel import Microkernel, register
from edgec.loop.stream import Field, Stream, lanes_of, rows_at
from edgec.loop.window import Window
from edgec.targets.common.kernels.rescaling import TFLM16_HIGH, TFLM16_TO_8
from edgec.targets.common.kernels.window import WINDOW_SIZES
from edgec.targets.dsp.kernels.matrix_int16 import add_halves, shifted_down
from edgec.targets.dsp.kernels.windows import CHANNELS, depthwise_windows

#: Taps of a window's row, at most.
MOST_COLUMNS = 8


def _fields(channels: int, kernel_h: int, kernel_w: int, **_: int) -> list[Field]:
    """The constants as the header says."""
    lanes = lanes_of(channels, CHANNELS)
    w = rows_at(lanes, kernel_h * kernel_w).transpose(0, 2, 1)
    return [Field("bias", lanes), Field("w", w, "int16"), *shifted_down(lanes)]


def _instructions(**sizes: int) -> float:
    window = Window.from_sizes({**sizes, "padded": 1})
    kernel_h, kernel_w = window.kernel
    each = 40 + kernel_h * (5 + 7 * kernel_w)
    return 60 + window.out_width * (90 + window.shape[2] // CHANNELS * each)


#: The products in the names of kernels. WINDOWS with results of int16 support two ranges only.
WINDOWS, LIMITED = "depthwise_windows", "depthwise_windows_limited"
for _products, _rescaling, _ends, _aligned in (
    (WINDOWS, TFLM16_HIGH, ("least",), ("out", "x", "bias")),
    (LIMITED, TFLM16_HIGH, ("least", "most"), ("out", "x", "bias")),
    (WINDOWS, TFLM16_TO_8, ("out_zero_point", "least", "most"), ("x", "bias")),
):
    register(
        Microkernel(
            _rescaling.kernel(_products),
            partial(depthwise_windows, _rescaling),
            sizes=(*Window.SIZES, *_ends),
            indices=("pixel",),
            header="dsp/depthwise_windows_s16.h",
            needs=frozenset({"dsp"}),
            alignment=tuple((name, 4) for name in _aligned),
            in_order=("result_d0", 1),
            stream=Stream(_rescaling.sources, _fields, add_halves),
            instructions=_instructions,
            code_bytes=850,
            # The other takes numbers: a struct makes kws_int16 larger on Cortex-M4.
            struct=WINDOW_SIZES if len(_ends) > 1 else None,
        )
    )
