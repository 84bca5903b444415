"""Pools of any form over any number of axes: a reduction of windows that a Gather collects.

For forms that ONNX's pools, which have fast kernels, lack: windows of unequal size, other divisors,
indices of the maximum, a third axis.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgec.frontends.aten import Call, Result, aten, ints
from edgec.graph.ir import Value
from edgec.graph.types import Array


@dataclass(frozen=True)
class Windows:
    """Which indices of its axis each window has: an array [windows, width], -1 where outside.

    axes: one array for each spatial axis, outermost first. padded: how many elements each window
    has with torch's padding, one array [windows] for each axis.
    """

    axes: tuple[Array, ...]
    padded: tuple[Array, ...]

    def numbers(self, extents: Sequence[int]) -> Array:
        """Element numbers [windows, width] in a plane of these extents, -1 where outside."""
        total = np.zeros([1] * 2 * len(self.axes), np.int64)
        outside = np.zeros_like(total, bool)
        for position, positions in enumerate(self.axes):
            form = [1] * 2 * len(self.axes)
            form[position], form[len(self.axes) + position] = positions.shape
            total = total * extents[position] + positions.reshape(form)
            outside = outside | (positions.reshape(form) < 0)
        windows = math.prod(positions.shape[0] for positions in self.axes)
        return np.where(outside, -1, total).reshape(windows, -1)

    def counts(self, is_padded: bool) -> Array:
        """Number of elements of each window, with or without padding."""
        each = self.padded if is_padded else tuple((p >= 0).sum(1) for p in self.axes)
        product = np.ones([1], np.int64)
        for count in each:
            product = np.multiply.outer(product, count)
        return product.reshape(-1)


def sliding(
    extents: Sequence[int], results: Sequence[int], kernel: Sequence[int],
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
) -> Windows:  # fmt: skip
    """Windows at equal distances; each parameter has one number for each axis."""
    axes, padded = [], []
    for extent, count, size, step, pad, apart in zip(
        extents, results, kernel, stride, padding, dilation, strict=True
    ):
        positions = np.arange(count)[:, None] * step - pad + np.arange(size) * apart
        padded.append((positions < extent + pad).sum(1))
        axes.append(np.where((positions < 0) | (positions >= extent), -1, positions))
    return Windows(tuple(axes), tuple(padded))


def divided(extents: Sequence[int], results: Sequence[int]) -> Windows:
    """Axes in parts as equal as they can be, which may share elements."""
    axes = []
    for extent, count in zip(extents, results, strict=True):
        starts = [i * extent // count for i in range(count)]
        stops = [-(-(i + 1) * extent // count) for i in range(count)]
        width = max(b - a for a, b in zip(starts, stops, strict=True))
        positions = np.asarray(starts)[:, None] + np.arange(width)
        axes.append(np.where(positions < np.asarray(stops)[:, None], positions, -1))
    return Windows(tuple(axes), tuple((p >= 0).sum(1) for p in axes))


def _collected(call: Call, x: Value, windows: Windows, fill: float) -> Value:
    """The elements of all windows: [outer axes as one, windows, width]."""
    rank = len(windows.axes)
    outer, extents = x.type.shape[:-rank], x.type.shape[-rank:]
    rows = call.shaped(x, [math.prod(outer), math.prod(extents)])
    numbers = windows.numbers(extents)
    if (numbers < 0).any():
        edge = np.full([math.prod(outer), 1], fill, x.type.dtype)
        rows = call.onnx("Concat", rows, edge, axis=1)
        numbers = np.where(numbers < 0, math.prod(extents), numbers)
    return call.onnx("Gather", rows, numbers, axis=1)


def largest(call: Call, x: Value, windows: Windows) -> Result:
    """The largest of each window, and its number in its plane where something reads it."""
    least = -math.inf if x.type.is_float else np.iinfo(x.type.dtype).min
    parts = _collected(call, x, windows, least)
    top = call.shaped(call.onnx("ReduceMax", parts, ints([2]), keepdims=0), call.shape)
    if 1 not in call.used:
        return top, None
    largest = call.onnx("ArgMax", parts, axis=2, keepdims=0)
    extents = x.type.shape[-len(windows.axes) :]
    table = windows.numbers(extents)
    first = np.arange(len(table)) * table.shape[1]
    at = call.onnx("Add", largest, first[None].astype(largest.type.dtype))
    return top, call.shaped(call.onnx("Gather", table.reshape(-1), at, axis=0), call.shape)


def mean_of(call: Call, x: Value, windows: Windows, counts: Array) -> Value:
    """The sum of each window by its count."""
    parts = _collected(call, x, windows, 0)
    sums = call.onnx("ReduceSum", parts, ints([2]), keepdims=0)
    return call.shaped(call.onnx("Div", sums, counts[None].astype(x.type.dtype)), call.shape)


def every(numbers: Sequence[int], count: int) -> tuple[int, ...]:
    """One number for each axis; torch allows one for all."""
    return tuple(numbers) * (count if len(numbers) == 1 else 1)


@aten("max_pool3d_with_indices.default")
def max_pool_3d(call: Call, x: Value, kernel: Sequence[int], stride: Sequence[int] = (),
                padding: Sequence[int] = (0,), dilation: Sequence[int] = (1,),
                ceil_mode: bool = False) -> Result:  # fmt: skip
    """The largest of each window of a volume."""
    return largest(call, x, pool_windows(call, x, 3, kernel, stride, padding, dilation))


@aten("avg_pool3d.default")
def average_pool_3d(call: Call, x: Value, kernel: Sequence[int], stride: Sequence[int] = (),
                    padding: Sequence[int] = (0,), ceil_mode: bool = False,
                    count_include_pad: bool = True,
                    divisor_override: int | None = None) -> Result:  # fmt: skip
    """The mean of each window of a volume."""
    windows = pool_windows(call, x, 3, kernel, stride, padding, (1,))
    counts = windows.counts(count_include_pad)
    return mean_of(call, x, windows, np.full_like(counts, divisor_override or 0)
                   if divisor_override else counts)  # fmt: skip


def pool_windows(
    call: Call, x: Value, rank: int, kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int],
) -> Windows:  # fmt: skip
    """The windows of a pool over the last axes."""
    sizes = every(kernel, rank)
    return sliding(x.type.shape[-rank:], call.shape[-rank:], sizes,
                   every(stride, rank) if stride else sizes, every(padding, rank),
                   every(dilation, rank))  # fmt: skip


@aten("_adaptive_avg_pool3d.default")
def adaptive_average(call: Call, x: Value, size: Sequence[int]) -> Result:
    """Means of parts as equal as they can be."""
    windows = divided(x.type.shape[-len(size) :], size)
    return mean_of(call, x, windows, windows.counts(is_padded=False))


@aten("adaptive_max_pool2d.default", "adaptive_max_pool3d.default")
def adaptive_maximum(call: Call, x: Value, size: Sequence[int]) -> Result:
    """The largest of parts as equal as they can be."""
    return largest(call, x, divided(x.type.shape[-len(size) :], size))


@aten("col2im.default")
def columns_to_image(call: Call, x: Value, size: Sequence[int], kernel: Sequence[int],
                     dilation: Sequence[int], padding: Sequence[int],
                     stride: Sequence[int]) -> Result:  # fmt: skip
    """Sums of overlapping windows: a transposed convolution with unit matrices."""
    batched = x if len(x.type.shape) == 3 else call.shaped(x, (1, *x.type.shape))
    area = math.prod(kernel)
    batch, channels, _ = batched.type.shape
    counts = [(n + 2 * p - d * (k - 1) - 1) // s + 1
              for n, p, d, k, s in zip(size, padding, dilation, kernel, stride,
                                       strict=True)]  # fmt: skip
    image = call.shaped(batched, [batch, channels, *counts])
    joined = np.zeros([channels, channels // area, *kernel], np.float32)
    for channel, at in zip(range(channels), itertools.cycle(np.ndindex(*kernel)), strict=False):
        joined[(channel, channel // area, *at)] = 1
    rest = [n - ((c - 1) * s - 2 * p + d * (k - 1) + 1)
            for n, c, s, p, d, k in zip(size, counts, stride, padding, dilation, kernel,
                                        strict=True)]  # fmt: skip
    made = call.onnx("ConvTranspose", image, joined, strides=tuple(stride),
                     dilations=tuple(dilation), pads=(*padding, *padding), group=1,
                     kernel_shape=tuple(kernel), output_padding=tuple(rest))  # fmt: skip
    return call.shaped(made, call.shape)
