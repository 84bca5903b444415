"""Steps of random TFLite models: quantized int8 and int16, floats, element-wise rows of the tables.

Shapes and options come from the schema; a model that TFLite Micro refuses is no case.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from random_models import (
    EXTENTS,
    LENGTHS,
    MOST_ELEMENTS,
    SCALES,
    Maker,
    Model,
    Rng,
    Step,
    Tensor,
    random_array,
    random_shape,
)
from tflite_case_makers import of_case

Propose = Callable[[Maker], None]
MAKERS: list[Propose] = []
#: Operators of the makers here that no row of edgec's tables has.
KINDS = (
    "ADD", "AVERAGE_POOL_2D", "CONCATENATION", "CONV_2D", "CUMSUM", "DEPTHWISE_CONV_2D",
    "DEQUANTIZE", "EXPAND_DIMS", "FULLY_CONNECTED", "HARD_SWISH", "LEAKY_RELU", "LOGISTIC",
    "LOG_SOFTMAX", "MAX_POOL_2D", "MEAN", "MUL", "PAD", "PRELU", "QUANTIZE", "REDUCE_MAX", "RELU",
    "RELU6", "RESHAPE", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "SLICE", "SOFTMAX",
    "STRIDED_SLICE", "SUB", "SUM", "TANH", "TRANSPOSE",
)  # fmt: skip
#: Values of each model are of one of these.
DTYPES = ("int8",) * 5 + ("int16", "float32", "float32")


def random_tflite(rng: Rng) -> Model:
    """A model of up to 10 operators."""
    maker = Maker(rng, "tflite")
    dtype = str(rng.choice(DTYPES))
    for _ in range(int(rng.integers(1, 3))):
        maker.input(quantized(rng, random_shape(rng), dtype))
    wanted = int(rng.choice(LENGTHS))
    for _ in range(5 * wanted):
        if len(maker.steps) >= wanted:
            break
        count = len(maker.tensors)
        try:
            make = of_case if rng.random() < 0.3 else MAKERS[int(rng.integers(len(MAKERS)))]
            make(maker)
        except LookupError:
            for name in list(maker.tensors)[count:]:
                del maker.tensors[name]
    return maker.finish() if maker.steps else random_tflite(rng)


def quantized(rng: Rng, shape: tuple[int, ...], dtype: str) -> Tensor:
    """A tensor with a random scale and an odd zero point; floats and int32 have none."""
    if dtype not in ("int8", "int16"):
        return Tensor(shape, dtype)
    scale = float(np.float32(rng.choice(SCALES)))
    zero = int(rng.choice([0, -128, 127, int(rng.integers(-128, 128))])) if dtype == "int8" else 0
    return Tensor(shape, dtype, (scale,), (zero,))


def emit(
    maker: Maker, kind: str, inputs: list[str], out: Tensor, options: str = "", **fields: Any
) -> str:
    """Append an operator. Raises LookupError for an output that is empty or too large."""
    if not 0 < math.prod(out.shape) <= MOST_ELEMENTS or len(out.shape) > 4:
        raise LookupError
    name = maker.name("v")
    maker.tensors[name] = out
    maker.steps.append(Step(kind, tuple(inputs), (name,), fields, options))
    return name


def makes(count: int = 1) -> Callable[[Propose], Propose]:
    def register(function: Propose) -> Propose:
        MAKERS.extend([function] * count)
        return function

    return register


def _like(maker: Maker, x: str, shape: tuple[int, ...] | None = None) -> Tensor:
    """The type of x, another shape."""
    t = maker.tensors[x]
    return Tensor(t.shape if shape is None else shape, t.dtype, t.scale, t.zero_point)


def _fresh(maker: Maker, x: str, shape: tuple[int, ...] | None = None) -> Tensor:
    """The dtype of x with a quantization of its own, about as fine."""
    t = maker.tensors[x]
    made = quantized(maker.rng, t.shape if shape is None else shape, t.dtype)
    if not made.scale:
        return made
    scale = float(np.float32(t.scale[0] * maker.rng.choice([0.7, 1.0, 1.3, 2.0])))
    return Tensor(made.shape, made.dtype, (scale,), made.zero_point)


def _value(maker: Maker, rank: int | None = None, *dtypes: str) -> str:
    return maker.pick(lambda t: t.dtype in (dtypes or ("int8", "int16", "float32"))
                      and rank in (None, len(t.shape)))  # fmt: skip


def _integers(maker: Maker, values: Any, dtype: str = "int32") -> str:
    return maker.constant(np.asarray(values, dtype))


@makes(4)
def _conv(maker: Maker, kind: str = "CONV_2D") -> None:
    rng, x = maker.rng, _value(maker, 4)
    n, h, w, c = maker.tensors[x].shape
    is_depthwise = rng.random() < 0.4
    stride, dilation = (int(v) for v in rng.choice([1, 1, 2, 3], 2))
    kernel = [int(k) for k in rng.choice([1, 2, 3, 5], 2)]
    if stride > 1:
        dilation = 1
    reach = [(k - 1) * dilation + 1 for k in kernel]
    is_valid = rng.random() < 0.5 and reach[0] <= h and reach[1] <= w
    size = [-(-(e - r + 1) // stride) if is_valid else -(-e // stride)
            for e, r in zip((h, w), reach, strict=True)]  # fmt: skip
    times = int(rng.choice([1, 1, 2]))
    out_c = c * times if is_depthwise else int(rng.choice(EXTENTS))
    shape = (1, *kernel, out_c) if is_depthwise else (out_c, *kernel, c)
    weights, bias = _weights(maker, x, shape, 3 if is_depthwise else 0, out_c)
    common = {"Padding": int(is_valid), "StrideW": stride, "StrideH": stride,
              "DilationWFactor": dilation, "DilationHFactor": dilation,
              "FusedActivationFunction": int(rng.choice([0, 0, 1, 3]))}  # fmt: skip
    out = _fresh(maker, x, (n, *size, out_c))
    out = _wide(out, math.prod(kernel) * (1 if is_depthwise else c))
    if is_depthwise:
        emit(maker, "DEPTHWISE_CONV_2D", [x, weights, bias], out, "DepthwiseConv2DOptions",
             DepthMultiplier=times, **common)  # fmt: skip
    else:
        emit(maker, "CONV_2D", [x, weights, bias], out, "Conv2DOptions", **common)


def _wide(out: Tensor, terms: int) -> Tensor:
    """A scale that sums of `count` products mostly fit."""
    if not out.scale:
        return out
    return Tensor(out.shape, out.dtype, (float(np.float32(out.scale[0] * math.sqrt(terms))),),
                  out.zero_point)  # fmt: skip


def _weights(
    maker: Maker, x: str, shape: tuple[int, ...], axis: int, channels: int
) -> tuple[str, str]:
    """Weights, per channel or not, and a bias."""
    rng, like = maker.rng, maker.tensors[x]
    if like.dtype == "float32":
        weights = maker.constant((rng.integers(-99, 99, shape) / 128).astype(np.float32))
        return weights, maker.constant((rng.integers(-99, 99, channels) / 64).astype(np.float32))
    count = channels if rng.random() < 0.6 else 1
    scales = tuple(float(np.float32(s)) for s in rng.uniform(0.002, 0.02, count))
    data = rng.integers(-127, 128, shape).astype(np.int8)
    weights = maker.constant(data, scale=scales, zero_point=(0,) * count, axis=axis)
    wide = "int64" if like.dtype == "int16" else "int32"
    own = tuple(float(np.float32(np.float32(like.scale[0]) * np.float32(s))) for s in scales)
    bias = maker.constant(rng.integers(-3000, 3000, channels).astype(wide), scale=own,
                          zero_point=(0,) * count)  # fmt: skip
    return weights, bias


@makes(2)
def _dense(maker: Maker) -> None:
    rng, x = maker.rng, _value(maker, 2)
    rows, depth = maker.tensors[x].shape
    out = int(rng.choice(EXTENTS))
    weights, bias = _weights(maker, x, (out, depth), 0, out)
    if len(maker.tensors[weights].scale) > 1 and maker.tensors[x].dtype == "int16":
        raise LookupError
    emit(maker, "FULLY_CONNECTED", [x, weights, bias], _wide(_fresh(maker, x, (rows, out)), depth),
         "FullyConnectedOptions", FusedActivationFunction=int(rng.choice([0, 0, 1])))  # fmt: skip


@makes(2)
def _pool(maker: Maker) -> None:
    rng, x = maker.rng, _value(maker, 4)
    n, h, w, c = maker.tensors[x].shape
    kind = str(rng.choice(["MAX_POOL_2D", "AVERAGE_POOL_2D"]))
    stride, (kh, kw) = int(rng.choice([1, 2, 3])), (int(k) for k in rng.choice([1, 2, 3], 2))
    is_valid = rng.random() < 0.5 and kh <= h and kw <= w
    size = [-(-(e - k + 1) // stride) if is_valid else -(-e // stride)
            for e, k in ((h, kh), (w, kw))]  # fmt: skip
    emit(maker, kind, [x], _like(maker, x, (n, *size, c)), "Pool2DOptions", Padding=int(is_valid),
         StrideW=stride, StrideH=stride, FilterWidth=kw, FilterHeight=kh,
         FusedActivationFunction=int(rng.choice([0, 0, 1])))  # fmt: skip


def _pair(maker: Maker) -> tuple[str, str, tuple[int, ...]]:
    x = _value(maker)
    t = maker.tensors[x]

    def fits(other: Tensor) -> bool:
        return other.dtype == t.dtype and other.shape == t.shape

    if maker.rng.random() < 0.5:
        return x, maker.pick(fits), t.shape
    own = tuple(1 if maker.rng.random() < 0.3 else n for n in t.shape)
    like = _fresh(maker, x, own)
    data = random_array(maker.rng, own, t.dtype)
    other = maker.constant(data, scale=like.scale, zero_point=like.zero_point)
    return x, other, t.shape


@makes(4)
def _sum(maker: Maker) -> None:
    kind = str(maker.rng.choice(["ADD", "SUB", "MUL"]))
    x, y, shape = _pair(maker)
    pair = [x, y] if maker.rng.random() < 0.7 else [y, x]
    emit(maker, kind, pair, _fresh(maker, x, shape), f"{kind.capitalize()}Options",
         FusedActivationFunction=int(maker.rng.choice([0, 0, 1])))  # fmt: skip


@functools.cache
def _rows() -> list[Any]:
    from edgec import ops
    from edgec.ops.row import _BY_KIND

    ops.load()
    return [row for (name, kind), rows in _BY_KIND.items() for row in rows
            if name == "tflite" and kind and "float32" in row.dtypes and not row.fixed]  # fmt: skip


@makes(4)
def _row(maker: Maker) -> None:
    row = _rows()[int(maker.rng.integers(len(_rows())))]
    if maker.rng.random() < 0.3 and row.stored:
        x = _value(maker, None, "int8")
        same = [x, maker.pick(lambda t: t == maker.tensors[x])][: row.operands]
        emit(maker, row.tflite, same, _like(maker, x), "MaximumMinimumOptions")
        return
    x = _value(maker, None, "float32")
    shape = maker.tensors[x].shape
    inputs = [x, maker.constant(random_array(maker.rng, shape, "float32") + np.float32(9))]
    emit(maker, row.tflite, inputs[: row.operands], Tensor(shape, row.result or "float32"))


@makes(3)
def _unary(maker: Maker) -> None:
    x = _value(maker)
    t, rng = maker.tensors[x], maker.rng
    kind = str(rng.choice(["LOGISTIC", "TANH", "SOFTMAX", "RELU", "RELU6", "LEAKY_RELU",
                           "HARD_SWISH", "LOG_SOFTMAX"]))  # fmt: skip
    fixed = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0), "SOFTMAX": (1 / 256, -128),
             "LOG_SOFTMAX": (16 / 256, 127)}  # fmt: skip
    if t.dtype == "int16":
        fixed = dict.fromkeys(fixed, (1 / 32768, 0))
        if kind == "LOG_SOFTMAX" or (kind in ("LOGISTIC", "TANH") and rng.random() < 0.5):
            raise LookupError
    out = _fresh(maker, x)
    if kind in fixed and t.scale:
        out = Tensor(t.shape, t.dtype, (fixed[kind][0],), (fixed[kind][1],))
    options, fields = "", {}
    if kind == "SOFTMAX":
        options, fields = "SoftmaxOptions", {"Beta": float(rng.choice([1.0, 0.5]))}
    if kind == "LEAKY_RELU":
        options, fields = "LeakyReluOptions", {"Alpha": float(rng.choice([0.1, 0.3]))}
    emit(maker, kind, [x], out, options, **fields)


@makes(3)
def _view(maker: Maker) -> None:
    rng, x = maker.rng, _value(maker)
    shape = list(maker.tensors[x].shape)
    kind = str(rng.choice(["RESHAPE", "TRANSPOSE", "EXPAND_DIMS", "SQUEEZE"]))
    if kind == "TRANSPOSE":
        order = [int(n) for n in rng.permutation(len(shape))]
        emit(maker, kind, [x, _integers(maker, order)],
             _like(maker, x, tuple(shape[n] for n in order)))  # fmt: skip
    elif kind == "EXPAND_DIMS":
        axis = int(rng.integers(0, len(shape) + 1))
        emit(maker, kind, [x, _integers(maker, axis)],
             _like(maker, x, (*shape[:axis], 1, *shape[axis:])))  # fmt: skip
    elif kind == "SQUEEZE":
        axes = [n for n, e in enumerate(shape) if e == 1]
        if not axes:
            raise LookupError
        del shape[axes[0]]
        emit(maker, "RESHAPE", [x, _integers(maker, shape)], _like(maker, x, tuple(shape)))
    else:
        size = math.prod(shape)
        first = int(rng.choice([n for n in (1, 2, 3, 5, 7, 8) if size % n == 0]))
        emit(maker, kind, [x, _integers(maker, [first, size // first])],
             _like(maker, x, (first, size // first)))  # fmt: skip


@makes(2)
def _cut(maker: Maker) -> None:
    rng, x = maker.rng, _value(maker)
    shape = maker.tensors[x].shape
    begin = [int(rng.integers(0, e)) for e in shape]
    if rng.random() < 0.5:
        size = [int(rng.integers(1, e - b + 1)) for e, b in zip(shape, begin, strict=True)]
        emit(maker, "SLICE", [x, _integers(maker, begin), _integers(maker, size)],
             _like(maker, x, tuple(size)))  # fmt: skip
        return
    step = [int(rng.choice([1, 1, 2, 3])) for _ in shape]
    size = [-(-(e - b) // s) for e, b, s in zip(shape, begin, step, strict=True)]
    operands = [_integers(maker, v) for v in (begin, shape, step)]
    emit(maker, "STRIDED_SLICE", [x, *operands], _like(maker, x, tuple(size)),
         "StridedSliceOptions")  # fmt: skip


@makes(2)
def _join(maker: Maker) -> None:
    rng, x = maker.rng, _value(maker)
    shape = list(maker.tensors[x].shape)
    if not shape:
        raise LookupError
    axis = int(rng.integers(0, len(shape)))

    def fits(t: Tensor) -> bool:
        rest = [list(s) for s in (t.shape, shape) if len(s) == len(shape)]
        return (
            (t.dtype, t.scale, t.zero_point) == own
            and len(rest) == 2
            and (rest[0][:axis] + rest[0][axis + 1 :] == rest[1][:axis] + rest[1][axis + 1 :])
        )

    like = maker.tensors[x]
    own = (like.dtype, like.scale, like.zero_point)
    parts = [x, *(maker.pick(fits) for _ in range(int(rng.integers(1, 3))))]
    shape[axis] = sum(maker.tensors[p].shape[axis] for p in parts)
    emit(maker, "CONCATENATION", parts, _like(maker, x, tuple(shape)), "ConcatenationOptions",
         Axis=axis)  # fmt: skip


@makes(2)
def _reduce(maker: Maker) -> None:
    rng, x = maker.rng, _value(maker)
    shape = maker.tensors[x].shape
    if not shape:
        raise LookupError
    kind = str(rng.choice(["MEAN", "SUM", "REDUCE_MAX"]))
    axes = sorted(int(n) for n in rng.choice(len(shape), int(rng.integers(1, len(shape) + 1)),
                                             replace=False))  # fmt: skip
    keeps = bool(rng.random() < 0.5)
    size = tuple(1 if n in axes else e for n, e in enumerate(shape) if keeps or n not in axes)
    if not size:
        raise LookupError
    out = _like(maker, x, size) if kind == "REDUCE_MAX" else _fresh(maker, x, size)
    emit(maker, kind, [x, _integers(maker, axes)], out, "ReducerOptions", KeepDims=keeps)


@makes(2)
def _pad(maker: Maker) -> None:
    rng, x = maker.rng, _value(maker)
    shape = maker.tensors[x].shape
    pads = rng.choice([0, 0, 1, 2], (len(shape), 2))
    size = tuple(int(e + a + b) for e, (a, b) in zip(shape, pads, strict=True))
    emit(maker, "PAD", [x, _integers(maker, pads)], _like(maker, x, size))


@makes(2)
def _resize(maker: Maker) -> None:
    rng, x = maker.rng, _value(maker, 4, "int8", "float32")
    n, h, w, c = maker.tensors[x].shape
    size = [int(e * rng.choice([1, 2, 3]) + rng.choice([0, 0, 1])) for e in (h, w)]
    name = str(rng.choice(["NearestNeighbor", "Bilinear"]))
    how = int(rng.choice(3))
    emit(maker, "RESIZE_" + ("BILINEAR" if name == "Bilinear" else "NEAREST_NEIGHBOR"),
         [x, _integers(maker, size)], _like(maker, x, (n, *size, c)), f"Resize{name}Options",
         AlignCorners=how == 1, HalfPixelCenters=how == 2)  # fmt: skip


@makes(2)
def _of_stored(maker: Maker) -> None:
    """Differences and magnitudes of stored integers, and sums along an axis."""
    x, rng = _value(maker, None, "int8"), maker.rng
    t = maker.tensors[x]
    kind = str(rng.choice(["ABS", "SQUARED_DIFFERENCE", "CUMSUM"]))
    if kind == "CUMSUM" and t.shape:
        emit(maker, kind, [x, _integers(maker, int(rng.integers(len(t.shape))))], _fresh(maker, x),
             "CumsumOptions", Exclusive=bool(rng.random() < 0.5))  # fmt: skip
        return
    other = maker.pick(lambda o: o.dtype == t.dtype and o.shape == t.shape)
    is_one = kind != "SQUARED_DIFFERENCE"
    emit(maker, "ABS" if is_one else kind, [x] if is_one else [x, other], _fresh(maker, x))


@makes(1)
def _quantize(maker: Maker) -> None:
    x = _value(maker)
    t = maker.tensors[x]
    if t.dtype == "float32":
        emit(maker, "QUANTIZE", [x], quantized(maker.rng, t.shape, "int8"))
    elif maker.rng.random() < 0.5:
        emit(maker, "DEQUANTIZE", [x], Tensor(t.shape, "float32"))
    else:
        emit(maker, "QUANTIZE", [x], _fresh(maker, x))


@makes(1)
def _prelu(maker: Maker) -> None:
    x = _value(maker, None, "int8", "float32")
    t = maker.tensors[x]
    shape = (*(1 for _ in t.shape[1:-1]), t.shape[-1])
    like = quantized(maker.rng, shape, t.dtype)
    alpha = maker.constant(random_array(maker.rng, shape, t.dtype), scale=like.scale,
                           zero_point=like.zero_point)  # fmt: skip
    emit(maker, "PRELU", [x, alpha], _fresh(maker, x))
