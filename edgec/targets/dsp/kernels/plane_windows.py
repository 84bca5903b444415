"""3x3 windows over one channel (`runtime_c/kernels/dsp/plane_windows_s8.h`)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Stream, register
from edgec.loop.window import Window
from edgec.numerics.term import TermLike, as_term
from edgec.targets.common.kernels.rescaling import TFLM
from edgec.targets.dsp.kernels.depthwise import ZERO_POINT
from edgec.targets.dsp.kernels.windows import depthwise_windows

Array = npt.NDArray[np.int32]

NAME = "ec_plane_row_s8_dsp"
#: Words of a channel: the bias, five pairs of weights, M, C, the shift.
CHANNEL_WORDS = 9
#: Which weights, of nine row by row, are paired; after them is a zero.
PAIRS = ((0, 2), (1, 4), (3, 5), (7, 9), (6, 8))
#: Sums are this many times the accumulators.
_TIMES = 256
#: The sign bit of a shift: the last channel's.
_LAST = np.int32(-(1 << 31))


def plane_window(
    height: int,
    width: int,
    stride_h: int,
    stride_w: int,
    top: int,
    left: int,
    out_width: int,
    padded: int,
    zero_point: int,
) -> Window:
    """The window of a kernel of these sizes."""
    shape, stride, corner = (height, width, 1), (stride_h, stride_w), (top, left)
    return Window(shape, (3, 3), stride, (1, 1), corner, out_width, bool(padded), zero_point)


def plane_row(row: TermLike, channels: int, out_width: int, **sizes: int) -> PrimFunc:
    """out[w, c] = requantized sum of window w of row `row` by the weights of channel c."""
    window = plane_window(out_width=out_width, **sizes)
    pixel = as_term(row) * out_width
    return depthwise_windows(TFLM, pixel, ZERO_POINT, each=channels, **window.sizes)


def fits_plane(window: Window, channels: int) -> bool:
    """Whether the kernel can do these windows, for this many output channels."""
    is_3x3 = window.kernel == (3, 3) and window.dilation == (1, 1)
    return is_3x3 and window.shape[2] == 1 and channels % 2 == 0


def pack_planes(arrays: Mapping[str, npt.NDArray[np.int32]]) -> Array:
    """The constants of all channels as the header says."""
    bias, multiplier, shift = (arrays[n].astype(np.int64) for n in ("bias", "multiplier", "shift"))
    w = arrays["w"].reshape(-1, 9).astype(np.int64) * _TIMES
    w = np.pad(w, ((0, 0), (0, 1)))
    words = [
        bias * _TIMES,
        *((w[:, low] & 0xFFFF) | w[:, high] << 16 for low, high in PAIRS),
        multiplier,
        64 - (255 << (6 - shift)),
        7 - shift,
    ]
    stream = np.stack(words, axis=1).reshape(-1).astype(np.int32)
    stream[-1] |= _LAST
    return stream


def unpack_planes(words: Array) -> dict[str, npt.NDArray[np.int32]]:
    """The constants in a stream."""
    channels = words.astype(np.int32).reshape(-1, CHANNEL_WORDS)
    w = np.zeros((len(channels), 10), np.int32)
    for word, (low, high) in enumerate(PAIRS, 1):
        w[:, low] = (channels[:, word] << 16 >> 16) // _TIMES
        w[:, high] = (channels[:, word] >> 16) // _TIMES
    return {
        "bias": channels[:, 0] // _TIMES,
        "w": w[:, :9],
        "multiplier": channels[:, 6],
        "shift": 7 - (channels[:, 8] & 255),
    }


def _instructions(channels: int, out_width: int, **sizes: int) -> float:
    window = plane_window(out_width=out_width, **sizes)
    each = 17 + 12 * channels
    edge = 170 * window.part_outside if sizes["padded"] else 0.0
    return 80 + out_width * (each + edge)


register(
    Microkernel(
        NAME,
        plane_row,
        sizes=(
            "height", "width", "channels", "stride_h", "stride_w", "top", "left", "out_width",
            "padded", "zero_point",
        ),
        indices=("row",),
        header="dsp/plane_windows_s8.h",
        needs=frozenset({"dsp"}),
        alignment=(("bias", 4),),
        in_order=("out_w", 1),
        stream=Stream(
            ("bias", "w", "multiplier", "shift"),
            words=lambda channels, **_: CHANNEL_WORDS * channels,
            pack=lambda arrays, **_: pack_planes(arrays),
            unpack=lambda words, **_: unpack_planes(words),
        ),
        instructions=_instructions,
        code_bytes=360,
    )
)  # fmt: skip
