"""Products of int8 with results of int16, rounded as ONNX Runtime does.

They are in `runtime_c/kernels/dsp/matrix_s8_to_s16_onnx.h`; their streams are those of
`edgec.targets.dsp.kernels.matrix`. Results have no zero point, and a range of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, register
from edgec.targets.common.kernels.rescaling import ONNX, ONNX_TO_16
from edgec.targets.dsp.kernels.matrix import (
    PAIR,
    TWO_PAIRS,
    matrix_block,
    matrix_plain,
    product_stream,
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
            stream=product_stream(ONNX, unit, meaning is matrix_1_plain),
            instructions=instructions,
            code_bytes=code_bytes,
        )
    )


_register("matrix_3", matrix_3, PAIR, _instructions_3, 1680)
_register("matrix_1", matrix_1, TWO_PAIRS, _instructions_1, 1160)
_register("matrix_1_plain", matrix_1_plain, TWO_PAIRS, _instructions_1_plain, 1290)
