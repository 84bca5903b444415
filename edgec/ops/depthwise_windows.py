"""Depthwise convolutions lowered so that every window is whole, padding included.

Padding has the value of the input's zero point, which is then folded into the bias.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from edgec.graph.ir import Node
from edgec.graph.types import Array
from edgec.loop.define import Tensor
from edgec.loop.gathered import plane_element, rows_at_once
from edgec.loop.lowering import COLUMN_PLANES, PLANE_WINDOWS, Lowering
from edgec.loop.values import Value, cast, int16
from edgec.loop.window import Window
from edgec.ops.window_rows import window_of

Read = Callable[[Any, Any, Any, Any, Any, Any], Value]


def has_whole_windows(node: Node, form: str) -> bool:
    """Whether the convolution has this form, and needs it."""
    kernel_h, kernel_w, _ = node.inputs[1].type.shape
    window = window_of(node, (kernel_h, kernel_w))
    if form == PLANE_WINDOWS:
        return window.shape[2] == 1
    if node.inputs[0].type.quant is None:
        return False
    if form == COLUMN_PLANES:
        is_3x3 = window.kernel == (3, 3) and window.stride == window.dilation == (1, 1)
        return is_3x3 and rows_at_once(node.output.type.shape[1]) > 0
    return node.output.type.shape[3] == window.shape[2]  # of one output for each channel


def lower_whole_windows(
    node: Node, target: Lowering, x: Tensor, w: Array, bias: Array, window: Window
) -> Tensor:
    """A convolution in the form of `target`. w: int8 [KH, KW, O]; bias: int32 [O], folded."""
    target.window = window
    each = w.shape[2] // window.shape[2]
    weights = target.table("w", np.ascontiguousarray(w.transpose(2, 0, 1)))
    biases = target.table("bias", bias)
    if target.form == COLUMN_PLANES:
        read = _column_planes(node, target, x, window)
    else:
        read = _windows(window, x)
    return target.reduce(
        "acc",
        node.output.type.shape,
        node.output.type.dtype,
        [("kh", 0, window.kernel[0]), ("kw", 0, window.kernel[1])],
        init=lambda n, h, w, c: biases[c],
        update=lambda acc, n, h, w, c, kh, kw: (
            acc
            + cast(read(n, h, w, c // each, kh, kw), acc.dtype)
            * cast(weights[c, kh, kw], acc.dtype)
        ),
    )


def _column_planes(node: Node, target: Lowering, x: Tensor, window: Window) -> Read:
    """Every channel is copied to planes of int16, column by column, some rows to each."""
    height, width, channels = window.shape
    top, left = window.corner
    _, out_height, out_width, _ = node.output.type.shape
    part = rows_at_once(out_height)

    def element(n: Any, c: Any, j: Any, w: Any, k: Any, r: Any) -> Value:
        at = (n, j * part + 2 * k + r - top, w - left, c)
        return int16(plane_element(x, at, height, width, window.zero_point))

    plane = target.definition.compute(
        "plane",
        element,
        shape=(x.shape[0], channels, out_height // part, out_width + 2, -(-(part + 2) // 2), 2),
        dtype="int16",
    )

    def read(n: Any, h: Any, w: Any, c: Any, kh: Any, kw: Any) -> Value:
        row = h % part + kh
        value: Value = plane[n, c, h // part, w + kw, row // 2, row % 2]
        return value

    return read


def _windows(window: Window, x: Tensor) -> Read:
    """Inputs are read where they are."""
    channels, kernel_w = window.shape[2], window.kernel[1]

    def read(n: Any, h: Any, w: Any, c: Any, kh: Any, kw: Any) -> Value:
        return window.read(x, n, h * window.out_width + w, (kh * kernel_w + kw) * channels + c)

    return read
