"""Depthwise convolutions lowered on planes of int16, so that every window is whole.

Padding has the value of the input's zero point, which is then folded into the bias.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgec.graph.ir import Node
from edgec.graph.types import Array
from edgec.loop.define import Tensor
from edgec.loop.gathered import plane_element, rows_at_once
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, cast, int16
from edgec.loop.window import Window
from edgec.ops.accumulate import folded_bias, weight_sums
from edgec.ops.window_rows import window_of


def has_planes(node: Node) -> bool:
    """Whether the convolution can be lowered so."""
    kernel_h, kernel_w, _ = node.inputs[1].type.shape
    window = window_of(node, (kernel_h, kernel_w))
    is_3x3 = window.kernel == (3, 3) and window.stride == window.dilation == (1, 1)
    is_known = node.inputs[0].type.quant is not None
    return is_known and is_3x3 and rows_at_once(node.output.type.shape[1]) > 0


def lower_planes(node: Node, target: Lowering, x: Tensor, w: Array, bias: Array) -> Tensor:
    """Every channel is copied to planes of int16, column by column, some rows to each.

    w: int8 [KH, KW, O]; bias: int32 [O].
    """
    target.window = window = window_of(node, (w.shape[0], w.shape[1]))
    each = w.shape[2] // window.shape[2]
    weights = target.table("w", np.ascontiguousarray(w.transpose(2, 0, 1)))
    biases = target.table("bias", folded_bias(node, bias, weight_sums(w, (0, 1))))
    part = rows_at_once(node.output.type.shape[1])
    plane = _planes(node, target, x, window, part)

    def read(n: Any, h: Any, w: Any, c: Any, kh: Any, kw: Any) -> Value:
        row = h % part + kh
        value: Value = plane[n, c, h // part, w + kw, row // 2, row % 2]
        return value

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


def _planes(node: Node, target: Lowering, x: Tensor, window: Window, part: int) -> Tensor:
    """The planes, of `part` rows of outputs each."""
    height, width, channels = window.shape
    top, left = window.corner
    _, out_height, out_width, _ = node.output.type.shape

    def element(n: Any, c: Any, j: Any, w: Any, k: Any, r: Any) -> Value:
        at = (n, j * part + 2 * k + r - top, w - left, c)
        return int16(plane_element(x, at, height, width, window.zero_point))

    return target.definition.compute(
        "plane",
        element,
        shape=(x.shape[0], channels, out_height // part, out_width + 2, -(-(part + 2) // 2), 2),
        dtype="int16",
    )
