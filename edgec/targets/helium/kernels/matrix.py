"""Matrix products of int8 and int16 on MVE: meaning and streams.

They are in the files of `runtime_c/kernels/helium/` that begin with `matrix_`. Kernels read one
stream: per unit of channels the weights in slices of 16 bytes of inputs, then bias, multiplier and
shift, or bias and scale, of each channel. Where inputs do not fill whole slices, they begin inside
the first slice, after lanes that are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.loop.define import Definition
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Struct, register
from edgec.loop.stream import Field, Stream, lanes_of, rows_at
from edgec.targets.common.kernels.rescaling import (
    ONNX_TO_16,
    RESCALINGS,
    TFLM,
    TFLM16_HIGH,
    TFLM16_TO_8,
    Rescaling,
)
from edgec.targets.common.kernels.sums import Results, dense_sums, rescaled_sums

Array = npt.NDArray[Any]

#: Channels of a unit: what eight sums are, for one pixel, for two and for four.
DENSE_UNIT, CONV_UNIT, QUADS_UNIT = 8, 4, 2
#: Pixels that share inputs.
QUAD = 4
#: Inputs of int8 in a slice.
SLICE = 16


def slice_of(rescaling: Rescaling) -> int:
    """Inputs in a slice: a vector of them."""
    return SLICE // np.dtype(rescaling.dtype).itemsize


def dense(
    rescaling: Rescaling, depth: int, channels: int, minimum: int, maximum: int, zero_point: int = 0
) -> PrimFunc:
    """out[0, o] = requantized bias[o] + sum over k of x[k] * w[o, k]."""
    b = Definition("dense")
    out = b.output("out", (1, channels), rescaling.result)
    x = b.input("x", (depth,), rescaling.dtype)
    return dense_sums(b, rescaling, x, out, Results(zero_point, (minimum, maximum)))


def conv(
    rescaling: Rescaling,
    kernel_h: int,
    kernel_w: int,
    in_channels: int,
    pitch: int,
    step: int,
    pixels: int,
    channels: int,
    **limits: int,
) -> PrimFunc:
    """out[p, o] = requantized bias[o] + sum of x[kh * pitch + p * step + i] * w[o, kh, i]."""
    b = Definition("conv")
    out = b.output("out", (pixels, channels), rescaling.result)
    run = kernel_w * in_channels
    x = b.input("x", ((kernel_h - 1) * pitch + (pixels - 1) * step + run,), rescaling.dtype)
    w = b.constant("w", (channels, kernel_h, kernel_w, in_channels), "int8")
    return rescaled_sums(
        b, rescaling, out, {"kh": kernel_h, "kw": kernel_w, "ic": in_channels},
        lambda p, c, kh, kw, ic: x[kh * pitch + p * step + kw * in_channels + ic],
        lambda p, c, *k: w[c, *k], Results.within(**limits),
    )  # fmt: skip


def conv_quads(
    rescaling: Rescaling, kernel_h: int, pitch: int, pixels: int, channels: int, zero_point: int
) -> PrimFunc:
    """`conv` of windows three pixels wide next to each other, of 16 channels."""
    limits = {"zero_point": zero_point, "minimum": -128, "maximum": 127}
    return conv(rescaling, kernel_h, 3, SLICE, pitch, SLICE, pixels, channels, **limits)


@dataclass(frozen=True)
class Storage:
    """Layout of a unit's slices in a stream: a byte for each weight."""

    #: Weights in a byte.
    weights: int = 1

    def fields(self, slices: Array, count: int) -> list[Field]:
        """The weights at [units, slices, channels of the unit, inputs]; count: slices of a step."""
        return [Field("w", slices, "int8")]

    def prepare(self, arrays: Mapping[str, Array], count: int) -> Mapping[str, Array]:
        """Add the computed fields; weights are [channels, inputs]."""
        return arrays

    def restore(self, found: Mapping[str, Array], count: int) -> Mapping[str, Array]:
        """The arrays before `prepare`."""
        return found


BYTES = Storage()


