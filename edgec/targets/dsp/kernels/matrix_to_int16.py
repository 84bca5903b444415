"""Matrix products of int8 with results of int16, in both files `matrix_s8_to_s16.h`.

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
from edgec.loop.microkernel import Microkernel, register
from edgec.loop.stream import Field, Stream
from edgec.targets.common.kernels.costs import UnitCost
from edgec.targets.common.kernels.rescaling import SHARED, TFLM_ANY
from edgec.targets.common.kernels.sums import Results, dense_sums
from edgec.targets.dsp.kernels.matrix import (
    TWO_PAIRS,
    add_first_sums,
    product_fields,
    take_first_sums,
)
from edgec.targets.helium.kernels.matrix import DENSE_UNIT, slices_of, vector_fields

Array = npt.NDArray[Any]

#: Channels after which factors repeat, and words with which each of them is rescaled.
FACTORS, FACTOR_WORDS = 4, 5


def matrix_1_plain_to_int16(quads: int, channels: int, added: int) -> PrimFunc:
    """One pixel, its inputs not packed; added: 1 to add results to what `out` holds."""
    if channels % TWO_PAIRS:
        raise ScheduleError(f"{channels} channels are no multiple of {TWO_PAIRS}")
    b = Definition("matrix_1_plain_to_int16")
    out = b.output("out", (1, channels), "int16")
    x = b.input("x", (4 * quads,), "int8")
    return dense_sums(b, TFLM_ANY, x, out, Results(added=bool(added), factors=FACTORS))


def _prepare(arrays: Mapping[str, Array], channels: int, **_: int) -> Mapping[str, Array]:
    """Adds M, C, e, the shift of the sum and the shift of its sign, for each of four channels."""
    shift = arrays["shift"].astype(np.int64)
    exponent, up = np.maximum(-shift, 0), np.maximum(shift, 0) + 1
    up = np.where(np.arange(FACTORS) % 2, 8 - up, up)
    sign = np.where(exponent > 0, 31, 32)
    rows = [arrays["multiplier"], (1 << exponent) >> 1, exponent, up, sign]
    factors = {**arrays, "factor": np.stack(rows, axis=1)}
    return add_first_sums(factors, channels, is_plain=True)


def _restore(found: Mapping[str, Array], channels: int, **_: int) -> Mapping[str, Array]:
    found = take_first_sums(found, channels, is_plain=True)
    multiplier, _half, exponent, up, sign = found["factor"].reshape(FACTORS, FACTOR_WORDS).T
    up = np.where(np.arange(FACTORS) % 2, 8 - up, up)
    return {**found, "multiplier": multiplier, "shift": np.where(sign > 31, up - 1, -exponent)}


def _fields(quads: int, channels: int, added: int) -> list[Field]:
    head = Field("factor", np.arange(FACTORS * FACTOR_WORDS)[None])
    return [head, *product_fields(SHARED, quads, channels, TWO_PAIRS, is_plain=True)]


register(
    Microkernel(
        "ec_matrix_1_plain_s8_s16_dsp",
        matrix_1_plain_to_int16,
        sizes=("quads", "channels", "added"),
        header="dsp/matrix_s8_to_s16.h",
        needs=frozenset({"dsp"}),
        alignment=(("x", 4), ("bias", 4)),
        stream=Stream(TFLM_ANY.sources, _fields, _prepare, _restore),
        instructions=UnitCost(TWO_PAIRS, 55, 55, 14 + 3 / 8, inputs=6, added=12),
        code_bytes=950,
    )
)


def dense_to_int16(depth: int, channels: int, added: int) -> PrimFunc:
    """The meaning of the vector kernel, in units of eight channels."""
    if channels % DENSE_UNIT:
        raise ScheduleError(f"{channels} channels are no multiple of {DENSE_UNIT}")
    b = Definition("dense_to_int16")
    out = b.output("out", (1, channels), "int16")
    x = b.input("x", (depth,), "int8")
    return dense_sums(b, TFLM_ANY, x, out, Results(added=bool(added), factors=FACTORS))


def _dense_fields(depth: int, channels: int, added: int) -> list[Field]:
    """Shifts up, multipliers, and shifts down as negative numbers, of four channels each."""
    four = np.arange(FACTORS)[None]
    head = [Field("up", four), Field("multiplier", four), Field("down", four)]
    return [*head, *vector_fields(SHARED, (1, depth), channels, DENSE_UNIT)]


def _split_shifts(arrays: Mapping[str, Array], **_: int) -> Mapping[str, Array]:
    shift = arrays["shift"].astype(np.int32)
    return {**arrays, "up": np.maximum(shift, 0), "down": np.minimum(shift, 0)}


def _join_shifts(found: Mapping[str, Array], **_: int) -> Mapping[str, Array]:
    return {**found, "shift": found["up"] + found["down"]}


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
        stream=Stream(TFLM_ANY.sources, _dense_fields, _split_shifts, _join_shifts),
        instructions=_dense_instructions,
        code_bytes=700,
    )
)
