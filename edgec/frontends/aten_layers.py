"""ATen operators with weights or windows, normalizations, and quantization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed
from edgec.frontends.aten import Call, Operand, Result, aten, ints, library
from edgec.frontends.aten_windows import adaptive_average, every, largest, mean_of, pool_windows
from edgec.graph.ir import Constant, Value


@dataclass(frozen=True)
class _Convolution:
    """The arguments of a convolution after its bias: a number for each axis, or one for all."""

    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    transposed: bool
    output_padding: Sequence[int]
    groups: int


@aten("convolution.default")
def convolution(call: Call, x: Value, weights: Value, bias: Value | None, *form: Any) -> Result:
    """A convolution or, transposed, its gradient, over one to three axes."""
    given, kernel = _Convolution(*form), weights.type.shape[2:]
    rank = len(kernel)
    common = {
        "strides": every(given.stride, rank), "dilations": every(given.dilation, rank),
        "pads": every(given.padding, rank) * 2, "group": given.groups, "kernel_shape": kernel,
    }  # fmt: skip
    if given.transposed:
        extra = {"output_padding": every(given.output_padding, rank)}
        return call.onnx("ConvTranspose", x, weights, bias, **common, **extra)
    return call.onnx("Conv", x, weights, bias, **common)


@aten("addmm.default", "baddbmm.default")
def dense(call: Call, bias: Value, x: Value, y: Value, beta: float = 1, alpha: float = 1) -> Result:
    """beta * bias + alpha * x @ y, of matrices or of batches of them."""
    if isinstance(y, Constant) and alpha == beta == 1 and len(bias.type.shape) == 1:
        return call.onnx("Gemm", x, y, bias)
    product = _times(call, call.onnx("MatMul", x, y), alpha)
    return call.onnx("Add", product, _times(call, bias, beta))


@aten("mm.default", "bmm.default", "matmul.default")
def product(call: Call, x: Value, y: Value) -> Result:
    """The product of matrices."""
    return call.onnx("MatMul", x, y)


def _times(call: Call, x: Value, factor: float) -> Value:
    return x if factor == 1 else call.onnx("Mul", x, call.like(factor, call.dtype))


@aten("max_pool2d_with_indices.default")
def max_pool(call: Call, x: Value, kernel: Sequence[int], stride: Sequence[int] = (),
             padding: Sequence[int] = (0,), dilation: Sequence[int] = (1,),
             ceil_mode: bool = False) -> Result:  # fmt: skip
    """The largest of each window, and its number in its plane where something reads it."""
    if 1 in call.used or any(apart != 1 for apart in dilation):
        return largest(call, x, pool_windows(call, x, 2, kernel, stride, padding, dilation))
    window = _window(kernel, stride, padding, ceil_mode)
    return _pooled(call, "MaxPool", x, {**window, "dilations": every(dilation, 2)}), None


@aten("avg_pool2d.default")
def average_pool(call: Call, x: Value, kernel: Sequence[int], stride: Sequence[int] = (),
                 padding: Sequence[int] = (0,), ceil_mode: bool = False,
                 count_include_pad: bool = True, divisor_override: int | None = None,
                 ) -> Result:  # fmt: skip
    """The mean of each window."""
    if divisor_override is not None:
        windows = pool_windows(call, x, 2, kernel, stride, padding, (1,))
        sums = np.full_like(windows.counts(is_padded=False), divisor_override)
        return mean_of(call, x, windows, sums)
    window = _window(kernel, stride, padding, ceil_mode)
    counted = int(count_include_pad and any(padding))
    return _pooled(call, "AveragePool", x, {**window, "count_include_pad": counted})


@aten("avg_pool1d.default")
def average_pool_1d(call: Call, x: Value, kernel: Sequence[int], stride: Sequence[int] = (),
                    padding: Sequence[int] = (0,), ceil_mode: bool = False,
                    count_include_pad: bool = True) -> Result:  # fmt: skip
    """The mean of each window along the last axis."""
    *outer, length = x.type.shape
    image = call.shaped(x, [*outer, 1, length])
    made = average_pool(
        call, image, [1, *kernel], [1, *(stride or kernel)], [0, *padding], ceil_mode,
        count_include_pad,
    )  # fmt: skip
    assert isinstance(made, Value)
    return call.shaped(made, call.shape)


@aten("_adaptive_avg_pool2d.default")
def adaptive_average_image(call: Call, x: Value, size: Sequence[int]) -> Result:
    """Means of equal parts of an image."""
    extents = x.type.shape[-2:]
    if any(extent % wanted for extent, wanted in zip(extents, size, strict=True)):
        return adaptive_average(call, x, size)
    kernel = [extent // wanted for extent, wanted in zip(extents, size, strict=True)]
    return average_pool(call, x, kernel)


def _window(
    kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], ceil_mode: bool
) -> dict[str, object]:
    """The attributes that pools share."""
    shape = every(kernel, 2)
    return {
        "kernel_shape": shape, "strides": every(stride or shape, 2),
        "pads": every(padding, 2) * 2, "ceil_mode": int(ceil_mode),
    }  # fmt: skip


def _pooled(call: Call, kind: str, x: Value, attributes: dict[str, object]) -> Value:
    """A pool over [N, C, H, W] or [C, H, W]."""
    image = x if len(x.type.shape) == 4 else call.shaped(x, (1, *x.type.shape))
    return call.shaped(call.onnx(kind, image, **attributes), call.shape)


@aten("_native_batch_norm_legit_no_training.default")
def batch_norm(call: Call, x: Value, weight: Value | None, bias: Value | None, mean: Value,
               variance: Value, momentum: float, eps: float) -> Result:  # fmt: skip
    """Normalization by stored statistics."""
    channels = x.type.shape[1]
    scale = weight if weight is not None else np.ones(channels, np.float32)
    shift = bias if bias is not None else np.zeros(channels, np.float32)
    batch, _, *extents = x.type.shape
    image = x if len(extents) == 2 else call.shaped(x, [batch, channels, 1, math.prod(extents)])
    made = call.onnx("BatchNormalization", image, scale, shift, mean, variance, epsilon=eps)
    return call.shaped(made, x.type.shape), None, None


@aten("_native_batch_norm_legit.no_stats")
def batch_norm_of_batch(call: Call, x: Value, weight: Value | None, bias: Value | None,
                        training: bool, momentum: float, eps: float) -> Result:  # fmt: skip
    """Normalization of each channel by its own statistics over the batch and all positions."""
    rank, channels = len(x.type.shape), x.type.shape[1]
    axes = [axis for axis in range(rank) if axis != 1]
    mean, factor = _statistics(call, x, axes, eps, keep=True)
    made = call.onnx("Mul", call.onnx("Sub", x, mean), factor)
    made = _by_channel(call, made, weight, bias)
    return made, call.shaped(mean, [channels]), call.shaped(factor, [channels])


@aten("native_layer_norm.default")
def layer_norm(call: Call, x: Value, shape: Sequence[int], weight: Value | None,
               bias: Value | None, eps: float) -> Result:  # fmt: skip
    """Normalization over the last axes."""
    scale = weight if weight is not None else np.ones(tuple(shape), np.float32)
    operands: list[Operand] = [x, scale] if bias is None else [x, scale, bias]
    made = call.onnx("LayerNormalization", *operands, axis=-len(shape), epsilon=eps)
    if not call.used & {1, 2}:
        return made, None, None
    rank = len(x.type.shape)
    return made, *_statistics(call, x, range(rank - len(shape), rank), eps, keep=True)


def _statistics(
    call: Call, x: Value, axes: Sequence[int], eps: float, *, keep: bool
) -> tuple[Value, Value]:
    """The mean and the reciprocal of the standard deviation over axes."""
    mean = call.onnx("ReduceMean", x, ints(axes), keepdims=1)
    centred = call.onnx("Sub", x, mean)
    squares = call.onnx("ReduceMean", call.onnx("Mul", centred, centred), ints(axes), keepdims=1)
    root = call.onnx("Sqrt", call.onnx("Add", squares, call.like(eps, x.type.dtype)))
    found = mean, call.onnx("Div", call.like(1.0, x.type.dtype), root)
    if keep:
        return found
    shape = [n for axis, n in enumerate(x.type.shape) if axis not in axes]
    return call.shaped(found[0], shape), call.shaped(found[1], shape)


def _by_channel(call: Call, x: Value, weight: Value | None, bias: Value | None) -> Value:
    """x by a factor and a sum for each channel, where there are."""
    form = [x.type.shape[1], *(1 for _ in x.type.shape[2:])]
    for kind, operand in (("Mul", weight), ("Add", bias)):
        if operand is not None:
            x = call.onnx(kind, x, call.shaped(operand, form))
    return x


@aten("native_group_norm.default")
def group_norm(
    call: Call, x: Value, weight: Value | None, bias: Value | None, *form: Any
) -> Result:
    """Normalization over groups of channels: of rows, then a factor and a sum for each channel."""
    batch, channels, size, groups, eps = form
    width = channels // groups * size
    rows = call.shaped(x, [batch * groups, width])
    ones = np.ones(width, np.float32)
    made = call.onnx("LayerNormalization", rows, ones, axis=-1, epsilon=eps)
    made = _by_channel(call, call.shaped(made, x.type.shape), weight, bias)
    if not call.used & {1, 2}:
        return made, None, None
    parts = call.shaped(x, [batch, groups, width])
    return made, *_statistics(call, parts, (2,), eps, keep=False)


@aten("_softmax.default")
def softmax(call: Call, x: Value, axis: int, half_to_float: bool = False) -> Result:
    """exp(x) by its sum along an axis."""
    if call.dtype == "float64":
        powers, total = _powers(call, _below_zero(call, x, axis), axis)
        return call.onnx("Div", powers, total)
    row = call.shaped(x, x.type.shape or (1,))
    return call.shaped(call.onnx("Softmax", row, axis=axis), x.type.shape)


@aten("_log_softmax.default")
def log_softmax(call: Call, x: Value, axis: int, half_to_float: bool = False) -> Result:
    """The logarithm of softmax."""
    if call.dtype == "float64":
        shifted = _below_zero(call, x, axis)
        _, total = _powers(call, shifted, axis)
        return call.onnx("Sub", shifted, call.onnx("Log", total))
    row = call.shaped(x, x.type.shape or (1,))
    return call.shaped(call.onnx("LogSoftmax", row, axis=axis), x.type.shape)


def _below_zero(call: Call, x: Value, axis: int) -> Value:
    """x less its largest along an axis, so that no power overflows."""
    if not x.type.shape:
        return call.onnx("Sub", x, x)
    return call.onnx("Sub", x, call.onnx("ReduceMax", x, ints([axis]), keepdims=1))


def _powers(call: Call, x: Value, axis: int) -> tuple[Value, Value]:
    """exp(x), and its sum along an axis."""
    powers = call.onnx("Exp", x)
    if not x.type.shape:
        return powers, powers
    return powers, call.onnx("ReduceSum", powers, ints([axis]), keepdims=1)


@aten("grid_sampler_2d.default", "grid_sampler_3d.default")
def grid_sampler(call: Call, x: Value, grid: Value, mode: int, padding: int,
                 align_corners: bool) -> Result:  # fmt: skip
    """An image sampled between its pixels at positions from a grid."""
    return call.onnx(
        "GridSample", x, grid, mode=("linear", "nearest", "cubic")[mode],
        padding_mode=("zeros", "border", "reflection")[padding], align_corners=int(align_corners),
    )  # fmt: skip


@aten("upsample_nearest2d.vec")
def upsample_nearest(call: Call, x: Value, size: Sequence[int] | None,
                     factors: Sequence[float] | None) -> Result:  # fmt: skip
    """An image of another size, by copies of pixels."""
    scales, sizes = _resized(call, x, factors)
    if sizes is None:  # ONNX divides by the factor, torch multiplies by one over it
        for axis, factor in enumerate(factors or (), start=2):
            at = np.arange(call.shape[axis], dtype=np.float32) * np.float32(1 / factor)
            x = call.onnx("Gather", x, at.astype(int).clip(max=x.type.shape[axis] - 1), axis=axis)
        return x
    return call.onnx("Resize", x, None, scales, sizes, mode="nearest",
                     coordinate_transformation_mode="asymmetric",
                     nearest_mode="floor")  # fmt: skip


@aten("upsample_bilinear2d.vec")
def upsample_bilinear(call: Call, x: Value, size: Sequence[int] | None, align_corners: bool,
                      factors: Sequence[float] | None, **more: Any) -> Result:  # fmt: skip
    """An image of another size, between four pixels each."""
    mode = "align_corners" if align_corners else "half_pixel"
    scales = None if align_corners else factors
    return call.onnx("Resize", x, None, *_resized(call, x, scales),
                     coordinate_transformation_mode=mode, **{"mode": "linear", **more})  # fmt: skip


@aten("_upsample_bilinear2d_aa.default")
def upsample_smoothly(call: Call, x: Value, size: Sequence[int], align_corners: bool,
                      *factors: float | None, **more: Any) -> Result:  # fmt: skip
    """An image of another size; of a smaller one each pixel is made of all that it covers."""
    if align_corners:
        raise ImportFailed("antialias with align_corners, where torch leaves corners unaligned")
    scales = None if None in factors else [float(f or 1) for f in factors]
    return upsample_bilinear(call, x, size, align_corners, scales, antialias=1, exclude_outside=1,
                             **more)  # fmt: skip


@aten("_upsample_bicubic2d_aa.default")
def upsample_by_cubes(call: Call, x: Value, size: Sequence[int], align_corners: bool,
                      *factors: float | None) -> Result:  # fmt: skip
    """The same with cubic interpolation; torch's coefficient differs when it smooths."""
    return upsample_smoothly(call, x, size, align_corners, *factors, mode="cubic",
                             cubic_coeff_a=-0.5)  # fmt: skip


