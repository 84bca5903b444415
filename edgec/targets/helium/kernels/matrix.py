"""Matrix products of int8 and int16 on MVE: meaning and streams.

They are in the files of `runtime_c/kernels/helium/` that begin with `matrix_`. Kernels read one
stream: per unit of channels the weights in slices of 16 bytes of inputs, then bias, multiplier and
shift, or bias and scale, of each channel. A run of inputs that is no whole number of slices begins
inside its first one, after lanes that are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.loop.define import Definition, Tensor
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Stream, register
from edgec.loop.schedule import Schedule
from edgec.loop.values import int32
from edgec.targets.common.kernels.rescaling import (
    ONNX_TO_16,
    RESCALINGS,
    TFLM16_HIGH,
    TFLM16_TO_8,
    Rescaling,
)
from edgec.targets.dsp.kernels.matrix import stored_as, unit_starts

Array = npt.NDArray[Any]

#: Channels of a unit: what eight sums are, for one pixel and for two.
DENSE_UNIT, CONV_UNIT = 8, 4
#: Inputs of int8 in a slice.
SLICE = 16


def slice_of(rescaling: Rescaling) -> int:
    """Inputs in a slice: a vector of them."""
    return SLICE // np.dtype(rescaling.dtype).itemsize


def dense(
    rescaling: Rescaling,
    depth: int,
    channels: int,
    minimum: int,
    maximum: int,
    zero_point: int = 0,
) -> PrimFunc:
    """out[0, o] = requantized bias[o] + sum over k of x[k] * w[o, k]."""
    b = Definition("dense")
    out = b.output("out", (1, channels), rescaling.result)
    x = b.input("x", (depth,), rescaling.dtype)
    return dense_nest(b, rescaling, x, out, zero_point, (minimum, maximum))


def dense_nest(
    definition: Definition,
    rescaling: Rescaling,
    x: Tensor,
    out: Tensor,
    zero_point: int,
    limits: tuple[int, int],
    added: bool = False,
    factors: int = 0,
) -> PrimFunc:
    """The nest of dense; added, factors: as for `edgec.targets.dsp.kernels.matrix.product_nest`."""
    (depth,), channels = x.shape, out.shape[1]
    bias = definition.constant("bias", (channels,), "int32")
    tables = rescaling.declare(definition, factors or channels)
    w = definition.constant("w", (channels, depth), "int8")
    acc = definition.reduce(
        "acc",
        [("k", 0, depth)],
        init=lambda p, c: bias[c],
        update=lambda acc, p, c, k: acc + int32(x[k]) * int32(w[c, k]),
        shape=(1, channels),
        dtype="int32",
    )
    definition.compute(
        out,
        lambda p, c: stored_as(
            out, (p, c), rescaling.rounded(acc[p, c], tables, c % factors if factors else c),
            zero_point, limits, added,
        ),
    )  # fmt: skip
    return _nested(definition, "acc_k")


def conv(
    rescaling: Rescaling,
    kernel_h: int,
    kernel_w: int,
    in_channels: int,
    pitch: int,
    step: int,
    pixels: int,
    channels: int,
    minimum: int,
    maximum: int,
    zero_point: int = 0,
) -> PrimFunc:
    """out[p, o] = requantized bias[o] + sum of x[kh * pitch + p * step + i] * w[o, kh, i]."""
    b = Definition("conv")
    out = b.output("out", (pixels, channels), rescaling.result)
    run = kernel_w * in_channels
    x = b.input("x", ((kernel_h - 1) * pitch + (pixels - 1) * step + run,), rescaling.dtype)
    bias, tables = b.constant("bias", (channels,), "int32"), rescaling.declare(b, channels)
    w = b.constant("w", (channels, kernel_h, kernel_w, in_channels), "int8")
    acc = b.reduce(
        "acc",
        [("kh", 0, kernel_h), ("kw", 0, kernel_w), ("ic", 0, in_channels)],
        init=lambda p, c: bias[c],
        update=lambda acc, p, c, kh, kw, ic: (
            acc + int32(x[kh * pitch + p * step + kw * in_channels + ic]) * int32(w[c, kh, kw, ic])
        ),
        shape=(pixels, channels),
        dtype="int32",
    )
    limits = (minimum, maximum)

    def result(p: Any, c: Any) -> Any:
        rounded = rescaling.rounded(acc[p, c], tables, c)
        return stored_as(out, (p, c), rounded, zero_point, limits, added=False)

    b.compute(out, result)
    return _nested(b, "acc_kh")


def _nested(definition: Definition, first: str) -> PrimFunc:
    """Each output with its own reduction, pixel by pixel."""
    schedule = Schedule(definition.build())
    schedule.compute_at("acc", "out_c")
    schedule.decompose_reduction("acc", first)
    schedule.simplify()
    return schedule.func


@dataclass(frozen=True)
class Storage:
    """How slices of a unit of channels lie in a stream: a byte for each weight."""

    #: Weights in a byte.
    weights: int = 1

    def sized(self, slices: int = 0, **_: int) -> Storage:
        """The same for a call of these sizes."""
        return self

    def bytes_of(self, slices: int, unit: int, inputs: int) -> int:
        """How many bytes this many slices take."""
        return slices * unit * inputs // self.weights

    def pack(self, slices: Array) -> Array:
        """The bytes of int8 slices [slices, channels of the unit, inputs]."""
        return slices

    def unpack(self, packed: Array, unit: int, inputs: int) -> Array:
        """What `pack` was given."""
        return packed.reshape(-1, unit, inputs)


BYTES = Storage()


def slices_of(run: int, inputs: int = SLICE) -> int:
    """Slices that a run of inputs takes; `inputs` are in one."""
    return -(-run // inputs)


def pack_slices(w: Array, first: int, unit: int, inputs: int, storage: Storage = BYTES) -> Array:
    """The weights of a unit of channels of w [channels, runs, run], as int32 words."""
    runs, run = w.shape[1:]
    slices = slices_of(run, inputs)
    part = np.pad(w[first : first + unit], ((0, 0), (0, 0), (slices * inputs - run, 0)))
    in_order = storage.pack(part.reshape(unit, runs * slices, inputs).transpose(1, 0, 2))
    return np.ascontiguousarray(in_order).view("<i4").reshape(-1)


def unpack_slices(
    words: Array, runs: int, run: int, unit: int, inputs: int, storage: Storage = BYTES
) -> Array:
    """What `pack_slices` was given: [unit, runs, run]."""
    slices = slices_of(run, inputs)
    packed = np.ascontiguousarray(words).astype("<i4").view(np.int8)
    in_order = storage.unpack(packed, unit, inputs)
    in_order = in_order.reshape(runs, slices, unit, inputs).transpose(2, 0, 1, 3)
    return in_order.reshape(unit, runs, slices * inputs)[:, :, slices * inputs - run :]


def pack_products(
    rescaling: Rescaling,
    arrays: Mapping[str, Array],
    runs: int,
    unit: int,
    storage: Storage = BYTES,
) -> Array:
    """The constants of a product in the order of use, as int32 words; weights [channels, ...]."""
    channels = len(arrays["bias"])
    w = arrays["w"].reshape(channels, runs, -1)
    parts: list[Array] = []
    for first in unit_starts(channels, unit):
        lanes = slice(first, first + unit)
        parts.append(pack_slices(w, first, unit, slice_of(rescaling), storage))
        for name in ("bias", *rescaling.tables):
            parts.append(rescaling.words(name, arrays[name][lanes]))
    return np.concatenate(parts)


def unpack_products(
    rescaling: Rescaling,
    words: Array,
    runs: int,
    run: int,
    channels: int,
    unit: int,
    storage: Storage = BYTES,
) -> dict[str, Any]:
    """The constants in a stream by their names in the meaning."""
    size = product_words(rescaling, runs, run, unit, unit, storage)
    dtypes = {"bias": "int32", **rescaling.tables}
    found: dict[str, Any] = {name: np.zeros(channels, dtype) for name, dtype in dtypes.items()}
    w = np.zeros((channels, runs, run), np.int64)
    for number, first in enumerate(unit_starts(channels, unit)):
        part = words[number * size : (number + 1) * size]
        lanes = slice(first, first + unit)
        weights = part[: -len(dtypes) * unit]
        w[lanes] = unpack_slices(weights, runs, run, unit, slice_of(rescaling), storage)
        for position, name in enumerate(dtypes):
            entries = part[len(part) - (len(dtypes) - position) * unit :][:unit]
            found[name][lanes] = rescaling.entries(name, entries)
    return {**found, "w": w}


def product_words(
    rescaling: Rescaling, runs: int, run: int, channels: int, unit: int, storage: Storage = BYTES
) -> int:
    """Words of a stream."""
    inputs = slice_of(rescaling)
    weights = storage.bytes_of(runs * slices_of(run, inputs), unit, inputs)
    own = weights // 4 + (1 + len(rescaling.tables)) * unit
    return len(unit_starts(channels, unit)) * own


def dense_stream(rescaling: Rescaling, storage: Storage) -> Stream:
    """The constants of `dense`."""
    return Stream(
        rescaling.sources,
        words=lambda depth, channels, **sizes: product_words(
            rescaling, 1, depth, channels, DENSE_UNIT, storage.sized(**sizes)
        ),
        pack=lambda arrays, **sizes: pack_products(
            rescaling, arrays, 1, DENSE_UNIT, storage.sized(**sizes)
        ),
        unpack=lambda words, depth, channels, **sizes: unpack_products(
            rescaling, words, 1, depth, channels, DENSE_UNIT, storage.sized(**sizes)
        ),
    )


def conv_stream(rescaling: Rescaling, storage: Storage) -> Stream:
    """The constants of `conv`."""
    return Stream(
        rescaling.sources,
        words=lambda kernel_h, kernel_w, in_channels, channels, **sizes: product_words(
            rescaling, kernel_h, kernel_w * in_channels, channels, CONV_UNIT,
            storage.sized(**sizes),
        ),
        pack=lambda arrays, kernel_h, **sizes: pack_products(
            rescaling, arrays, kernel_h, CONV_UNIT, storage.sized(**sizes)
        ),
        unpack=lambda words, kernel_h, kernel_w, in_channels, channels, **sizes: unpack_products(
            rescaling, words, kernel_h, kernel_w * in_channels, channels, CONV_UNIT,
            storage.sized(**sizes),
        ),
    )  # fmt: skip


def _tail(minimum: int, zero_point: int = 0) -> int:
    return 0 if minimum >= zero_point else 6


def dense_instructions(
    rescaling: Rescaling, depth: int, channels: int, minimum: int, maximum: int, **at: int
) -> float:
    """About how many instructions a call of `dense` takes."""
    whole = slices_of(depth, slice_of(rescaling)) - 1
    each = 50 + 17 * whole + 2 * -(-whole // 4) + _tail(minimum, **at)
    return 80 + each * -(-channels // DENSE_UNIT)


def conv_instructions(
    rescaling: Rescaling,
    kernel_h: int,
    kernel_w: int,
    in_channels: int,
    pitch: int,
    step: int,
    pixels: int,
    channels: int,
    minimum: int,
    maximum: int,
    **at: int,
) -> float:
    """About how many instructions a call of `conv` takes."""
    whole = slices_of(kernel_w * in_channels, slice_of(rescaling)) - 1
    row = 16 + 14 * whole + 4 * max(-(-whole // 4), 1)
    each = 26 + kernel_h * row + 3 * (kernel_h - 1) + _tail(minimum, **at)
    return 100 + -(-pixels // 2) * (20 + each * -(-channels // CONV_UNIT))


@dataclass(frozen=True)
class Products:
    """How kernels of products are registered; `suffix` is in their names after what they do.

    more: sizes after the others, of the storage, which the meaning does not have.
    """

    rescaling: Rescaling
    header: str
    storage: Storage = BYTES
    suffix: str = ""
    more: tuple[str, ...] = ()

    def register(
        self,
        name: str,
        meaning: Callable[..., PrimFunc],
        stream: Callable[[Rescaling, Storage], Stream],
        instructions: Callable[..., float],
        code_bytes: int,
        **contract: Any,
    ) -> None:
        """The kernel of the products `name`, with what differs from kernel to kernel."""
        register(
            Microkernel(
                self.rescaling.kernel(name + self.suffix, "mve"),
                self._without_more(partial(meaning, self.rescaling)),
                header=self.header,
                needs=frozenset({"mve"}) | self.rescaling.needs,
                alignment=(("bias", 4),),
                stream=stream(self.rescaling, self.storage),
                instructions=partial(instructions, self.rescaling),
                code_bytes=code_bytes,
                weight_bits=8 // self.storage.weights,
                **contract,
            )
        )

    def _without_more(self, meaning: Callable[..., PrimFunc]) -> Callable[..., PrimFunc]:
        def of_others(**sizes: int) -> PrimFunc:
            return meaning(**{name: n for name, n in sizes.items() if name not in self.more})

        return of_others if self.more else meaning

    @property
    def limits(self) -> tuple[str, ...]:
        """The last sizes of a kernel; int16 has no zero points."""
        limits = ("minimum", "maximum", *self.more)
        return ("zero_point", *limits) if self.rescaling.result == "int8" else limits

    def register_dense(self, instructions: Callable[..., float], code_bytes: int) -> None:
        """The kernel that means `dense`."""
        sizes = ("depth", "channels", *self.limits)
        self.register("dense", dense, dense_stream, instructions, code_bytes, sizes=sizes)

    def register_conv(self, instructions: Callable[..., float], code_bytes: int) -> None:
        """The kernel that means `conv`."""
        sizes = ("kernel_h", "kernel_w", "in_channels", "pitch", "step", "pixels", "channels")
        self.register(
            "conv", conv, conv_stream, instructions, code_bytes,
            sizes=(*sizes, *self.limits), in_order=("out_p", 2),
        )  # fmt: skip


for _rescaling in (*RESCALINGS, TFLM16_HIGH, ONNX_TO_16, TFLM16_TO_8):
    _products = Products(_rescaling, f"helium/matrix_{_rescaling.short_dtype}{_rescaling.suffix}.h")
    _products.register_dense(dense_instructions, 680)
    _products.register_conv(conv_instructions, 890)
