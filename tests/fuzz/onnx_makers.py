"""Makers of the steps of random ONNX models: a node of an operator, to be tried."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from random_models import (
    EXTENTS,
    MOST_ELEMENTS,
    SCALES,
    Maker,
    Tensor,
    random_array,
    random_shape,
)


@dataclass
class Proposal:
    """A node to try; `count` outputs. captured: what its bodies read of the graph around."""

    kind: str
    inputs: list[str]
    fields: dict[str, Any] = field(default_factory=dict)
    count: int = 1
    captured: list[str] = field(default_factory=list)


Propose = Callable[[Maker], Proposal]


def operand(maker: Maker, shape: tuple[int, ...], dtype: str) -> str:
    """A value or a constant that broadcasts with `shape`."""
    rng = maker.rng
    if rng.random() < 0.5:
        try:
            return maker.pick(lambda t: t.dtype == dtype and _broadcasts(t.shape, shape))
        except LookupError:
            pass
    own = [1 if rng.random() < 0.4 else n for n in shape][int(rng.integers(len(shape) + 1)) :]
    data = random_array(rng, own, dtype)
    return maker.constant(np.where(data == 0, data.dtype.type(1), data)
                          if dtype != "bool" else data)  # fmt: skip


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        return math.prod(np.broadcast_shapes(a, b)) <= MOST_ELEMENTS
    except ValueError:
        return False


MAKERS: dict[str, list[Propose]] = {}


def makes(*kinds: str) -> Callable[[Callable[[Maker, str], Proposal]], Any]:
    """Register a maker of these kinds."""

    def register(function: Callable[[Maker, str], Proposal]) -> Any:
        for kind in kinds:
            MAKERS.setdefault(kind, []).append(functools.partial(function, kind=kind))
        return function

    return register


def floats(maker: Maker, rank: int | None = None) -> str:
    return maker.pick(lambda t: t.dtype == "float32" and rank in (None, len(t.shape)))


def any_value(maker: Maker) -> str:
    return maker.pick()


def _rank(maker: Maker, x: str) -> int:
    return len(maker.tensors[x].shape)


def axis_of(maker: Maker, x: str) -> int:
    rank = _rank(maker, x)
    if not rank:
        raise LookupError
    return int(maker.rng.integers(-rank, rank))


def weights(maker: Maker, shape: tuple[int, ...]) -> str:
    return maker.constant((maker.rng.integers(-100, 101, shape) / 128).astype(np.float32))


@makes("Relu", "Sigmoid", "Tanh", "HardSwish", "LeakyRelu", "Identity", "Softmax", "LogSoftmax",
       "Dropout")  # fmt: skip
def _unary(maker: Maker, kind: str) -> Proposal:
    x, fields = floats(maker), {}
    if kind == "Identity":
        x = any_value(maker)
    if kind.endswith("oftmax"):
        fields = {"axis": axis_of(maker, x)}
    if kind == "LeakyRelu" and maker.rng.random() < 0.7:
        fields = {"alpha": float(maker.rng.choice([0.1, 0.3, 1.5, -0.5]))}
    return Proposal(kind, [x], fields)


@makes("Clip")
def _clip(maker: Maker, kind: str) -> Proposal:
    x = maker.pick(lambda t: t.dtype in ("float32", "int8", "int32"))
    dtype = maker.tensors[x].dtype
    low, high = sorted(maker.rng.integers(-9, 10, 2))
    ends = [maker.constant(np.asarray(n, dtype)) if maker.rng.random() < 0.8 else ""
            for n in (low, high)]  # fmt: skip
    return Proposal(kind, [x, *ends])


@makes("Add", "Sub", "Mul", "Pow", "Max", "Min", "PRelu")
def _pair(maker: Maker, kind: str) -> Proposal:
    x = floats(maker) if maker.rng.random() < 0.8 else any_value(maker)
    like = maker.tensors[x]
    other = operand(maker, like.shape, like.dtype)
    if kind == "Pow":
        power = maker.rng.choice([2, 3, 0.5, -1, 1])
        # No integer holds a root of a negative number, nor the inverse of 0.
        is_held = like.dtype.startswith("float") or power >= 1
        other = maker.constant(np.float32(power if is_held else 1))
    swap = kind in ("Add", "Sub", "Mul") and maker.rng.random() < 0.3
    return Proposal(kind, [other, x] if swap else [x, other])


@makes("Conv")
def _conv(maker: Maker, kind: str) -> Proposal:
    rng, x = maker.rng, floats(maker, 4)
    _, c, *extents = maker.tensors[x].shape
    group = int(rng.choice([g for g in (1, c, 2, 3) if c % g == 0]))
    out = group * int(rng.choice([1, 2, 3, 5]))
    kernel = [int(rng.choice([1, 2, 3, 5])) for _ in extents]
    dilations = [int(rng.choice([1, 1, 2])) for _ in extents]
    strides = [int(v) for v in rng.choice([1, 1, 2, 3], 2)]
    fields: dict[str, Any] = {
        "group": group, "strides": strides, "dilations": dilations, "kernel_shape": kernel
    }  # fmt: skip
    if rng.random() < 0.6:
        reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
        fields["pads"] = [int(rng.integers(0, r + 1)) for r in reach * 2]
    inputs = [x, weights(maker, (out, c // group, *kernel))]
    return Proposal(kind, inputs + ([weights(maker, (out,))] if rng.random() < 0.7 else []), fields)


@makes("ConvTranspose")
def _conv_transpose(maker: Maker, kind: str) -> Proposal:
    rng, x = maker.rng, floats(maker, 4)
    c, kernel = maker.tensors[x].shape[1], [int(v) for v in rng.choice([1, 2, 3], 2)]
    inputs = [x, weights(maker, (c, int(rng.choice([1, 2, 3])), *kernel))]
    return Proposal(kind, inputs, {"strides": [int(v) for v in rng.choice([1, 2, 3], 2)]})


@makes("MaxPool", "AveragePool")
def _pool(maker: Maker, kind: str) -> Proposal:
    rng, x = maker.rng, floats(maker, 4)
    kernel = [int(v) for v in rng.choice([1, 2, 3], 2)]
    fields: dict[str, Any] = {
        "kernel_shape": kernel, "strides": [int(v) for v in rng.choice([1, 2, 3], 2)],
        "ceil_mode": int(rng.random() < 0.3),
    }  # fmt: skip
    if rng.random() < 0.5:
        fields["pads"] = [int(rng.integers(0, k)) for k in kernel * 2]
    if kind == "AveragePool" and rng.random() < 0.5:
        fields["count_include_pad"] = 1
    if _starts_outside(maker.tensors[x].shape[2:], fields):
        fields["ceil_mode"] = 0
    return Proposal(kind, [x], fields)


def _starts_outside(extents: Sequence[int], fields: dict[str, Any]) -> bool:
    """Whether a last window, rounded up, has no element of its own.

    ONNX leaves it out, and ONNX Runtime's AveragePool does not.
    """
    pads = fields.get("pads", [0, 0, 0, 0])
    for extent, kernel, stride, before, after in zip(
        extents, fields["kernel_shape"], fields["strides"], pads[:2], pads[2:], strict=True
    ):
        last = -((extent + before + after - kernel) // -stride)
        if last * stride >= extent + before:
            return True
    return False


@makes("GlobalAveragePool", "GlobalMaxPool")
def _global(maker: Maker, kind: str) -> Proposal:
    return Proposal(kind, [floats(maker, 4)])


@makes("Gemm")
def _gemm(maker: Maker, kind: str) -> Proposal:
    rng, x = maker.rng, floats(maker, 2)
    _, depth = maker.tensors[x].shape
    out, is_turned = int(rng.choice(EXTENTS)), bool(rng.random() < 0.5)
    inputs = [x, weights(maker, (out, depth) if is_turned else (depth, out))]
    if rng.random() < 0.7:
        inputs.append(weights(maker, (out,)))
    fields: dict[str, Any] = {"transB": int(is_turned)}
    if rng.random() < 0.2:
        fields |= {"alpha": 0.5, "beta": 2.0}
    return Proposal(kind, inputs, fields)


@makes("MatMul")
def _matmul(maker: Maker, kind: str) -> Proposal:
    x = floats(maker)
    *lead, depth = maker.tensors[x].shape or (1,)
    if maker.rng.random() < 0.3:
        other = maker.pick(lambda t: t.dtype == "float32" and t.shape[-2:-1] == (depth,))
        return Proposal(kind, [x, other])
    lead = lead[:-1] if maker.rng.random() < 0.2 else []
    return Proposal(kind, [x, weights(maker, (*lead, depth, int(maker.rng.choice(EXTENTS))))])


@makes("Reshape", "Expand", "Tile", "Unsqueeze", "Squeeze")
def _shaped(maker: Maker, kind: str) -> Proposal:
    rng, x = maker.rng, any_value(maker)
    shape = list(maker.tensors[x].shape)
    if kind == "Reshape":
        size, numbers = math.prod(shape), []
        for _ in range(int(rng.integers(0, 4))):
            numbers.append(int(rng.choice([n for n in (1, 2, 3, 4, 5, 7, 8) if size % n == 0])))
            size //= numbers[-1]
        numbers.insert(int(rng.integers(len(numbers) + 1)), -1 if rng.random() < 0.5 else size)
    elif kind == "Expand":
        numbers = [int(rng.choice([1, 2, 3]))] * int(rng.random() < 0.4) + [
            int(rng.choice([1, 2, 5])) if n == 1 else int(rng.choice([1, n])) for n in shape
        ]
    elif kind == "Tile":
        numbers = [int(v) for v in rng.choice([1, 1, 2, 3], len(shape))]
    elif kind == "Unsqueeze":
        numbers = [int(rng.integers(-len(shape) - 1, len(shape) + 1))]
    else:
        numbers = [n for n, extent in enumerate(shape) if extent == 1][: int(rng.integers(1, 3))]
    return Proposal(kind, [x, maker.constant(np.asarray(numbers, np.int64))])


@makes("Transpose", "Flatten")
def _turned(maker: Maker, kind: str) -> Proposal:
    x = any_value(maker)
    rank = _rank(maker, x)
    if kind == "Flatten":
        return Proposal(kind, [x], {"axis": int(maker.rng.integers(-rank, rank + 1))})
    if not rank:
        raise LookupError
    return Proposal(kind, [x], {"perm": [int(n) for n in maker.rng.permutation(rank)]})


@makes("Concat")
def _concat(maker: Maker, kind: str) -> Proposal:
    x = any_value(maker)
    axis, like = axis_of(maker, x), maker.tensors[x]

    def fits(tensor: Tensor) -> bool:
        a, b = list(tensor.shape), list(like.shape)
        if tensor.dtype != like.dtype or len(a) != len(b):
            return False
        a[axis] = b[axis] = 0
        return a == b

    more = [maker.pick(fits) for _ in range(int(maker.rng.integers(1, 3)))]
    if maker.rng.random() < 0.3:
        more.append(maker.constant(random_array(maker.rng, like.shape, like.dtype)))
    return Proposal(kind, [x, *more], {"axis": axis})


@makes("Split")
def _split(maker: Maker, kind: str) -> Proposal:
    x = any_value(maker)
    axis = axis_of(maker, x)
    extent = maker.tensors[x].shape[axis]
    if extent < 2:
        raise LookupError
    first = int(maker.rng.integers(1, extent))
    sizes = maker.constant(np.asarray([first, extent - first], np.int64))
    return Proposal(kind, [x, sizes], {"axis": axis}, 2)


@makes("Slice")
def _slice(maker: Maker, kind: str) -> Proposal:
    rng, x = maker.rng, any_value(maker)
    axis = axis_of(maker, x)
    extent = maker.tensors[x].shape[axis]
    start, stop = int(rng.integers(-extent, extent)), int(rng.choice([extent, -1, 1 << 40, 3]))
    numbers = ([start], [stop], [axis], [int(rng.choice([1, 1, 2, 3, -1]))])
    if numbers[3] == [-1]:
        numbers = ([-1], [-(1 << 40)], [axis], [-1])
    return Proposal(kind, [x, *(maker.constant(np.asarray(n, np.int64)) for n in numbers)])


@makes("Pad")
def _pad(maker: Maker, kind: str) -> Proposal:
    rng, x = maker.rng, maker.pick(lambda t: t.dtype in ("float32", "int8", "int32"))
    like = maker.tensors[x]
    pads = [int(v) for v in rng.choice([0, 0, 1, 2], 2 * len(like.shape))]
    inputs = [x, maker.constant(np.asarray(pads, np.int64))]
    mode = str(rng.choice(["constant", "constant", "reflect", "edge"]))
    if mode == "constant" and rng.random() < 0.5:
        inputs.append(maker.constant(np.asarray(3, like.dtype)))
    return Proposal(kind, inputs, {"mode": mode})


@makes("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
       "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp", "ArgMax", "ArgMin")  # fmt: skip
def _reduce(maker: Maker, kind: str) -> Proposal:
    x = floats(maker)
    rank = _rank(maker, x)
    fields: dict[str, Any] = {"keepdims": int(maker.rng.random() < 0.6)}
    if kind.startswith("Arg"):
        return Proposal(kind, [x], {**fields, "axis": axis_of(maker, x)})
    count = int(maker.rng.integers(1, rank + 1)) if rank else 0
    axes = sorted(int(n) for n in maker.rng.choice(rank, count, replace=False)) if rank else []
    if not axes:
        raise LookupError
    if kind == "ReduceSum" or maker.opset >= 18:
        return Proposal(kind, [x, maker.constant(np.asarray(axes, np.int64))], fields)
    return Proposal(kind, [x], {**fields, "axes": axes})


@makes("LayerNormalization", "BatchNormalization")
def _normal(maker: Maker, kind: str) -> Proposal:
    if kind == "LayerNormalization":
        x = floats(maker)
        n = maker.tensors[x].shape[-1:]
        return Proposal(kind, [x, weights(maker, n), weights(maker, n)])
    x = floats(maker, 4)
    n = maker.tensors[x].shape[1:2]
    variance = maker.constant(np.abs(random_array(maker.rng, n, "float32")) + np.float32(0.1))
    return Proposal(kind, [x, *(weights(maker, n) for _ in range(3)), variance])


@makes("Resize")
def _resize(maker: Maker, kind: str) -> Proposal:
    rng, x = maker.rng, floats(maker, 4)
    n, c, *extents = maker.tensors[x].shape
    sizes = [n, c, *(int(e * rng.choice([1, 2, 3]) + rng.choice([0, 0, 1])) for e in extents)]
    places = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    fields = {
        "mode": str(rng.choice(["nearest", "linear"])),
        "coordinate_transformation_mode": str(rng.choice(places)),
    }
    if fields["mode"] == "nearest":
        fields["nearest_mode"] = str(rng.choice(
            ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]))  # fmt: skip
    return Proposal(kind, [x, "", "", maker.constant(np.asarray(sizes, np.int64))], fields)


@makes("DepthToSpace", "SpaceToDepth")
def _space(maker: Maker, kind: str) -> Proposal:
    fields: dict[str, Any] = {"blocksize": int(maker.rng.choice([2, 3]))}
    if kind == "DepthToSpace":
        fields["mode"] = str(maker.rng.choice(["DCR", "CRD"]))
    return Proposal(kind, [floats(maker, 4)], fields)


@makes("Gather")
def _gather(maker: Maker, kind: str) -> Proposal:
    rng, x = maker.rng, any_value(maker)
    axis = axis_of(maker, x)
    extent = maker.tensors[x].shape[axis]
    at = rng.integers(-extent, extent, random_shape(rng, int(rng.integers(0, 2)))[:1])
    return Proposal(kind, [x, maker.constant(np.asarray(at, np.int64))], {"axis": axis})


@makes("Cast")
def _cast(maker: Maker, kind: str) -> Proposal:
    from onnx import helper

    wanted = np.dtype(str(maker.rng.choice(["float32", "int32", "int64", "bool"])))
    return Proposal(kind, [any_value(maker)], {"to": int(helper.np_dtype_to_tensor_dtype(wanted))})


@makes("QuantizeLinear")
def _quantize(maker: Maker, kind: str) -> Proposal:
    rng = maker.rng
    dtype = str(rng.choice(["int8", "uint8"]))
    info = np.iinfo(dtype)
    zero = rng.choice([0, info.min, info.max, int(rng.integers(info.min, info.max))])
    scale = maker.constant(np.float32(rng.choice(SCALES)))
    return Proposal(kind, [floats(maker), scale, maker.constant(np.asarray(zero, dtype))])


@makes("DequantizeLinear")
def _dequantize(maker: Maker, kind: str) -> Proposal:
    """Of what a QuantizeLinear made, by its own parameters."""
    made = [s for s in maker.steps if s.kind == "QuantizeLinear"]
    if not made:
        raise LookupError
    step = made[int(maker.rng.integers(len(made)))]
    return Proposal(kind, [step.outputs[0], *step.inputs[1:]])


@makes("LSTM", "GRU", "RNN")
def _recurrent(maker: Maker, kind: str) -> Proposal:
    x = floats(maker, 3)
    gates, hidden = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], int(maker.rng.choice([1, 2, 3, 5]))
    depth = maker.tensors[x].shape[2]
    fields: dict[str, Any] = {"hidden_size": hidden}
    if kind == "GRU":
        fields["linear_before_reset"] = int(maker.rng.random() < 0.5)
    shapes = ((1, gates * hidden, depth), (1, gates * hidden, hidden), (1, 2 * gates * hidden))
    return Proposal(kind, [x, *(weights(maker, shape) for shape in shapes)], fields)
