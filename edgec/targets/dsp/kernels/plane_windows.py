"""3x3 windows over one channel (`runtime_c/kernels/dsp/plane_windows_s8.h`)."""

from __future__ import annotations

import numpy as np

from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Struct, register
from edgec.loop.stream import Field, Stream, rows_at, zeros
from edgec.loop.window import Window
from edgec.numerics.term import TermLike, as_term
from edgec.targets.common.kernels.rescaling import TFLM
from edgec.targets.dsp.kernels.depthwise import ZERO_POINT
from edgec.targets.dsp.kernels.depthwise_row import ROW_KERNEL, add_zero_point
from edgec.targets.dsp.kernels.windows import depthwise_windows

NAME = "ec_plane_row_s8_dsp"
#: Which weights, of nine row by row, are paired; after them is a zero.
PAIRS = ((0, 2), (1, 4), (3, 5), (7, 9), (6, 8))
#: Sums are this many times the accumulators.
_TIMES = 256
#: The sign bit of a shift: the last channel's.
_LAST = -(1 << 31)


def plane_window(**sizes: int) -> Window:
    """The 3x3 window of a kernel of these sizes."""
    return Window.from_sizes({**ROW_KERNEL, "channels": 1, **sizes})


def plane_row(row: TermLike, channels: int, out_width: int, **sizes: int) -> PrimFunc:
    """out[w, c] = requantized sum of window w of row `row` by the weights of channel c."""
    window = plane_window(out_width=out_width, **sizes)
    pixel = as_term(row) * out_width
    return depthwise_windows(TFLM, pixel, ZERO_POINT, each=channels, **window.sizes)


def fits_plane(window: Window, channels: int) -> bool:
    """Whether the kernel can do these windows, for this many output channels."""
    is_3x3 = window.kernel == (3, 3) and window.dilation == (1, 1)
    return is_3x3 and window.shape[2] == 1 and channels % 2 == 0


def _fields(channels: int, **_: int) -> list[Field]:
    """The constants of all channels as the header says."""
    lanes = np.arange(channels)[:, None]
    w = np.hstack([rows_at(lanes[:, 0], 9), zeros(channels, 1)])
    is_last = lanes == channels - 1
    return [
        Field("bias", lanes, times=_TIMES),
        Field("w", w[:, PAIRS], "int16", _TIMES),
        Field("multiplier", lanes),
        Field("constant", lanes),
        Field("shift", lanes, times=-1, plus=np.where(is_last, 7 + _LAST, 7)),
    ]


def _instructions(channels: int, out_width: int, **sizes: int) -> float:
    window = plane_window(out_width=out_width, **sizes)
    each = 17 + 12 * channels
    edge = 170 * window.part_outside if sizes["padded"] else 0.0
    return 80 + out_width * (each + edge)


_SIZES = (
    "height", "width", "channels", "stride_h", "stride_w", "top", "left", "out_width", "padded",
    "zero_point",
)  # fmt: skip
_TYPES = {
    **dict.fromkeys(("height", "width", "channels", "out_width", "stride_h"), "uint16"),
    **dict.fromkeys(("stride_w", "top", "left"), "uint8"), "zero_point": "int8",
}  # fmt: skip
register(
    Microkernel(
        NAME,
        plane_row,
        sizes=_SIZES,
        struct=Struct("ec_plane_row_sizes", (*_TYPES,), (*_TYPES.items(),), ("padded",)),
        indices=("row",),
        header="dsp/plane_windows_s8.h",
        needs=frozenset({"dsp"}),
        alignment=(("bias", 4),),
        in_order=("result_d0", 1),
        stream=Stream(TFLM.sources, _fields, add_zero_point),
        instructions=_instructions,
        code_bytes=360,
    )
)
