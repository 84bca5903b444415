"""Geometry of operators that slide a window over height and width: convolutions and pools."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.types import TensorType
from edgec.ops.op import RawNode

Pair = tuple[int, int]
Padding = tuple[Pair, Pair]

#: Elements that the reference reads in a step, of about 100 us.
READS_PER_STEP = 1 << 17
NO_PADDING: Padding = ((0, 0), (0, 0))


def output_extent(extent: int, kernel: int, stride: int, dilation: int, padding: Pair) -> int:
    """Number of window positions along one axis; TypeMismatch if there is none."""
    if min(extent, kernel, stride, dilation) < 1 or min(padding) < 0:
        raise TypeMismatch("extents, kernel, stride and dilation must be positive")
    reach = (kernel - 1) * dilation + 1
    if max(padding) >= reach:
        raise TypeMismatch(f"padding {padding} is as wide as the window ({reach})")
    room = extent + sum(padding) - reach
    if room < 0:
        raise TypeMismatch(f"a window of {reach} does not fit in {extent} padded by {padding}")
    return room // stride + 1


def window_steps(output: TensorType, kernel: Sequence[int]) -> int:
    """Steps of the reference, in which every element of the output reads a window."""
    return 1 + output.elements * math.prod(kernel) // READS_PER_STEP


def same_padding(extent: int, kernel: int, stride: int, dilation: int = 1) -> Pair:
    """TensorFlow's SAME: ceil(extent / stride) positions, the odd element of padding last."""
    positions = -(-extent // stride)
    total = max((positions - 1) * stride + (kernel - 1) * dilation + 1 - extent, 0)
    return total // 2, total - total // 2


def tflite_padding(
    raw: RawNode,
    extents: Sequence[int],
    kernel: Sequence[int],
    stride: Pair,
    dilation: Pair = (1, 1),
) -> Padding:
    """Padding along height and width of a TFLite node, from its attribute `padding`."""
    if raw.attribute("padding") == "VALID":
        return NO_PADDING
    height, width = (
        same_padding(extents[axis], kernel[axis], stride[axis], dilation[axis]) for axis in (0, 1)
    )
    return height, width


def pad_hw(x: Any, padding: Padding, fill: Any) -> Any:
    """x [N, H, W, C] with `fill` around height and width."""
    if padding == NO_PADDING:
        return x
    return np.pad(x, ((0, 0), *padding, (0, 0)), constant_values=fill)


def taps(
    padded: Any, kernel: Sequence[int], stride: Pair, dilation: Pair, output: Sequence[int]
) -> list[tuple[int, int, Any]]:
    """Yield for each kernel position (y, x) the view [N, OH, OW, C] of its inputs.

    padded: [N, H, W, C]. kernel, output: (height, width).
    """
    found = []
    for y in range(kernel[0]):
        for x in range(kernel[1]):
            top, left = y * dilation[0], x * dilation[1]
            found.append((y, x, padded[
                :,
                top : top + (output[0] - 1) * stride[0] + 1 : stride[0],
                left : left + (output[1] - 1) * stride[1] + 1 : stride[1],
            ]))  # fmt: skip
    return found


def patches(
    padded: Any, kernel: Sequence[int], stride: Pair, dilation: Pair, output: Sequence[int]
) -> Any:
    """The im2col matrix [N * OH * OW, KH * KW * C]."""
    views = [view for _, _, view in taps(padded, kernel, stride, dilation, output)]
    rows = padded.shape[0] * output[0] * output[1]
    if len(views) == 1:
        return views[0].reshape(rows, -1)
    return np.stack(views, axis=3).reshape(rows, -1)
