"""Rows of depthwise 3x3 convolutions: `runtime_c/kernels/dsp/depthwise_row_s8.h`, and
`depthwise_row_s8_by_2.h` beside it for windows that step by two.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Struct, register
from edgec.loop.stream import Field, Stream, rows_at, zeros
from edgec.loop.window import Window
from edgec.numerics.term import TermLike, as_term
from edgec.targets.common.kernels.rescaling import TFLM
from edgec.targets.dsp.kernels.depthwise import ZERO_POINT
from edgec.targets.dsp.kernels.windows import depthwise_windows

Array = npt.NDArray[Any]

#: Which weights, of nine row by row, are the bytes of the two words.
TAPS = ((1, 0, 4, 3), (6, 2, 7, 5))

#: The kernels, by the step of their windows.
KERNELS = {1: "ec_depthwise_row_s8_dsp", 2: "ec_depthwise_row_2_s8_dsp"}


#: What the windows of kernels of rows have besides the sizes that the kernels take.
ROW_KERNEL = {"kernel_h": 3, "kernel_w": 3, "dilation_h": 1, "dilation_w": 1}


def row_window(stride: int, **sizes: int) -> Window:
    """The window of a kernel of these sizes: 3x3, by steps of `stride`."""
    return Window.from_sizes({**ROW_KERNEL, "stride_h": stride, "stride_w": stride, **sizes})


def depthwise_row(stride: int, row: TermLike, out_width: int, **sizes: int) -> PrimFunc:
    """out[w, c] = requantized sum of the inputs of channel c in window w of row `row`."""
    window = row_window(stride, out_width=out_width, **sizes)
    return depthwise_windows(TFLM, as_term(row) * out_width, ZERO_POINT, **window.sizes)


def fits_row(window: Window, rows: int) -> bool:
    """Whether a kernel can do the `rows` rows of outputs of this window."""
    height, width, channels = window.shape
    stride = window.stride[0]
    right = (window.out_width - 1) * stride + 3 - window.corner[1] - width
    below = (rows - 1) * stride + 3 - window.corner[0] - height
    most = 1 if window.is_padded else 0
    return (
        window.kernel == (3, 3)
        and window.stride in ((1, 1), (2, 2))
        and window.dilation == (1, 1)
        and height >= 2
        and window.out_width >= 2
        and width * channels % 2 == 0
        and max(*window.corner, right, below) <= most
        and (right >= 0 or stride > 1)
    )


def _fields(channels: int, **_: int) -> list[Field]:
    """The constants of all channels as the header says."""
    lanes = np.arange(channels)[:, None]
    w = rows_at(lanes[:, 0], 9)
    return [
        Field("multiplier", lanes),
        *(Field("w", w[:, taps], "int8") for taps in TAPS),
        Field("shift", lanes, "int8", -1, 7),
        Field("w", np.hstack([zeros(channels, 2), w[:, 8:]]), "int8"),
        Field("bias", lanes, times=256),
        Field("constant", lanes),
    ]


def add_zero_point(arrays: Mapping[str, Array], **_: int) -> Mapping[str, Array]:
    """Adds C, the constant before a shift: half of the last bit that stays, and -128 shifted."""
    return {**arrays, "constant": 64 - (255 << (6 - arrays["shift"].astype(np.int64)))}


def _instructions(
    stride: int,
    height: int,
    width: int,
    channels: int,
    top: int,
    left: int,
    out_width: int,
    padded: int,
    **_: int,
) -> float:
    right = padded and (out_width - 1) * stride + 3 - left > width
    edge = 11 if height < 3 or top else 0  # of a slab; of a whole image, in two of all rows
    share = 1.0 if height < 3 else 2 / (height + 1)
    columns = (out_width - right) * 24.5 if stride > 1 else 12 + 18 * (out_width - bool(padded))
    each = (
        10 + (4 if left else 8) + columns + (9 + 6 * (stride - 1)) * bool(right) + 7 + edge * share
    )
    return 90 + channels * each


_SIZES = ("height", "width", "channels", "top", "left", "out_width", "padded", "zero_point")
_TYPES = {
    "height": "uint16", "width": "uint16", "channels": "uint16", "out_width": "uint16",
    "top": "uint8", "left": "uint8", "padded": "uint8", "zero_point": "int8",
}  # fmt: skip
for _stride, _name in KERNELS.items():
    register(
        Microkernel(
            _name,
            partial(depthwise_row, _stride),
            sizes=_SIZES,
            struct=Struct("ec_depthwise_row_sizes", (*_TYPES,), (*_TYPES.items(),)),
            indices=("row",),
            header=f"dsp/depthwise_row_s8{'_by_2' if _stride == 2 else ''}.h",
            needs=frozenset({"dsp"}),
            alignment=(("bias", 4),),
            stream=Stream(TFLM.sources, _fields, add_zero_point),
            instructions=partial(_instructions, _stride),
            code_bytes=720,
        )
    )