def _resized(call: Call, x: Value, factors: Sequence[float] | None) -> tuple[Operand, Operand]:
    """ONNX's scales and sizes; scales if they differ from the sizes' ratio, as 1.7 for 3 -> 5."""
    sides = zip(x.type.shape[2:], call.shape[2:], factors or (), strict=False)
    if all(extent * factor == size for extent, size, factor in sides):
        return None, ints(call.shape)
    return np.asarray([1, 1, *(factors or ())], np.float32), None


@library("quantized_decomposed", "quantize_per_tensor.default", "quantize_per_tensor.tensor")
def quantize(call: Call, x: Value, scale: Operand, zero_point: Operand, low: int, high: int,
             dtype: object, axis: int | None = None) -> Result:  # fmt: skip
    """Stored integers of a value; fewer bits than the dtype has are a Clip."""
    steps = _number(call, scale, "float32"), _number(call, zero_point, call.dtype)
    stored = call.onnx("QuantizeLinear", x, *steps, **_along(axis))
    info = np.iinfo(np.dtype(call.dtype))
    if (low, high) == (info.min, info.max):
        return stored
    return call.onnx("Clip", stored, *(call.like(limit, call.dtype) for limit in (low, high)))


@library("quantized_decomposed", "quantize_per_channel.default")
def quantize_by_channel(call: Call, x: Value, scales: Value, zero_points: Value, axis: int,
                        *limits: Any) -> Result:  # fmt: skip
    """Stored integers of a value with a scale for each channel."""
    return quantize(call, x, scales, zero_points, *limits, axis=axis)


