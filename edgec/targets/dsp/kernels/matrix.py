"""Matrix products of int8 (`runtime_c/kernels/dsp/matrix_s8.h`): their meaning and streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.loop.define import Definition, Tensor
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Stream, get_microkernel, register
from edgec.loop.schedule import Schedule
from edgec.loop.values import Value, cast, clamp, int32
from edgec.targets.common.kernels.rescaling import ONNX, RESCALINGS, SHARED, TFLM, Rescaling

Array = npt.NDArray[Any]

#: An input of a pixel, in terms of pixel, quad, pair of the quad, and element of the pair.
Element = Callable[[Any, Any, Any, Any], Value]

#: Channels that share a stream's unit, by kernel: a pair, or two pairs.
PAIR, TWO_PAIRS = 2, 4


def product_nest(
    definition: Definition,
    rescaling: Rescaling,
    element: Element,
    out: Tensor,
    quads: int,
    zero_point: int,
    added: bool = False,
    factors: int = 0,
    limits: tuple[int, int] | None = None,
) -> PrimFunc:
    """out[p, o] = requantized bias[o] + sum over q, s, r of x[k] * w[o, q, s, r], limited.

    element(p, q, s, r) is x[k] of pixel p, k = 4 * q + 2 * r + s. added: to what `out` holds, and
    limited again. factors: after how many channels those that rescale repeat; 0 for never. limits:
    if not those of the dtype of `out`.
    """
    pixels, channels = out.shape
    bias = definition.constant("bias", (channels,), "int32")
    w = definition.constant("w", (channels, quads, 2, 2), "int8")
    tables = rescaling.declare(definition, factors or channels)

    acc = definition.reduce(
        "acc",
        [("q", 0, quads), ("s", 0, 2), ("r", 0, 2)],
        init=lambda p, c: bias[c],
        update=lambda acc, p, c, q, s, r: acc + int32(element(p, q, s, r)) * int32(w[c, q, s, r]),
        shape=(pixels, channels),
        dtype="int32",
    )

    info = np.iinfo(out.dtype)
    ends = limits or (int(info.min), int(info.max))

    def result(p: Any, c: Any) -> Any:
        rounded = rescaling.rounded(acc[p, c], tables, c % factors if factors else c)
        return stored_as(out, (p, c), rounded, zero_point, ends, added)

    definition.compute(out, result)
    schedule = Schedule(definition.build())
    schedule.compute_at("acc", "out_c")
    schedule.decompose_reduction("acc", "acc_q")
    schedule.simplify()
    return schedule.func


def stored_as(
    out: Tensor,
    at: tuple[Any, ...],
    rounded: Value,
    zero_point: int,
    limits: tuple[int, int],
    added: bool,
) -> Value:
    """A rescaled sum as `out` at an index has it; added: to what it holds."""
    value = clamp(rounded + zero_point, *limits)
    return cast(clamp(int32(out[at]) + value, *limits) if added else value, out.dtype)


def plain_row(x: Tensor) -> Element:
    """The inputs of one pixel as they are."""
    return lambda p, q, s, r: x[4 * q + 2 * r + s]


def matrix_block(
    pixels: int,
    rescaling: Rescaling,
    quads: int,
    channels: int,
    zero_point: int = 0,
    limits: tuple[int, int] | None = None,
) -> PrimFunc:
    """Some pixels, their inputs packed; limits: as for `product_nest`."""
    b = Definition(f"matrix_{pixels}")
    out = b.output("out", (pixels, channels), rescaling.result)
    x = b.input("x", (quads, 2, pixels, 2), "int16")
    element: Element = lambda p, q, s, r: x[q, s, p, r]  # noqa: E731
    return product_nest(b, rescaling, element, out, quads, zero_point, limits=limits)


def matrix_plain(
    rescaling: Rescaling,
    quads: int,
    channels: int,
    zero_point: int = 0,
    limits: tuple[int, int] | None = None,
) -> PrimFunc:
    """One pixel, its inputs as they are."""
    b = Definition("matrix_1_plain")
    out = b.output("out", (1, channels), rescaling.result)
    x = b.input("x", (4 * quads,), "int8")
    return product_nest(b, rescaling, plain_row(x), out, quads, zero_point, limits=limits)


def matrix_3(rescaling: Rescaling, quads: int, channels: int, zero_point: int) -> PrimFunc:
    """Three pixels."""
    return matrix_block(3, rescaling, quads, channels, zero_point)


def matrix_2(rescaling: Rescaling, quads: int, channels: int, zero_point: int) -> PrimFunc:
    """Two pixels."""
    return matrix_block(2, rescaling, quads, channels, zero_point)


def matrix_1(rescaling: Rescaling, octets: int, channels: int, zero_point: int) -> PrimFunc:
    """One pixel, its inputs packed."""
    return matrix_block(1, rescaling, 2 * octets, channels, zero_point)


def matrix_1_plain(rescaling: Rescaling, octets: int, channels: int, zero_point: int) -> PrimFunc:
    """One pixel, its inputs as they are."""
    return matrix_plain(rescaling, 2 * octets, channels, zero_point)


def unit_starts(channels: int, unit: int) -> list[int]:
    """The first channel of each unit of a stream; the last unit may overlap the one before."""
    return [min(first, channels - unit) for first in range(0, channels, unit)]


def can_share_words(w: Array) -> npt.NDArray[np.bool_]:
    """[a, b]: whether weights of channel a and 256 times those of b fit into half-words together.

    w: int8 [O, ...]. Half-words hold -2^15 at least: b may be -128 only where a is not negative.
    """
    flat = w.reshape(len(w), -1)
    negative, least = (flat < 0).astype(np.float32), (flat == -128).astype(np.float32)
    fits: npt.NDArray[np.bool_] = negative @ least.T == 0
    return fits


def pack_stream(
    rescaling: Rescaling, arrays: Mapping[str, Array], unit: int, zero_point: int = 0
) -> Array:
    """The constants of a product in the order of use, as int32 words.

    Requires what `edgec.targets.dsp.matrix` checks; see the headers for the order.
    """
    bias = arrays["bias"].astype(np.int64)
    channels = len(bias)
    w = arrays["w"].reshape(channels, -1, 2).astype(np.int64)
    parts: list[Array] = []
    for first in unit_starts(channels, unit):
        pairs = [(first + i, first + i + 1) for i in range(0, unit, 2)]
        for a, b in pairs:
            parts.append(np.array([bias[a], bias[a] + 256 * bias[b]]))
        words = []
        for a, b in pairs:
            # Bytes a[0], b'[0], a[1], b'[1] from low to high: two half-words a + 256 * b.
            low, high = (w[a, :, i] + 256 * w[b, :, i] for i in (0, 1))
            words.append((low & 0xFFFF) | ((high & 0xFFFF) << 16))
        parts.append(np.stack(words, axis=1).reshape(-1))
        if rescaling.tables:
            parts += [_PACK_SCALES[rescaling](arrays, a, b, zero_point) for a, b in pairs]
    whole = np.concatenate(parts) & 0xFFFFFFFF
    return whole.astype(np.uint32).view(np.int32)


def unpack_stream(
    rescaling: Rescaling,
    words: Array,
    quads: int,
    channels: int,
    unit: int,
    zero_point: int = 0,
) -> Any:
    """The constants in a stream, flat, by their names in the meaning."""
    pairs = unit // 2
    bias = np.zeros(channels, np.int64)
    tables = {name: np.zeros(channels, dtype) for name, dtype in rescaling.tables.items()}
    w = np.zeros((channels, 2 * quads, 2), np.int64)
    scales = SCALE_WORDS[rescaling]
    size = pairs * (2 + 2 * quads + scales)
    for number, first in enumerate(unit_starts(channels, unit)):
        part = words[number * size : (number + 1) * size].astype(np.int64)
        body = part[2 * pairs : 2 * pairs + 2 * quads * pairs].reshape(-1, pairs)
        for pair in range(pairs):
            a, b = first + 2 * pair, first + 2 * pair + 1
            total, both = part[2 * pair], part[2 * pair + 1]
            bias[a], bias[b] = total, _wrapped(both - total) >> 8
            for i, half in enumerate((body[:, pair] << 48 >> 48, body[:, pair] >> 16)):
                w[a, :, i] = ((half & 0xFF) ^ 0x80) - 0x80
                w[b, :, i] = (half - w[a, :, i]) >> 8
            if rescaling.tables:
                at = part[len(part) - scales * (pairs - pair) :][:scales]
                _UNPACK_SCALES[rescaling](tables, at, a, b, zero_point)
    return {"bias": bias, "w": w, **tables}


def pack_shared(arrays: Mapping[str, Array], unit: int) -> Array:
    """A stream that begins with the scale of all channels, as a pair has it, and ends with none."""
    first = _pack_onnx(arrays, 0, 0, 0).astype(np.int32)
    return np.concatenate([first, pack_stream(SHARED, arrays, unit)])


def unpack_shared(words: Array, quads: int, channels: int, unit: int) -> Mapping[str, Array]:
    """The constants in such a stream, flat, by their names in the meaning."""
    found: Mapping[str, Array] = unpack_stream(SHARED, words[2:], quads, channels, unit)
    return {**found, "scale": np.full(channels, words[:1].astype(np.int32).view(np.float32))}


def _wrapped(value: int) -> int:
    return (int(value) + (1 << 31)) % (1 << 32) - (1 << 31)


#: Of the second channel of a pair, sums come as 256 times themselves.
_SECOND = 256.0


def _pack_tflm(arrays: Mapping[str, Array], a: int, b: int, zero_point: int) -> Array:
    """M, C, e of both channels."""
    found = []
    for channel, scaled in ((a, 0), (b, 7 if zero_point == -128 else 0)):
        exponent = -int(arrays["shift"][channel])
        half = (1 << exponent) >> 1  # nothing to round where nothing is shifted out
        constant = (half + zero_point * (1 << exponent)) << scaled
        if scaled:
            constant += 1 << (scaled - 1)
        found += [int(arrays["multiplier"][channel]), constant, exponent + scaled]
    return np.array(found)


def _unpack_tflm(tables: dict[str, Array], at: Array, a: int, b: int, zero_point: int) -> None:
    for channel, triple, scaled in (
        (a, at[:3], 0),
        (b, at[3:], 7 if zero_point == -128 else 0),
    ):
        tables["multiplier"][channel] = triple[0]
        tables["shift"][channel] = scaled - triple[2]


def _pack_onnx(arrays: Mapping[str, Array], a: int, b: int, zero_point: int) -> Array:
    scales = np.array([arrays["scale"][a], arrays["scale"][b] / _SECOND], np.float32)
    return scales.view(np.int32).astype(np.int64)


def _unpack_onnx(tables: dict[str, Array], at: Array, a: int, b: int, zero_point: int) -> None:
    scales = at.astype(np.int32).view(np.float32)
    tables["scale"][a], tables["scale"][b] = scales[0], scales[1] * _SECOND


_PACK_SCALES = {TFLM: _pack_tflm, ONNX: _pack_onnx}
_UNPACK_SCALES = {TFLM: _unpack_tflm, ONNX: _unpack_onnx}
#: Words with which a pair of channels is rescaled.
SCALE_WORDS = {TFLM: 6, ONNX: 2, SHARED: 0}


def stream_words(rescaling: Rescaling, quads: int, channels: int, unit: int) -> int:
    """Words of a stream."""
    pairs = len(unit_starts(channels, unit)) * (unit // 2)
    return pairs * (2 + 2 * quads + SCALE_WORDS[rescaling])


def _stream(rescaling: Rescaling, unit: int, quads_of: Any) -> Stream:
    head = np.zeros(2 if rescaling is ONNX and unit == TWO_PAIRS else 0, np.int32)

    def words(channels: int, zero_point: int, **size: int) -> int:
        return len(head) + stream_words(rescaling, quads_of(**size), channels, unit)

    def pack(arrays: Mapping[str, Array], channels: int, zero_point: int, **size: int) -> Array:
        return np.concatenate([head, pack_stream(rescaling, arrays, unit, zero_point)])

    def unpack(array: Array, channels: int, zero_point: int, **size: int) -> Mapping[str, Array]:
        found: Mapping[str, Array] = unpack_stream(
            rescaling, array[len(head) :], quads_of(**size), channels, unit, zero_point
        )
        return found

    return Stream(rescaling.sources, words, pack, unpack)


def _shared_stream(unit: int) -> Stream:
    def words(octets: int, channels: int, zero_point: int) -> int:
        return 2 + stream_words(SHARED, 2 * octets, channels, unit)

    def pack(arrays: Mapping[str, Array], **_: int) -> Array:
        return pack_shared(arrays, unit)

    def unpack(array: Array, octets: int, channels: int, zero_point: int) -> Mapping[str, Array]:
        return unpack_shared(array, 2 * octets, channels, unit)

    return Stream(ONNX.sources, words, pack, unpack)


def _instructions_3(rescaling: Rescaling, quads: int, channels: int, zero_point: int) -> float:
    words = 2 * quads
    more = {TFLM: 0 if zero_point == -128 else 9, ONNX: 16}[rescaling]
    each = 51 + 8 * words + words / 3 + words / 12 + more
    return 60 + each * ((channels + 1) // 2)


def _instructions_2(rescaling: Rescaling, quads: int, channels: int, zero_point: int) -> float:
    words = 2 * quads
    each = 38 + 6 * words + words / 3 + words / 10 + (0 if zero_point == -128 else 6)
    return 60 + each * ((channels + 1) // 2)


def _instructions_1(
    rescaling: Rescaling, octets: int, channels: int, zero_point: int, per_octet: int = 27
) -> float:
    more = {TFLM: 0 if zero_point == -128 else 6, ONNX: 12}[rescaling]
    each = 36 + octets * (per_octet + 3 / 8) + more
    return 45 + each * ((channels + 3) // 4)


#: Bytes of code on Cortex-M4, a little more than `tests/runtime_c/kernel_code.py` measures.
CODE_BYTES = {
    TFLM: {"matrix_3": 1740, "matrix_1": 1320, "matrix_1_plain": 1320, "matrix_2": 1160},
    ONNX: {"matrix_3": 1610, "matrix_1": 1130, "matrix_1_plain": 1260},
}


def _register(rescaling: Rescaling) -> None:
    kernels: list[tuple[str, Callable[..., PrimFunc], int, Any, Callable[..., float]]] = [
        ("matrix_3", matrix_3, PAIR, lambda quads: quads, _instructions_3),
        ("matrix_1", matrix_1, TWO_PAIRS, lambda octets: 2 * octets, _instructions_1),
        (
            "matrix_1_plain", matrix_1_plain, TWO_PAIRS, lambda octets: 2 * octets,
            partial(_instructions_1, per_octet=31),
        ),
        ("matrix_2", matrix_2, PAIR, lambda quads: quads, _instructions_2),
    ]  # fmt: skip
    for name, meaning, unit, quads_of, instructions in kernels:
        if name not in CODE_BYTES[rescaling]:
            continue
        suffix = "_two" if name == "matrix_2" else rescaling.suffix
        register(
            Microkernel(
                rescaling.kernel(name),
                partial(meaning, rescaling),
                sizes=("quads" if unit == PAIR else "octets", "channels", "zero_point"),
                header=f"dsp/matrix_s8{suffix}.h",
                needs=frozenset({"dsp"}) | rescaling.needs,
                alignment=(("x", 4), ("bias", 4)),
                stream=_stream(rescaling, unit, quads_of),
                instructions=partial(instructions, rescaling),
                code_bytes=CODE_BYTES[rescaling][name],
            )
        )


for _rescaling in RESCALINGS:
    _register(_rescaling)
#: The same kernels, where all channels have one scale, as in layers that are quantized as a whole.
for _name in ("matrix_1", "matrix_1_plain"):
    _kernel = get_microkernel(ONNX.kernel(_name))
    register(
        replace(_kernel, name=ONNX.kernel(f"{_name}_shared"), stream=_shared_stream(TWO_PAIRS))
    )
