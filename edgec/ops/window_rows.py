"""Convolutions lowered row by row, for vectors of integers.

The input is first copied with its padding, of the value of its zero point, which is then folded
into the bias: every window is whole. A schedule makes this copy for a few rows at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgec.graph.ir import Node
from edgec.graph.types import Array
from edgec.loop.define import Tensor
from edgec.loop.lowering import COLUMN_ROWS, Lowering
from edgec.loop.values import cast
from edgec.loop.window import Window


def window_of(node: Node, kernel: tuple[int, int]) -> Window:
    """The window of a convolution node of either kind; `kernel` is (height, width)."""
    attrs = node.attrs
    (top, _), (left, _) = attrs.padding
    _, height, width, channels = node.inputs[0].type.shape
    quant = node.inputs[0].type.quant
    return Window(
        shape=(height, width, channels),
        kernel=kernel,
        stride=attrs.stride,
        dilation=attrs.dilation,
        corner=(top, left),
        out_width=node.output.type.shape[2],
        is_padded=any(any(pair) for pair in attrs.padding),
        zero_point=0 if quant is None else quant.zero_point[0],
    )


def known_window(node: Node, kernel: tuple[int, int], target: Lowering) -> Window | None:
    """The same, of a convolution that is lowered plainly; None where it does not have the form that
    was asked for, and where the input's integers have scales that only a run computes.
    """
    is_known = node.output.type.is_float or node.inputs[0].type.quant is not None
    return window_of(node, kernel) if is_known and target.form == "direct" else None


def pad_image(x: Tensor, node: Node, window: Window, target: Lowering) -> tuple[Tensor, Window]:
    """The input with its padding, a stage before unless there is none; the window over it."""
    inner = window.padded(node.output.type.shape[1])
    if not window.is_padded:
        return x, window
    copy = target.definition.compute(
        "padded",
        lambda n, h, w, c: window.pad(x, n, h, w, c),
        shape=(x.shape[0], *inner.shape),
        dtype=x.dtype,
    )
    return copy, inner


def lower_convolution_rows(
    node: Node, target: Lowering, x: Tensor, w: Array, bias: Array, window: Window
) -> Tensor:
    """A convolution. w: int8 [O, KH, KW, C]; bias: int32 [O], the input's zero point folded in."""
    target.window = window
    image, window = pad_image(x, node, window, target)
    weights = target.table("w", w if target.form != COLUMN_ROWS else w.reshape(len(w), -1))
    biases = target.table("bias", bias)
    (stride_h, stride_w), (dilation_h, dilation_w) = window.stride, window.dilation
    kernel_h, kernel_w = window.kernel
    channels = window.shape[2]
    shape = node.output.type.shape
    if target.form == COLUMN_ROWS:
        run = kernel_w * channels
        columns = target.definition.compute(
            "col",
            lambda n, h, w, k: image[
                n,
                h * stride_h + k // run * dilation_h,
                w * stride_w + k % run // channels * dilation_w,
                k % channels,
            ],
            shape=(*shape[:3], window.depth),
            dtype=x.dtype,
        )
        return target.reduce(
            "acc",
            shape,
            node.output.type.dtype,
            [("k", 0, window.depth)],
            init=lambda n, h, w, c: biases[c],
            update=lambda acc, n, h, w, c, k: (
                acc + cast(columns[n, h, w, k], acc.dtype) * cast(weights[c, k], acc.dtype)
            ),
        )
    return target.reduce(
        "acc",
        shape,
        node.output.type.dtype,
        [("kh", 0, kernel_h), ("kw", 0, kernel_w), ("ic", 0, channels)],
        init=lambda n, h, w, c: biases[c],
        update=lambda acc, n, h, w, c, kh, kw, ic: (
            acc
            + cast(
                image[n, h * stride_h + kh * dilation_h, w * stride_w + kw * dilation_w, ic],
                acc.dtype,
            )
            * cast(weights[c, kh, kw, ic], acc.dtype)
        ),
    )


def lower_depthwise_rows(
    node: Node, target: Lowering, x: Tensor, w: Array, bias: Array, window: Window
) -> Tensor:
    """A depthwise convolution. w: int8 [KH, KW, O]; bias: int32 [O], as above.

    With a single input channel it is a convolution, and may have its windows side by side.
    """
    kernel_h, kernel_w, outputs = w.shape
    if window.shape[2] == 1 and target.form == COLUMN_ROWS:
        ohwi = np.ascontiguousarray(w.transpose(2, 0, 1))[..., np.newaxis]
        return lower_convolution_rows(node, target, x, ohwi, bias, window)
    target.window = window
    image, window = pad_image(x, node, window, target)
    weights, biases = target.table("w", w), target.table("bias", bias)
    (stride_h, stride_w), (dilation_h, dilation_w) = window.stride, window.dilation
    each = outputs // window.shape[2]

    def update(acc: Any, n: Any, h: Any, w: Any, c: Any, kh: Any, kw: Any) -> Any:
        row, column = h * stride_h + kh * dilation_h, w * stride_w + kw * dilation_w
        element = cast(image[n, row, column, c // each], acc.dtype)
        return acc + element * cast(weights[kh, kw, c], acc.dtype)

    return target.reduce(
        "acc",
        node.output.type.shape,
        node.output.type.dtype,
        [("kh", 0, kernel_h), ("kw", 0, kernel_w)],
        init=lambda n, h, w, c: biases[c],
        update=update,
    )
