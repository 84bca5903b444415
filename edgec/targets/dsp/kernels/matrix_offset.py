"""Products of int8 that stay bytes (`runtime_c/kernels/dsp/matrix_s8_offset.h`)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgec.loop.define import Definition
from edgec.loop.gathered import OFFSET, input_of, offset_pair
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, register
from edgec.loop.stream import Field, Stream, Sums, lanes_of, rows_at
from edgec.targets.common.kernels.costs import UnitCost
from edgec.targets.common.kernels.rescaling import TFLM
from edgec.targets.common.kernels.sums import Results
from edgec.targets.dsp.kernels.matrix import (
    TWO_PAIRS,
    Array,
    add_constants,
    product_nest,
    scale_fields,
)
from edgec.targets.dsp.kernels.packing import paired

#: Words of inputs that the kernel takes at least.
FEWEST_QUADS = 2


def matrix_1_offset(quads: int, channels: int, zero_point: int) -> PrimFunc:
    """One pixel, its inputs bytes with offsets."""
    b = Definition("matrix_1_offset")
    out = b.output("out", (1, channels), "int8")
    x = b.input("x", (quads, 2), "int16")
    element = lambda p, q, s, r: input_of(x[q, r], s)  # noqa: E731
    return product_nest(b, TFLM, element, out, quads, Results(zero_point))


def offset_row(depth: int) -> PrimFunc:
    """to[q, r] = x[k] and x[k + 1] of one row, k = 4 * q + 2 * r; zeros after `depth`."""
    quads = -(-depth // 4)
    b = Definition("offset_row")
    to = b.output("to", (quads, 2), "int16")
    x = b.input("x", (1, depth), "int8")
    b.compute(
        to,
        lambda q, r: offset_pair(
            paired(x, 0, q, 0, r, depth, quads), paired(x, 0, q, 1, r, depth, quads)
        ),
    )
    return b.build()


def _taken_first(quads: int) -> int:
    """How many of the last quads come first: see the header."""
    return ((quads - 1) % 16 + 1) % 3


def _fields(quads: int, channels: int, zero_point: int) -> list[Field]:
    """Half-words hold the weights of two inputs, those of which one has no sign negated."""
    lanes = lanes_of(channels, TWO_PAIRS)
    w = rows_at(lanes, 4 * quads).reshape(*lanes.shape, quads, 2, 2)  # [unit, channel, q, s, r]
    halves = np.stack([w[..., 1, 1], w[..., 0, 1], w[..., 1, 0], w[..., 0, 0]], axis=-1)
    halves = halves.reshape(*lanes.shape, quads, 2, 2).transpose(0, 2, 1, 3, 4)
    halves = np.roll(halves, _taken_first(quads), axis=1)
    times = np.array([[1, -256], [-1, 256]])
    scales = scale_fields(TFLM, lanes, (), zero_point, [True] * TWO_PAIRS)
    return [Field("moved_bias", lanes, times=256), Sums("w", halves, "int16", times), *scales]


def _moved(arrays: Mapping[str, Array], quads: int, channels: int) -> Array:
    """What offsets of inputs add to the sums of channels."""
    w = arrays["w"].reshape(channels, quads, 2, 2).astype(np.int64)
    return np.asarray(OFFSET * w[:, :, 0].sum(axis=(1, 2)))


def _prepare(
    arrays: Mapping[str, Array], quads: int, channels: int, zero_point: int
) -> Mapping[str, Array]:
    moved = arrays["bias"].astype(np.int64) - _moved(arrays, quads, channels)
    return {**add_constants(arrays, zero_point), "moved_bias": moved}


def _restore(
    found: Mapping[str, Array], quads: int, channels: int, zero_point: int
) -> Mapping[str, Array]:
    bias = found["moved_bias"] + _moved(found, quads, channels)
    return {**found, "bias": (bias + (1 << 23)) % (1 << 24) - (1 << 23)}


register(
    Microkernel(
        "ec_matrix_1_offset_s8_dsp",
        matrix_1_offset,
        sizes=("quads", "channels", "zero_point"),
        header="dsp/matrix_s8_offset.h",
        needs=frozenset({"dsp"}),
        alignment=(("x", 4), ("bias", 4)),
        stream=Stream(TFLM.sources, _fields, _prepare, _restore),
        instructions=UnitCost(TWO_PAIRS, 55, 27, 14 + 9 / 16, rescale=9),
        code_bytes=1240,
    )
)
register(
    Microkernel(
        "ec_offset_row_s8_dsp",
        offset_row,
        sizes=("depth",),
        header="dsp/matrix_s8_offset.h",
        needs=frozenset({"dsp"}),
        alignment=(("to", 4), ("x", 4)),
        reads_first=True,
        in_order=("to_q", 1),
        instructions=lambda depth: 15 + 9 * (depth // 16) + 4 * (depth % 16),
    )
)
