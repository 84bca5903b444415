"""Matrix products of int8 with results of int16: those of both files `matrix_s8_to_s16.h`.

Factors that rescale are the same for each four channels: the four gates of a recurrent layer, or
all channels of one tensor. They stand once, before all else in a stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.errors import ScheduleError
from edgec.loop.define import Definition
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Stream, register
from edgec.targets.common.kernels.rescaling import SHARED, TFLM_ANY
from edgec.targets.dsp.kernels.matrix import (
    TWO_PAIRS,
    pack_stream,
    plain_row,
    product_nest,
    stream_words,
    unpack_stream,
)
from edgec.targets.helium.kernels.matrix import (
    DENSE_UNIT,
    dense_nest,
    pack_products,
    product_words,
    slices_of,
    unpack_products,
)

Array = npt.NDArray[Any]

LIMITS = (-32768, 32767)
#: Channels after which factors repeat, and words with which each of them is rescaled.
FACTORS, FACTOR_WORDS = 4, 5


def matrix_1_plain_to_int16(quads: int, channels: int, added: int) -> PrimFunc:
    """One pixel, its inputs as they are; added: 1 to add results to what `out` holds."""
    if channels % TWO_PAIRS:
        raise ScheduleError(f"{channels} channels are no multiple of {TWO_PAIRS}")
    b = Definition("matrix_1_plain_to_int16")
    out = b.output("out", (1, channels), "int16")
    x = b.input("x", (4 * quads,), "int8")
    return product_nest(
        b, TFLM_ANY, plain_row(x), out, quads, 0, added=bool(added), factors=FACTORS
    )


def _pack_factors(arrays: Mapping[str, Array]) -> Array:
    """M, C, e, the shift of the sum and that of its sign, of each of four channels."""
    found = []
    for channel in range(FACTORS):
        shift = int(arrays["shift"][channel])
        exponent, up = max(-shift, 0), max(shift, 0) + 1
        found += [int(arrays["multiplier"][channel]), (1 << exponent) >> 1, exponent]
        found += [8 - up if channel % 2 else up, 31 if exponent else 32]
    return np.array(found, np.int32)


def _unpack_factors(words: Array) -> dict[str, Array]:
    """The tables of `_pack_factors`."""
    rows = words.reshape(FACTORS, FACTOR_WORDS)
    up = np.where(np.arange(FACTORS) % 2, 8 - rows[:, 3], rows[:, 3])
    shift = np.where(rows[:, 4] > 31, up - 1, -rows[:, 2])
    return {"multiplier": rows[:, 0], "shift": shift.astype(np.int8)}


def _unpack(words: Array, quads: int, channels: int, added: int) -> Mapping[str, Array]:
    at = FACTORS * FACTOR_WORDS
    products = unpack_stream(SHARED, words[at:], quads, channels, TWO_PAIRS)
    return {**products, **_unpack_factors(words[:at])}


def _instructions(quads: int, channels: int, added: int) -> float:
    each = 52 + quads * (16 + 3 / 8) + (12 if added else 0)
    return 45 + each * (channels // TWO_PAIRS)


register(
    Microkernel(
        "ec_matrix_1_plain_s8_s16_dsp",
        matrix_1_plain_to_int16,
        sizes=("quads", "channels", "added"),
        header="dsp/matrix_s8_to_s16.h",
        needs=frozenset({"dsp"}),
        alignment=(("x", 4), ("bias", 4)),
        stream=Stream(
            TFLM_ANY.sources,
            words=lambda quads, channels, added: (
                FACTORS * FACTOR_WORDS + stream_words(SHARED, quads, channels, TWO_PAIRS)
            ),
            pack=lambda arrays, **_: np.concatenate(
                [_pack_factors(arrays), pack_stream(SHARED, arrays, TWO_PAIRS)]
            ),
            unpack=_unpack,
        ),
        instructions=_instructions,
        code_bytes=960,
    )
)


def dense_to_int16(depth: int, channels: int, added: int) -> PrimFunc:
    """The same on vectors, in units of eight channels."""
    if channels % DENSE_UNIT:
        raise ScheduleError(f"{channels} channels are no multiple of {DENSE_UNIT}")
    b = Definition("dense_to_int16")
    out = b.output("out", (1, channels), "int16")
    x = b.input("x", (depth,), "int8")
    return dense_nest(b, TFLM_ANY, x, out, 0, LIMITS, added=bool(added), factors=FACTORS)


def _pack_vectors(arrays: Mapping[str, Array]) -> Array:
    """Shifts up, multipliers, and shifts down as negative numbers, of four channels each."""
    shift = arrays["shift"].astype(np.int32)
    return np.concatenate([np.maximum(shift, 0), arrays["multiplier"], np.minimum(shift, 0)])


def _unpack_dense(words: Array, depth: int, channels: int, added: int) -> Mapping[str, Array]:
    up, multiplier, down = words[: 3 * FACTORS].reshape(3, FACTORS)
    products = unpack_products(SHARED, words[3 * FACTORS :], 1, depth, channels, DENSE_UNIT)
    return {**products, "multiplier": multiplier, "shift": (up + down).astype(np.int8)}


def _dense_instructions(depth: int, channels: int, added: int) -> float:
    whole = slices_of(depth) - 1
    each = 56 + 17 * whole + 2 * -(-whole // 4) + (8 if added else 0)
    return 80 + each * (channels // DENSE_UNIT)


register(
    Microkernel(
        "ec_dense_s8_s16_mve",
        dense_to_int16,
        sizes=("depth", "channels", "added"),
        header="helium/matrix_s8_to_s16.h",
        needs=frozenset({"mve"}),
        alignment=(("bias", 4),),
        stream=Stream(
            TFLM_ANY.sources,
            words=lambda depth, channels, added: (
                3 * FACTORS + product_words(SHARED, 1, depth, channels, DENSE_UNIT)
            ),
            pack=lambda arrays, **_: np.concatenate(
                [_pack_vectors(arrays), pack_products(SHARED, arrays, 1, DENSE_UNIT)]
            ),
            unpack=_unpack_dense,
        ),
        instructions=_dense_instructions,
        code_bytes=700,
    )
)