def slices_of(run: int, inputs: int = SLICE) -> int:
    """Slices that a run of inputs takes; `inputs` are in one."""
    return -(-run // inputs)


def slices_at(lanes: Array, runs: int, run: int, inputs: int) -> Array:
    """Indices of weights [channels, runs, run] for slices, [units, slices, channels, inputs]."""
    slices = slices_of(run, inputs)
    rows = rows_at(lanes, runs * run).reshape(*lanes.shape, runs, run)
    before = ((0, 0), (0, 0), (0, 0), (slices * inputs - run, 0))
    padded = np.pad(rows, before, constant_values=-1)
    return padded.reshape(*lanes.shape, runs * slices, inputs).transpose(0, 2, 1, 3)


def table_field(rescaling: Rescaling, name: str, lanes: Array) -> Field:
    """A table that rescales, as vectors take it: shifts as instructions have them."""
    is_negated = rescaling.is_down and name == "shift"
    dtype = "float32" if rescaling.tables[name] == "float32" else "int32"
    return Field(name, lanes, dtype, -1 if is_negated else 1)


def vector_fields(
    rescaling: Rescaling, shape: tuple[int, int], channels: int, unit: int,
    storage: Storage = BYTES, count: int = 0,
) -> list[Field]:  # fmt: skip
    """A unit's weights of this shape (runs, inputs of a run) in slices, biases and tables.

    With gemmlowp's rounding biases come first, where sums begin, and shifts of units of at most
    four are a word of bytes.
    """
    lanes = lanes_of(channels, unit)
    fields = [
        *storage.fields(slices_at(lanes, *shape, slice_of(rescaling)), count),
        Field("bias", lanes),
        *(table_field(rescaling, name, lanes) for name in rescaling.tables),
    ]
    if not _has_biases_first(rescaling, storage):
        return fields
    fields.sort(key=lambda field: field.source != "bias")
    if unit <= CONV_UNIT:  # a word of bytes
        fields[-1] = replace(fields[-1], at=np.tile(lanes, CONV_UNIT // unit), dtype="int8")
    return fields


def _has_biases_first(rescaling: Rescaling, storage: Storage) -> bool:
    return rescaling is TFLM and storage is BYTES


#: The runs of the weights of a channel and the inputs of a run, by the sizes of a kernel.
Shape = Callable[..., tuple[int, int]]


def _dense_shape(depth: int, **_: int) -> tuple[int, int]:
    return 1, depth


def _conv_shape(kernel_h: int, kernel_w: int, in_channels: int, **_: int) -> tuple[int, int]:
    return kernel_h, kernel_w * in_channels


def _quads_shape(kernel_h: int, **_: int) -> tuple[int, int]:
    return kernel_h, 3 * SLICE


def vector_stream(rescaling: Rescaling, storage: Storage, unit: int, shape: Shape) -> Stream:
    """The constants of a product."""

    def fields(channels: int, slices: int = 0, **sizes: int) -> list[Field]:
        return vector_fields(rescaling, shape(**sizes), channels, unit, storage, slices)

    return Stream(
        rescaling.sources,
        fields,
        lambda arrays, slices=0, **_: storage.prepare(arrays, slices),
        lambda found, slices=0, **_: storage.restore(found, slices),
    )


def _tail(minimum: int, zero_point: int = 0) -> int:
    return 0 if minimum >= zero_point else 6


def dense_instructions(
    rescaling: Rescaling, depth: int, channels: int, minimum: int, maximum: int, *,
    unit: int = 50, **at: int,
) -> float:  # fmt: skip
    """About how many instructions a call of `dense` takes; unit: of eight channels, once."""
    whole = slices_of(depth, slice_of(rescaling)) - 1
    each = unit + 17 * whole + 2 * -(-whole // 4) + _tail(minimum, **at)
    return 80 + each * -(-channels // DENSE_UNIT)


def conv_instructions(
    rescaling: Rescaling,
    kernel_h: int,
    kernel_w: int,
    in_channels: int,
    pixels: int,
    channels: int,
    minimum: int,
    zero_point: int = 0,
    **_: int,
) -> float:
    """About how many instructions a call of `conv` takes."""
    whole = slices_of(kernel_w * in_channels, slice_of(rescaling)) - 1
    row = 16 + 14 * whole + 4 * max(-(-whole // 4), 1)
    each = 26 + kernel_h * row + 3 * (kernel_h - 1) + _tail(minimum, zero_point)
    return 100 + -(-pixels // 2) * (20 + each * -(-channels // CONV_UNIT))


def steps_instructions(
    rescaling: Rescaling,
    kernel_h: int,
    kernel_w: int,
    in_channels: int,
    pixels: int,
    channels: int,
    minimum: int,
    maximum: int,
    zero_point: int,
    **_: int,
) -> float:
    """The same for kernels that follow a list of steps for each sum."""
    whole, rest = divmod(kernel_w * in_channels, SLICE)
    rounds = -(-whole // 4)
    each = 20 + kernel_h * (14 * whole + rounds + 16 * bool(rest) + 3)
    each += 8 * ((zero_point, minimum, maximum) != (-128, -128, 127))
    call = 70 + kernel_h * (14 + 4 * rounds)
    return call + -(-pixels // 2) * (20 + each * -(-channels // CONV_UNIT))


def quads_instructions(
    rescaling: Rescaling, kernel_h: int, pixels: int, channels: int, **_: int
) -> float:
    """About how many instructions a call of `conv_quads` takes."""
    return 50 + pixels // QUAD * (12 + (30 + 39 * kernel_h) * channels // QUADS_UNIT)


@dataclass(frozen=True)
class Kind:
    """Products of one meaning.

    name: the part of a kernel's name. unit, shape: of its stream. sizes: its sizes before the
    limits. struct: the C struct of the sizes, if there are many; types: of its members that are no
    int32. pixels: how many it computes at a time, if several.
    """

    name: str
    meaning: Callable[..., PrimFunc]
    unit: int
    shape: Shape
    sizes: tuple[str, ...]
    limits: tuple[str, ...] = ("zero_point", "minimum", "maximum")
    struct: str = ""
    types: tuple[tuple[str, str], ...] = ()
    pixels: int = 0


DENSE = Kind("dense", dense, DENSE_UNIT, _dense_shape, ("depth", "channels"))
CONV = Kind(
    "conv", conv, CONV_UNIT, _conv_shape,
    ("kernel_h", "kernel_w", "in_channels", "pitch", "step", "pixels", "channels"),
    struct="ec_conv_mve_sizes", pixels=2,
    types=(("zero_point", "int16"), ("minimum", "int16"), ("maximum", "int16")),
)  # fmt: skip
QUADS = Kind(
    "conv_quads", conv_quads, QUADS_UNIT, _quads_shape,
    ("kernel_h", "pitch", "pixels", "channels"),
    limits=("zero_point",), struct="ec_quads_mve_sizes", pixels=QUAD,
)  # fmt: skip


@dataclass(frozen=True)
class Products:
    """Registers kernels of products; `suffix` is the end of their names.

    more: sizes after the others, of the storage, which the meaning does not have.
    """

    rescaling: Rescaling
    header: str
    storage: Storage = BYTES
    suffix: str = ""
    more: tuple[str, ...] = ()

    def register(self, kind: Kind, instructions: Callable[..., float], code_bytes: int) -> None:
        """The kernel of these products."""
        sizes = (*kind.sizes, *self._limits(kind))
        struct = Struct(kind.struct, sizes, kind.types) if kind.struct else None
        if self.more and not kind.struct:
            struct = Struct(f"ec_{kind.name}{self.suffix}_mve_sizes", (*sizes, *self.more))
        register(
            Microkernel(
                self.rescaling.kernel(kind.name + self.suffix, "mve"),
                self._without_more(partial(kind.meaning, self.rescaling)),
                sizes=(*sizes, *self.more),
                header=self.header,
                needs=frozenset({"mve"}) | self.rescaling.needs,
                alignment=(("bias", 4),),
                in_order=("result_d0", kind.pixels) if kind.pixels else None,
                stream=vector_stream(self.rescaling, self.storage, kind.unit, kind.shape),
                instructions=partial(instructions, self.rescaling),
                code_bytes=code_bytes,
                weight_bits=8 // self.storage.weights,
                struct=struct,
            )
        )

    def _without_more(self, meaning: Callable[..., PrimFunc]) -> Callable[..., PrimFunc]:
        def of_others(**sizes: int) -> PrimFunc:
            return meaning(**{name: n for name, n in sizes.items() if name not in self.more})

        return of_others if self.more else meaning

    def _limits(self, kind: Kind) -> tuple[str, ...]:
        """Return the limits of results; int16 has no zero points."""
        has_zero_points = self.rescaling.result == "int8"
        return tuple(name for name in kind.limits if has_zero_points or name != "zero_point")


for _rescaling in (*RESCALINGS, TFLM16_HIGH, ONNX_TO_16, TFLM16_TO_8):
    _products = Products(_rescaling, f"helium/matrix_{_rescaling.short_dtype}{_rescaling.suffix}.h")
    _less = 6 if _has_biases_first(_rescaling, BYTES) else 0
    _products.register(DENSE, partial(dense_instructions, unit=50 - _less), 680)
    _products.register(CONV, steps_instructions if _less else conv_instructions, 890)
Products(TFLM, "helium/quads_s8.h").register(QUADS, quads_instructions, 380)