@library("quantized_decomposed", "dequantize_per_tensor.default", "dequantize_per_tensor.tensor")
def dequantize(call: Call, x: Value, scale: Operand, zero_point: Operand, *_: object,
               axis: int | None = None, **__: object) -> Result:  # fmt: skip
    """The real numbers that stored integers stand for."""
    steps = _number(call, scale, "float32"), _number(call, zero_point, x.type.dtype)
    return call.onnx("DequantizeLinear", x, *steps, **_along(axis))


@library("quantized_decomposed", "dequantize_per_channel.default")
def dequantize_by_channel(call: Call, x: Value, scales: Value, zero_points: Value | None,
                          axis: int, *_: object, **__: object) -> Result:  # fmt: skip
    """The real numbers that stored integers stand for, with a scale for each channel."""
    return dequantize(call, x, scales, zero_points, axis=axis)


def _along(axis: int | None) -> dict[str, int]:
    return {} if axis is None else {"axis": axis}


def _number(call: Call, given: Operand, dtype: str) -> Operand:
    """A scale or zero point as a constant of this dtype."""
    if isinstance(given, Constant):
        return given.data.astype(dtype)
    if isinstance(given, Value):
        raise ImportFailed("parameters of quantization that are computed are not supported")
    return call.like(given, dtype)
