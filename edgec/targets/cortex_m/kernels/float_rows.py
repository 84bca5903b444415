"""Rows of float32 convolutions (`runtime_c/kernels/cortex_m/`): their meaning and streams.

All kernels read one stream, unit after unit of four channels, of which the last may have fewer:
the biases of a unit, then for each input of a window the weights of its channels. Weights may be
stored in fewer bytes: as float16, or as int8 that count the steps of their channel, which stand
after the biases. Those of four bits are in units of eight channels, the last one as well, and
may have a step for each group of inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.loop.ir import Buffer, For, Load, PrimFunc, Seq, Stmt, Store
from edgec.loop.microkernel import Microkernel, Stream, register
from edgec.loop.primitives.halves import pack_halves
from edgec.loop.primitives.shifts import pack_shifts
from edgec.loop.primitives.steps import pack_steps
from edgec.loop.values import ExprValue, Value, as_expr, maximum, minimum
from edgec.loop.window import clipped
from edgec.numerics.term import TermLike, Var, as_term

Array = npt.NDArray[Any]

CONV, DEPTHWISE = "ec_conv_row_f32", "ec_depthwise_row_f32"
#: The convolution of weights that are stored as float16, and as int8 with a step for each channel.
CONV_HALVES, CONV_STEPS = "ec_conv_row_f32_f16", "ec_conv_row_f32_s8"
#: The same of such numbers of four bits.
CONV_NIBBLES = "ec_conv_row_f32_s4"
DEPTHWISE_HALVES, DEPTHWISE_STEPS = "ec_depthwise_row_f32_f16", "ec_depthwise_row_f32_s8"
#: Of four bits with a step for each group of inputs: the channel's, times a power of two.
CONV_GROUPS = "ec_conv_row_f32_s4_groups"
#: The largest such power, which has to fit in four bits with a sign.
MOST_SHIFT = 3
#: Channels of a unit, and pixels that are computed at once.
UNIT, PIXELS = 4, 4
#: Which limits a sum has.
LOWER, UPPER = 1, 2


def float_bits(value: float) -> int:
    """The bits of a float32 as an int32."""
    return int(np.float32(value).view(np.int32))


def limited(value: Value, bounds: int, low: int, high: int) -> Value:
    """A sum as `clip` limits it."""
    if bounds & LOWER:
        value = maximum(_float(low), value)
    return minimum(_float(high), value) if bounds & UPPER else value


def _float(bits: int) -> float:
    return float(np.int32(bits).view(np.float32))


def conv_row(
    height: int,
    width: int,
    in_channels: int,
    kernel_h: int,
    kernel_w: int,
    stride_h: int,
    stride_w: int,
    dilation_h: int,
    top: int,
    left: int,
    pixels: int,
    channels: int,
    bounds: int,
    low: int,
    high: int,
    row: TermLike,
) -> PrimFunc:
    """out[p, o] = limited bias[o] + x[...] * w[o, kh, kw, i] over the window of (row, p)."""
    rows = clipped(height, kernel_h, stride_h, dilation_h, top)
    columns = clipped(width, kernel_w, stride_w, 1, left)
    x = Buffer("x", (height, width, in_channels), "float32", "arena")
    w = Buffer("w", (channels, kernel_h, kernel_w, in_channels), "float32", "constant")
    p, o = Var("out_p", 0, pixels), Var("out_o", 0, channels)
    kh, kw = Var("acc_kh", 0, kernel_h), Var("acc_kw", 0, kernel_w)
    i = Var("acc_i", 0, in_channels)
    out_row, out_column = as_term(row), as_term(p)
    at_row = out_row * stride_h + as_term(kh) * dilation_h - top
    at_column = out_column * stride_w + kw - left
    return _row_of_sums(
        (p, o),
        (
            (kh, rows[0](out_row), rows[1](out_row)),
            (kw, columns[0](out_column), columns[1](out_column)),
            (i, 0, in_channels),
        ),
        Load(x, (at_row, at_column, as_term(i))),
        Load(w, (as_term(o), as_term(kh), as_term(kw), as_term(i))),
        lambda value: limited(value, bounds, low, high),
    )


def depthwise_row(
    height: int,
    width: int,
    kernel_h: int,
    kernel_w: int,
    stride_h: int,
    stride_w: int,
    dilation_h: int,
    dilation_w: int,
    top: int,
    left: int,
    pixels: int,
    channels: int,
    bounds: int,
    low: int,
    high: int,
    row: TermLike,
) -> PrimFunc:
    """out[p, c] = limited bias[c] + x[..., c] * w[kh, kw, c] over the window of (row, p)."""
    rows = clipped(height, kernel_h, stride_h, dilation_h, top)
    columns = clipped(width, kernel_w, stride_w, dilation_w, left)
    x = Buffer("x", (height, width, channels), "float32", "arena")
    w = Buffer("w", (kernel_h, kernel_w, channels), "float32", "constant")
    p, c = Var("out_p", 0, pixels), Var("out_c", 0, channels)
    kh, kw = Var("acc_kh", 0, kernel_h), Var("acc_kw", 0, kernel_w)
    out_row, out_column = as_term(row), as_term(p)
    at_row = out_row * stride_h + as_term(kh) * dilation_h - top
    at_column = out_column * stride_w + as_term(kw) * dilation_w - left
    return _row_of_sums(
        (p, c),
        (
            (kh, rows[0](out_row), rows[1](out_row)),
            (kw, columns[0](out_column), columns[1](out_column)),
        ),
        Load(x, (at_row, at_column, as_term(c))),
        Load(w, (as_term(kh), as_term(kw), as_term(c))),
        lambda value: limited(value, bounds, low, high),
    )


def _row_of_sums(
    outer: tuple[Var, Var],
    window: Sequence[tuple[Var, TermLike, TermLike]],
    x: Load,
    w: Load,
    end: Callable[[Value], Value],
) -> PrimFunc:
    """out[p, o] = end(bias[o] + x * w + ...): each output with its own reduction, pixel by pixel.

    Written as loops, since bounds may depend on a row that is given.
    """
    p, o = outer
    acc = Buffer("acc", (1,), "float32", "register")
    out = Buffer("out", (p.stop, o.stop), "float32", "arena")
    bias = Buffer("bias", (o.stop,), "float32", "constant")
    here = (as_term(0),)
    total = ExprValue(Load(acc, here))
    nest: Stmt = Store(acc, here, as_expr(total + ExprValue(x) * ExprValue(w), "float32"))
    for var, start, stop in reversed(window):
        nest = For(var, as_term(start), as_term(stop), "serial", nest)
    first = Store(acc, here, Load(bias, (as_term(o),)))
    last = Store(out, (as_term(p), as_term(o)), as_expr(end(total), "float32"))
    body: Stmt = Seq((first, nest, last))
    for var in (o, p):
        body = For(var, as_term(0), as_term(var.stop), "serial", body)
    params = (out, x.buffer, bias, w.buffer)
    return PrimFunc("row", params, (acc,), body)


def conv_row_of_halves(**sizes: Any) -> PrimFunc:
    """`conv_row` of weights that are stored as float16."""
    return pack_halves(conv_row(**sizes), "w")[0]


def depthwise_row_of_halves(**sizes: Any) -> PrimFunc:
    """`depthwise_row` of weights that are stored as float16."""
    return pack_halves(depthwise_row(**sizes), "w")[0]


def depthwise_row_of_steps(channels: int, **sizes: Any) -> PrimFunc:
    """`depthwise_row` of weights that are stored as int8, each times the step of its channel."""
    return pack_steps(depthwise_row(channels=channels, **sizes), "w", 2, [1.0] * channels)[0]


def conv_row_of_steps(channels: int, **sizes: Any) -> PrimFunc:
    """`conv_row` of weights that are stored as int8, each times the step of its channel."""
    return pack_steps(conv_row(channels=channels, **sizes), "w", 0, [1.0] * channels)[0]


def conv_row_of_groups(group: int, **sizes: Any) -> PrimFunc:
    """`conv_row_of_steps` of weights that `group` inputs of a tap shift; none do if it is 0."""
    row = conv_row_of_steps(**sizes)
    if not group:
        return row
    w = next(param for param in row.params if param.name == "w")
    shape = (*w.shape[:-1], w.shape[-1] // group)
    return pack_shifts(row, "w", shape, [0] * prod(shape))[0]


@dataclass(frozen=True)
class _Form:
    """How a stream holds weights: their dtype, what stands before them, the dtype of the stream.

    by_channel: the channel is the last axis of the weights; else it is the first.
    """

    by_channel: bool = False
    weights: str = "float32"
    heads: tuple[str, ...] = ("bias",)
    words: str = "float32"

    def length(self, inputs: int, channels: int, **_: int) -> int:
        """Words of a stream."""
        stored = np.dtype(self.weights).itemsize * inputs * channels
        return len(self.heads) * channels + -(-stored // 4)

    def pack(self, arrays: Mapping[str, Array], **_: int) -> Array:
        """Bias, steps and weights in the order of use."""
        w, channels = arrays["w"].astype(self.weights), len(arrays["bias"])
        flat = w.reshape(-1, channels) if self.by_channel else w.reshape(channels, -1).T
        rows = [arrays[name].astype(np.float32).reshape(1, -1) for name in self.heads]
        units = [
            part[:, c : c + UNIT].tobytes()
            for c in range(0, channels, UNIT)
            for part in (*rows, flat)
        ]
        held = b"".join(units)
        return np.frombuffer(held + bytes(-len(held) % 4), self.words).copy()

    def unpack(self, words: Array, inputs: int, channels: int, **_: int) -> dict[str, Array]:
        """The constants in a stream."""
        held, place = words.astype(self.words).tobytes(), 0
        parts = {name: np.empty((1, channels), np.float32) for name in self.heads}
        parts["w"] = np.empty((inputs, channels), self.weights)
        for c in range(0, channels, UNIT):
            for part in parts.values():
                unit = part[:, c : c + UNIT]
                taken = np.frombuffer(held, part.dtype, unit.size, place)
                part[:, c : c + UNIT] = taken.reshape(unit.shape)
                place += taken.nbytes
        flat = parts.pop("w")
        found = {name: part[0] for name, part in parts.items()}
        return {**found, "w": flat if self.by_channel else flat.T}


@dataclass(frozen=True)
class _Nibbles:
    """Units of eight channels: biases and steps of four and of four, and four bytes for an input.

    Their low halves hold the weights of the first four channels, the high ones those of the others.
    Before the inputs of a group there may be what their steps are multiplied by, as one more input:
    a power of two less its sign, and steps then have the other sign.
    """

    heads: tuple[str, ...] = ("bias", "w_step")
    words = "int32"

    def length(self, inputs: int, channels: int, group: int = 0, **_: int) -> int:
        """Words of a stream."""
        held = inputs + inputs // group if group else inputs
        return -(-channels // (2 * UNIT)) * (4 * UNIT + held)

    def pack(self, arrays: Mapping[str, Array], group: int = 0, **_: int) -> Array:
        """Bias, steps and weights in the order of use."""
        channels = len(arrays["bias"])
        more = -channels % (2 * UNIT)
        flat, steps = arrays["w"].reshape(channels, -1), arrays["w_step"].astype("<f4")
        if group:
            factors = -(1 << arrays["w_shift"].astype(np.int64).reshape(channels, -1, 1))
            parts = [factors, flat.reshape(channels, -1, group)]
            flat, steps = np.concatenate(parts, axis=2).reshape(channels, -1), -steps
        flat = np.pad(flat, ((0, more), (0, 0)))
        heads = [np.pad(head, (0, more)) for head in (arrays["bias"].astype("<f4"), steps)]
        # [unit, four, bias or step, channel] before [unit, input, channel of four]
        before = np.stack([head.reshape(-1, 2, UNIT) for head in heads], axis=2)
        low, high = np.moveaxis(flat.astype(np.uint8).reshape(-1, 2, UNIT, flat.shape[1]), 1, 0)
        halves = np.ascontiguousarray((low & 15 | high << 4).transpose(0, 2, 1))
        parts = [part.view("<i4").reshape(len(low), -1) for part in (before, halves)]
        return np.concatenate(parts, axis=1).reshape(-1)

    def unpack(
        self, words: Array, inputs: int, channels: int, group: int = 0, **_: int
    ) -> dict[str, Array]:
        """The constants in a stream."""
        held = self.length(inputs, 1, group) - 4 * UNIT
        units = np.ascontiguousarray(words, "<i4").reshape(-1, 4 * UNIT + held)
        before = np.ascontiguousarray(units[:, : 4 * UNIT]).view("<f4").reshape(-1, 2, 2, UNIT)
        halves = np.ascontiguousarray(units[:, 4 * UNIT :]).view(np.uint8)
        digits = halves.reshape(len(units), held, UNIT).transpose(0, 2, 1).astype(np.int8)
        both = np.stack([digits << 4, digits], axis=1) >> 4
        bias, steps = (before[:, :, i].reshape(-1)[:channels] for i in range(2))
        w = both.reshape(-1, held)[:channels]
        if not group:
            return {"bias": bias, "w_step": steps, "w": w}
        parts = w.reshape(channels, -1, group + 1)
        shifts = np.log2(-parts[..., 0].astype(np.float64)).astype(np.int8)
        return {"bias": bias, "w_step": -steps, "w_shift": shifts, "w": parts[..., 1:]}


def starts(
    width: int, kernel_w: int, stride_w: int, left: int, pixels: int, dilation_w: int = 1, **_: int
) -> list[int]:
    """Pixels with which kernels begin: four, where their windows lie inside x, else one."""
    reach = (kernel_w - 1) * dilation_w + 1
    found = [0]
    while found[-1] < pixels:
        column = found[-1] * stride_w - left
        last = column + (PIXELS - 1) * stride_w + reach
        are_inside = column >= 0 and last <= width and pixels - found[-1] >= PIXELS
        found.append(found[-1] + (PIXELS if are_inside else 1))
    return found[:-1]


def _row_instructions(
    four_taps: float, tap: float, inputs: int, kernel_h: int, kernel_w: int, sums: tuple[int, int]
) -> float:
    """Of sums (pixels, channels). four_taps, tap: per input of a unit, of four pixels or one.

    Four are computed together where their windows lie inside, so about as many as these.
    """
    pixels, channels = sums
    units = -(-channels // UNIT)
    four = max(pixels - (kernel_w - 1), 0) // PIXELS
    one = pixels - four * PIXELS
    runs = 16 * kernel_h
    return (
        80
        + four * (60 + units * (150 + runs + four_taps * inputs))
        + one * (60 + units * (60 + runs + tap * inputs))
    )


def _conv_instructions(
    taps: tuple[float, float],
    kernel_h: int,
    kernel_w: int,
    in_channels: int,
    pixels: int,
    channels: int,
    **_: int,
) -> float:
    inputs = kernel_h * kernel_w * in_channels
    return _row_instructions(*taps, inputs, kernel_h, kernel_w, (pixels, channels))


def _group_instructions(
    group: int, kernel_h: int, kernel_w: int, in_channels: int, channels: int, pixels: int, **_: int
) -> float:
    inputs = kernel_h * kernel_w * in_channels
    found = _conv_instructions((55, 25), kernel_h, kernel_w, in_channels, pixels, channels)
    four = max(pixels - (kernel_w - 1), 0) // PIXELS
    heads = inputs // group if group else kernel_h
    return found + (pixels - (PIXELS - 1) * four) * -(-channels // UNIT) * 40 * heads


def _depthwise_instructions(
    taps: tuple[float, float], kernel_h: int, kernel_w: int, pixels: int, channels: int, **_: int
) -> float:
    inputs = kernel_h * kernel_w
    return _row_instructions(*taps, inputs, kernel_h, kernel_w, (pixels, channels))


def _register(
    name: str,
    meaning: Callable[..., PrimFunc],
    sizes: tuple[str, ...],
    header: str,
    form: _Form | _Nibbles,
    instructions: Callable[..., float],
    code_bytes: int,
    weight_bits: int = 32,
) -> None:
    """A kernel of rows. code_bytes: on Cortex-M4; the vectors of Cortex-M55 need 1.2 KB more."""

    def inputs(kernel_h: int, kernel_w: int, in_channels: int = 1, **_: int) -> int:
        return kernel_h * kernel_w * in_channels  # of a window, for one channel of output

    register(
        Microkernel(
            name,
            meaning,
            sizes=sizes,
            indices=("row",),
            header=header,
            needs=frozenset({"fpu"}),
            alignment=(("bias", 4),),
            in_order=("out_p", PIXELS),
            starts=starts,
            stream=Stream(
                (*form.heads, "w"),
                words=lambda **sizes: form.length(inputs(**sizes), **sizes),
                pack=form.pack,
                unpack=lambda words, **sizes: form.unpack(words, inputs(**sizes), **sizes),
                dtype=form.words,
            ),
            instructions=instructions,
            code_bytes=code_bytes,
            weight_bits=weight_bits,
        )
    )


_CONV_SIZES = (
    "height", "width", "in_channels", "kernel_h", "kernel_w", "stride_h", "stride_w",
    "dilation_h", "top", "left", "pixels", "channels", "bounds", "low", "high",
)  # fmt: skip
_register(
    CONV,
    conv_row,
    _CONV_SIZES,
    "cortex_m/conv_f32.h",
    _Form(),
    partial(_conv_instructions, (43, 16)),
    2050,
)
_register(
    CONV_HALVES,
    conv_row_of_halves,
    _CONV_SIZES,
    "cortex_m/conv_f32.h",
    _Form(weights="uint16", words="int32"),
    partial(_conv_instructions, (45, 14)),
    2250,
    weight_bits=16,
)
_register(
    CONV_STEPS,
    conv_row_of_steps,
    _CONV_SIZES,
    "cortex_m/conv_f32.h",
    _Form(weights="int8", heads=("bias", "w_step"), words="int32"),
    partial(_conv_instructions, (55, 24)),
    2450,
    weight_bits=8,
)
_register(
    CONV_NIBBLES,
    conv_row_of_steps,
    _CONV_SIZES,
    "cortex_m/conv_f32.h",
    _Nibbles(),
    partial(_conv_instructions, (55, 25)),
    2750,
    weight_bits=4,
)
_register(
    CONV_GROUPS,
    conv_row_of_groups,
    (*_CONV_SIZES, "group"),
    "cortex_m/conv_f32.h",
    _Nibbles(("bias", "w_step", "w_shift")),
    _group_instructions,
    3400,
    weight_bits=4,
)
_DEPTHWISE_SIZES = (
    "height", "width", "kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w",
    "top", "left", "pixels", "channels", "bounds", "low", "high",
)  # fmt: skip
_register(
    DEPTHWISE,
    depthwise_row,
    _DEPTHWISE_SIZES,
    "cortex_m/depthwise_f32.h",
    _Form(by_channel=True),
    partial(_depthwise_instructions, (60, 21)),
    2150,
)
_register(
    DEPTHWISE_HALVES,
    depthwise_row_of_halves,
    _DEPTHWISE_SIZES,
    "cortex_m/depthwise_f32.h",
    _Form(by_channel=True, weights="uint16", words="int32"),
    partial(_depthwise_instructions, (64, 25)),
    2250,
    weight_bits=16,
)
_register(
    DEPTHWISE_STEPS,
    depthwise_row_of_steps,
    _DEPTHWISE_SIZES,
    "cortex_m/depthwise_f32.h",
    _Form(by_channel=True, weights="int8", heads=("bias", "w_step"), words="int32"),
    partial(_depthwise_instructions, (72, 33)),
    2450,
    weight_bits=8,
)
