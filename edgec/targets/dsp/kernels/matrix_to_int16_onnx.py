"""Products of int8 with results of int16, rounded as ONNX Runtime does.

They are in `runtime_c/kernels/dsp/matrix_s8_to_s16_onnx.h`; their streams are those of
`edgec.targets.dsp.kernels.matrix`. Results have no zero point, and a range of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Stream, register
from edgec.targets.common.kernels.rescaling import ONNX, ONNX_TO_16
from edgec.targets.dsp.kernels.matrix import (
    PAIR,
    TWO_PAIRS,
    Array,
    matrix_block,
    matrix_plain,
    pack_stream,
    stream_words,
    unpack_stream,
)


def matrix_3(quads: int, channels: int, minimum: int, maximum: int) -> PrimFunc:
    """Three pixels, their inputs packed."""
    return matrix_block(3, ONNX_TO_16, quads, channels, limits=(minimum, maximum))


def matrix_1(octets: int, channels: int, minimum: int, maximum: int) -> PrimFunc:
    """One pixel, its inputs packed."""
    return matrix_block(1, ONNX_TO_16, 2 * octets, channels, limits=(minimum, maximum))


def matrix_1_plain(octets: int, channels: int, minimum: int, maximum: int) -> PrimFunc:
    """One pixel, its inputs as they are."""
    return matrix_plain(ONNX_TO_16, 2 * octets, channels, limits=(minimum, maximum))


def _quads(quads: int = 0, octets: int = 0) -> int:
    return quads or 2 * octets


def _stream(unit: int) -> Stream:
    def words(channels: int, minimum: int, maximum: int, **size: int) -> int:
        return stream_words(ONNX, _quads(**size), channels, unit)

    def pack(arrays: Mapping[str, Array], **_: int) -> Array:
        return pack_stream(ONNX, arrays, unit)

    def unpack(
        array: Array, channels: int, minimum: int, maximum: int, **size: int
    ) -> Mapping[str, Array]:
        found: Mapping[str, Array] = unpack_stream(ONNX, array, _quads(**size), channels, unit)
        return found

    return Stream(ONNX.sources, words, pack, unpack)


def _instructions_3(quads: int, channels: int, **_: int) -> float:
    words = 2 * quads
    return 60 + (85 + 8 * words + words / 3 + words / 12) * ((channels + 1) // 2)


def _instructions_1(octets: int, channels: int, **_: int) -> float:
    return 45 + (62 + octets * (27 + 3 / 8)) * ((channels + 3) // 4)


def _instructions_1_plain(octets: int, channels: int, **_: int) -> float:
    return 45 + (62 + octets * (31 + 3 / 8)) * ((channels + 3) // 4)


def _register(
    name: str,
    meaning: Callable[..., PrimFunc],
    unit: int,
    instructions: Callable[..., float],
    code_bytes: int,
) -> None:
    register(
        Microkernel(
            ONNX_TO_16.kernel(name),
            meaning,
            sizes=("quads" if unit == PAIR else "octets", "channels", "minimum", "maximum"),
            header="dsp/matrix_s8_onnx.h",
            needs=frozenset({"dsp"}) | ONNX_TO_16.needs,
            alignment=(("x", 4), ("bias", 4)),
            stream=_stream(unit),
            instructions=instructions,
            code_bytes=code_bytes,
        )
    )


_register("matrix_3", matrix_3, PAIR, _instructions_3, 1680)
_register("matrix_1", matrix_1, TWO_PAIRS, _instructions_1, 1160)
_register("matrix_1_plain", matrix_1_plain, TWO_PAIRS, _instructions_1_plain, 1290)
