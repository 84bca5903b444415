"""Rows of float32 convolutions (`runtime_c/kernels/cortex_m/`): their meaning and streams.

All kernels read one stream, unit after unit of four channels; the last unit may have fewer:
the biases of a unit, then for each input of a window the weights of its channels. Weights may be
stored in fewer bytes: as float16, or as int8 that count the steps of their channel, which stand
after the biases. int4 weights are in units of eight channels, the last one as well, and
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
from edgec.loop.microkernel import Microkernel, Struct, register
from edgec.loop.primitives.halves import pack_halves
from edgec.loop.primitives.shifts import pack_shifts
from edgec.loop.primitives.steps import pack_steps
from edgec.loop.stream import Digits, Field, Stream, rows_at
from edgec.loop.values import ExprValue, Value, as_expr, maximum, minimum
from edgec.loop.window import clipped
from edgec.numerics.term import Term, TermLike, Var, as_term

Array = npt.NDArray[Any]
#: A loop: its variable, start and stop.
Tap = tuple[Var, TermLike, TermLike]

CONV, DEPTHWISE = "ec_conv_row_f32", "ec_depthwise_row_f32"
#: The same in assembly: faster, but with more code and stack. Channels are whole units, the lower
#: limit is 0, the upper one not below it, and biases are numbers and not -0.0.
CONV_UNITS, DEPTHWISE_UNITS = "ec_conv_units_f32", "ec_depthwise_units_f32"
#: The convolution of weights that are stored as float16, and as int8 with a step for each channel.
CONV_HALVES, CONV_STEPS = "ec_conv_row_f32_f16", "ec_conv_row_f32_s8"
#: The same of such numbers of four bits.
CONV_INT4 = "ec_conv_row_f32_s4"
DEPTHWISE_HALVES, DEPTHWISE_STEPS = "ec_depthwise_row_f32_f16", "ec_depthwise_row_f32_s8"
#: Of four bits with a step for each group of inputs: the channel's, times a power of two.
CONV_GROUPS = "ec_conv_row_f32_s4_groups"
#: The largest such power, which has to fit in four bits with a sign.
MOST_SHIFT = 3
#: Channels of a unit, and pixels that are computed at once.
UNIT, PIXELS = 4, 4
#: The largest size of a row of whole units.
MOST_SIZE = (1 << 15) - 1
#: Which limits a sum has.
LOWER, UPPER = 1, 2


def float_bits(value: float) -> int:
    """The bits of a float32 as an int32."""
    return int(np.float32(value).view(np.int32))


def _float(bits: int) -> float:
    return float(np.int32(bits).view(np.float32))


@dataclass(frozen=True)
class RowSizes:
    """The numbers of a row of `pixels` outputs: image, window, its steps and corner, limits."""

    height: int
    width: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    dilation_h: int
    top: int
    left: int
    pixels: int
    channels: int
    bounds: int
    low: int
    high: int
    dilation_w: int = 1

    def taps(self, row: TermLike, column: Var) -> tuple[list[Tap], tuple[Term, Term]]:
        """The loops over those taps of a window that lie inside, and where they read."""
        rows = clipped(self.height, self.kernel_h, self.stride_h, self.dilation_h, self.top)
        columns = clipped(self.width, self.kernel_w, self.stride_w, self.dilation_w, self.left)
        kh, kw = Var("acc_kh", 0, self.kernel_h), Var("acc_kw", 0, self.kernel_w)
        y, x = as_term(row), as_term(column)
        loops = [(kh, rows[0](y), rows[1](y)), (kw, columns[0](x), columns[1](x))]
        at_row = y * self.stride_h + as_term(kh) * self.dilation_h - self.top
        return loops, (at_row, x * self.stride_w + as_term(kw) * self.dilation_w - self.left)

    def limited(self, value: Value) -> Value:
        """A sum as `clip` limits it."""
        if self.bounds & LOWER:
            value = maximum(_float(self.low), value)
        return minimum(_float(self.high), value) if self.bounds & UPPER else value


def conv_row(row: TermLike, in_channels: int, **sizes: int) -> PrimFunc:
    """out[p, o] = limited bias[o] + x[...] * w[o, kh, kw, i] over the window of (row, p).

    sizes: the fields of `RowSizes`.
    """
    n = RowSizes(**sizes)
    x = Buffer("x", (n.height, n.width, in_channels), "float32", "arena")
    w = Buffer("w", (n.channels, n.kernel_h, n.kernel_w, in_channels), "float32", "constant")
    p, o, i = Var("out_p", 0, n.pixels), Var("out_o", 0, n.channels), Var("acc_i", 0, in_channels)
    taps, at = n.taps(row, p)
    kh, kw = (as_term(var) for var, *_ in taps)
    return _row_of_sums(
        (p, o), [*taps, (i, 0, in_channels)], Load(x, (*at, as_term(i))),
        Load(w, (as_term(o), kh, kw, as_term(i))), n.limited,
    )  # fmt: skip


def depthwise_row(row: TermLike, **sizes: int) -> PrimFunc:
    """out[p, c] = limited bias[c] + x[..., c] * w[kh, kw, c] over the window of (row, p)."""
    n = RowSizes(**sizes)
    x = Buffer("x", (n.height, n.width, n.channels), "float32", "arena")
    w = Buffer("w", (n.kernel_h, n.kernel_w, n.channels), "float32", "constant")
    p, c = Var("out_p", 0, n.pixels), Var("out_c", 0, n.channels)
    taps, at = n.taps(row, p)
    kh, kw = (as_term(var) for var, *_ in taps)
    at_w = Load(w, (kh, kw, as_term(c)))
    return _row_of_sums((p, c), taps, Load(x, (*at, as_term(c))), at_w, n.limited)


def _row_of_sums(
    outer: tuple[Var, Var],
    window: Sequence[Tap],
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
class FloatForm:
    """Storage of weights in a stream: their dtype, what precedes them, the dtype of the stream.

    by_channel: the channel is the last axis of the weights; else it is the first.
    """

    by_channel: bool = False
    weights: str = "float32"
    heads: tuple[str, ...] = ("bias",)
    words: str = "float32"

    def stream(self, inputs: Callable[..., int] | None = None) -> Stream:
        """Bias, steps and weights in the order of use. inputs: how many a channel has."""
        fields = partial(self._fields, inputs or _inputs)
        return Stream((*self.heads, "w"), fields, dtype=self.words)

    def _fields(self, inputs: Callable[..., int], channels: int, **sizes: int) -> list[Field]:
        whole = channels // UNIT * UNIT
        units = (np.arange(whole).reshape(-1, UNIT), np.arange(whole, channels)[None])
        return [
            field
            for lanes in units
            if lanes.size
            for field in self._of(lanes, channels, inputs(**sizes))
        ]

    def _of(self, lanes: Array, channels: int, inputs: int) -> list[Field]:
        steps = (channels, 1) if self.by_channel else (1, inputs)
        w = np.arange(inputs)[:, None] * steps[0] + lanes[:, None] * steps[1]
        heads = [Field(name, lanes, "float32") for name in self.heads]
        return [*heads, Field("w", w, self.weights)]


@dataclass(frozen=True)
class _Int4Form:
    """Units of eight channels: biases and steps of four and of four, and four bytes for an input.

    The low half of a byte holds a weight of the first four channels, the high half one of the last.
    Before the inputs of a group there may be what their steps are multiplied by, as one more input:
    a power of two less its sign, and steps then have the other sign.
    """

    heads: tuple[str, ...] = ("bias", "w_step")

    def stream(self) -> Stream:
        """Bias, steps and weights in the order of use."""
        return Stream((*self.heads, "w"), self._fields, self._prepare, self._restore)

    def _fields(self, channels: int, group: int = 0, **sizes: int) -> list[Field]:
        inputs = _inputs(**sizes)
        held = inputs + inputs // group if group else inputs
        lanes = np.arange(-(-channels // (2 * UNIT)) * 2 * UNIT).reshape(-1, 2, UNIT)
        is_channel = lanes < channels
        w = np.where(is_channel[..., None], rows_at(lanes, held), -1)
        lanes = np.where(is_channel, lanes, -1)
        return [
            *(
                Field(name, lanes[:, half], "float32")
                for half in (0, 1)
                for name in ("bias", "w_step")
            ),
            Digits("held", w.transpose(0, 3, 2, 1), "uint8", (1, 16)),
        ]

    def _prepare(
        self, arrays: Mapping[str, Array], channels: int, group: int = 0, **_: int
    ) -> Mapping[str, Array]:
        if not group:
            return {**arrays, "held": arrays["w"]}
        factors = -(1 << arrays["w_shift"].astype(np.int64).reshape(channels, -1, 1))
        held = np.concatenate([factors, arrays["w"].reshape(channels, -1, group)], axis=2)
        return {**arrays, "held": held, "w_step": -arrays["w_step"]}

    def _restore(
        self, found: Mapping[str, Array], channels: int, group: int = 0, **_: int
    ) -> Mapping[str, Array]:
        if not group:
            return {**found, "w": found["held"]}
        parts = found["held"].reshape(channels, -1, group + 1)
        shifts = np.log2(-parts[..., 0]).astype(np.int8)
        return {**found, "w": parts[..., 1:], "w_shift": shifts, "w_step": -found["w_step"]}


def _inputs(kernel_h: int, kernel_w: int, in_channels: int = 1, **_: int) -> int:
    """The inputs of a window, for one channel of output."""
    return kernel_h * kernel_w * in_channels


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


@dataclass(frozen=True)
class RowCost:
    """Instructions of four pixels and of one, each: per input of a unit, of a unit, of them all.

    run: of each run of inputs of a unit.
    """

    taps: tuple[float, float]
    units: tuple[float, float] = (150, 60)
    pixels: tuple[float, float] = (60, 60)
    run: float = 16

    def __call__(
        self, inputs: int, kernel_h: int, kernel_w: int, pixels: int, channels: int
    ) -> float:
        """Estimate a row. Four pixels are computed together if their windows lie inside."""
        units = -(-channels // UNIT)
        four = max(pixels - (kernel_w - 1), 0) // PIXELS
        return 80 + sum(
            count * (pixel + units * (unit + self.run * kernel_h + tap * inputs))
            for count, pixel, unit, tap in zip(
                (four, pixels - four * PIXELS), self.pixels, self.units, self.taps, strict=True
            )
        )


#: Of whole units.
CONV_UNITS_COST = RowCost((35.5, 10), (105, 40), (90, 80), 14)
DEPTHWISE_UNITS_COST = RowCost((43, 13), (105, 44), (90, 80), 14)


def _conv_instructions(
    cost: RowCost,
    kernel_h: int,
    kernel_w: int,
    in_channels: int,
    pixels: int,
    channels: int,
    **_: int,
) -> float:
    inputs = kernel_h * kernel_w * in_channels
    return cost(inputs, kernel_h, kernel_w, pixels, channels)


def _group_instructions(
    group: int, kernel_h: int, kernel_w: int, in_channels: int, channels: int, pixels: int, **_: int
) -> float:
    inputs = kernel_h * kernel_w * in_channels
    cost = RowCost((55, 25))
    found = _conv_instructions(cost, kernel_h, kernel_w, in_channels, pixels, channels)
    four = max(pixels - (kernel_w - 1), 0) // PIXELS
    heads = inputs // group if group else kernel_h
    return found + (pixels - (PIXELS - 1) * four) * -(-channels // UNIT) * 40 * heads


def _depthwise_instructions(
    cost: RowCost, kernel_h: int, kernel_w: int, pixels: int, channels: int, **_: int
) -> float:
    return cost(kernel_h * kernel_w, kernel_h, kernel_w, pixels, channels)


def _register(
    name: str,
    meaning: Callable[..., PrimFunc],
    sizes: tuple[str, ...],
    header: str,
    form: FloatForm | _Int4Form,
    instructions: Callable[..., float],
    code_bytes: int,
    weight_bits: int = 32,
    **more: Any,
) -> None:
    """A kernel of rows. code_bytes: on Cortex-M4; the vectors of Cortex-M55 need 1.2 KB more."""
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
            stream=form.stream(),
            instructions=instructions,
            code_bytes=code_bytes,
            weight_bits=weight_bits,
            **more,
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
    FloatForm(),
    partial(_conv_instructions, RowCost((43, 16))),
    2050,
)
_register(
    CONV_HALVES,
    conv_row_of_halves,
    _CONV_SIZES,
    "cortex_m/conv_f32.h",
    FloatForm(weights="uint16", words="int32"),
    partial(_conv_instructions, RowCost((45, 14))),
    2250,
    weight_bits=16,
)
_register(
    CONV_STEPS,
    conv_row_of_steps,
    _CONV_SIZES,
    "cortex_m/conv_f32.h",
    FloatForm(weights="int8", heads=("bias", "w_step"), words="int32"),
    partial(_conv_instructions, RowCost((55, 24))),
    2450,
    weight_bits=8,
)
_register(
    CONV_INT4,
    conv_row_of_steps,
    _CONV_SIZES,
    "cortex_m/conv_f32.h",
    _Int4Form(),
    partial(_conv_instructions, RowCost((55, 25))),
    2750,
    weight_bits=4,
)
_register(
    CONV_GROUPS,
    conv_row_of_groups,
    (*_CONV_SIZES, "group"),
    "cortex_m/conv_f32.h",
    _Int4Form(("bias", "w_step", "w_shift")),
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
    FloatForm(by_channel=True),
    partial(_depthwise_instructions, RowCost((60, 21))),
    2150,
)
_register(
    DEPTHWISE_HALVES,
    depthwise_row_of_halves,
    _DEPTHWISE_SIZES,
    "cortex_m/depthwise_f32.h",
    FloatForm(by_channel=True, weights="uint16", words="int32"),
    partial(_depthwise_instructions, RowCost((64, 25))),
    2250,
    weight_bits=16,
)
_register(
    DEPTHWISE_STEPS,
    depthwise_row_of_steps,
    _DEPTHWISE_SIZES,
    "cortex_m/depthwise_f32.h",
    FloatForm(by_channel=True, weights="int8", heads=("bias", "w_step"), words="int32"),
    partial(_depthwise_instructions, RowCost((72, 33))),
    2450,
    weight_bits=8,
)


def unit_macros(prefix: str, calls: Sequence[Mapping[str, int]]) -> dict[str, str]:
    """No code for upper limits, and none for four pixels, where no layer needs it."""
    made = {}
    if not any(call["bounds"] & UPPER for call in calls):
        made[f"{prefix}_NO_UPPER"] = "1"
    if all(len(starts(**call)) == call["pixels"] for call in calls):
        made[f"{prefix}_ONE"] = "1"
    return made


def _register_units(
    name: str, meaning: Callable[..., PrimFunc], sizes: tuple[str, ...], form: FloatForm,
    instructions: Callable[..., float], code_bytes: int, **more: Any,
) -> None:  # fmt: skip
    sizes = tuple(size for size in sizes if size != "low")
    types = tuple((size, "int16") for size in sizes if size != "high")
    macros = partial(unit_macros, name.upper().removesuffix("_F32"))
    _register(
        name, partial(meaning, low=0), sizes, "cortex_m/units_f32.h", form, instructions,
        code_bytes, struct=Struct("ec_row_of_units_sizes", sizes, types), macros=macros, **more,
    )  # fmt: skip


_register_units(
    CONV_UNITS, conv_row, _CONV_SIZES, FloatForm(),
    partial(_conv_instructions, CONV_UNITS_COST), 1800,
)  # fmt: skip
_register_units(
    DEPTHWISE_UNITS, depthwise_row, _DEPTHWISE_SIZES, FloatForm(by_channel=True),
    partial(_depthwise_instructions, DEPTHWISE_UNITS_COST), 1600, inner="out_c",
)  # fmt: skip
