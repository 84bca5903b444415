"""Four pixels in three sums (`runtime_c/kernels/dsp/matrix_s8_four.h`): meanings and the stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from edgec.loop.define import Definition
from edgec.loop.ir import PrimFunc
from edgec.loop.stream import Digits, Field, Stream, lanes_of
from edgec.loop.values import Array
from edgec.targets.common.kernels.rescaling import ONNX, Rescaling
from edgec.targets.common.kernels.sums import Results
from edgec.targets.dsp.fixed_scales import fixed_scales, scales_of
from edgec.targets.dsp.kernels.int4_steps import divide_steps, join_steps, step_factors
from edgec.targets.dsp.kernels.matrix import (
    PAIR,
    add_constants,
    product_nest,
    scale_fields,
    weights_at,
)
from edgec.targets.dsp.shared_shift import LEAST, MOST_LOST

#: Pixels that are packed together, and the half-words per input that packed pixels may take: only
#: these kernels know the packing.
FOUR, ROOM = 4, 6
#: How often a sum has a bias: once and 256 times, or in the other order; and what undoes that.
_TIMES = 257
_INVERSE = pow(_TIMES, -1, 1 << 32)
#: What a step's sums are multiplied by that has no shift, in 4096ths.
_ONCE = -16
#: What bytes without a sign are too large by.
_OFFSET = 128
#: Of integers that stand for scales, see `edgec.targets.dsp.fixed_scales`: of int8 weights, and of
#: int4 ones, whose scales are larger.
PLACES, INT4_PLACES = 36, 31
#: Constants of channels that share a shift, and what they are without their lowest bits.
_SHARED = {"shared_multiplier": "multiplier", "shared_constant": "wide_constant"}


#: The most quads in the loop of a kernel, by the bits of weights: more are done in rounds.
MOST_ROUND = {8: 15, 4: 7}


def round_macros(
    macro: str, weight_bits: int, calls: Sequence[Mapping[str, int]]
) -> dict[str, str]:
    """A loop with no more quads than as many rounds need."""
    most = MOST_ROUND[weight_bits]
    after_first = [call["quads"] - 1 for call in calls]
    rounds = [(quads, -(-quads // most)) for quads in after_first if quads]
    quads = max((-(-quads // count) for quads, count in rounds), default=1)
    return {macro: f'"{quads}"'} if quads < most else {}


def four_macros(calls: Sequence[Mapping[str, int]]) -> dict[str, str]:
    """The loop that a model needs, and no code for shifts of channels where none has them."""
    made = round_macros("EC_MATRIX_4_MODEL_ROUND", 8, calls)
    if all(call["shift"] for call in calls):
        made["EC_MATRIX_4_ONE_SHIFT"] = "1"
    return made


def needs_int4(scale: Array, zero_point: int) -> bool:
    """Whether integers stand for all scales of int4 weights, but not for all of int8 ones.

    By floats the results of a pair of channels take four times the instructions.
    """
    found = (fixed_scales(scale.reshape(-1), zero_point, p) for p in (PLACES, INT4_PLACES))
    by_bytes, by_int4 = (bool(factor.all()) for factor in found)
    return by_int4 and not by_bytes


def four_pixels(rescaling: Rescaling, quads: int, channels: int, zero_point: int = 0) -> PrimFunc:
    """Four pixels, their inputs packed."""
    b = Definition("matrix_4")
    out = b.output("out", (FOUR, channels), rescaling.result)
    x = b.input("x", (quads, 2, ROOM, 2), "int8")
    return product_nest(
        b, rescaling, lambda p, q, s, r: x[q, s, p, r], out, quads, Results(zero_point)
    )


def four_stream(rescaling: Rescaling) -> Stream:
    """Pairs of channels: the initial sums, the weights, the numbers that rescale."""

    def fields(quads: int, channels: int, shift: int = 0, **_: int) -> list[Field]:
        lanes = lanes_of(channels, PAIR)
        w = weights_at(lanes, quads, is_plain=False)  # [units, 2, quads, 2 (s), 2 (r)]
        scales = _scales(rescaling, lanes, 0)
        if shift:
            scales = [Field(name, lanes[:, [i]]) for i in range(PAIR) for name in _SHARED]
        return [
            Field("first_sum", lanes), Field("w", w.transpose(0, 2, 3, 4, 1), "int8"), *scales,
        ]  # fmt: skip

    return _stream(rescaling, fields, times=1, places=PLACES)


def four_int4_stream(rescaling: Rescaling) -> Stream:
    """The same for int4 weights (`runtime_c/kernels/dsp/matrix_s8_int4_four.h`)."""

    def fields(quads: int, channels: int, zero_point: int, **_: int) -> list[Field]:
        lanes = lanes_of(channels, PAIR)
        return [
            Field("first_sum", lanes),
            _int4_weights(lanes, quads),
            *_scales(rescaling, lanes, zero_point),
        ]

    return _stream(rescaling, fields, times=16, places=INT4_PLACES)


def four_groups_stream(rescaling: Rescaling) -> Stream:
    """Int4 weights shifted by groups (`runtime_c/kernels/dsp/matrix_s8_onnx_groups_four.h`)."""

    def fields(quads: int, group: int, channels: int, zero_point: int, **_: int) -> list[Field]:
        lanes = lanes_of(channels, PAIR)
        return [
            Field("first_sum", lanes),
            step_factors(lanes, quads // group),
            _int4_weights(lanes, quads),
            *_scales(rescaling, lanes, zero_point),
        ]

    return _stream(rescaling, fields, times=1, places=INT4_PLACES, sign=-1)


def _int4_weights(lanes: Array, quads: int) -> Field:
    """Half-words of both channels' weights for inputs s = 0 and 1."""
    w = weights_at(lanes, quads, is_plain=False).transpose(0, 2, 4, 1, 3)
    digits = w.reshape(len(lanes), -1, 4)
    return Digits("w", digits, "uint16", 1 << np.array([4, 0, 12, 8]))


def _scales(rescaling: Rescaling, lanes: Array, zero_point: int) -> list[Field]:
    if rescaling is ONNX:
        return [Field("factor", np.arange(lanes.size).reshape(lanes.shape))]
    return scale_fields(rescaling, lanes, (1, 1), zero_point, (False,) * PAIR)


def _stream(
    rescaling: Rescaling, fields: Callable[..., list[Field]], times: int, places: int,
    sign: int = 1,
) -> Stream:  # fmt: skip
    """times: how many times a sum is what it is for bytes, a power of two. places: as `PLACES`.
    sign: of the sums that are kept; what a step has is multiplied by `_ONCE` and more.
    """

    def prepare(
        arrays: Mapping[str, Array], channels: int, zero_point: int, shift: int = 0, **sizes: int
    ) -> Mapping[str, Array]:
        first = _TIMES * arrays["bias"].astype(np.int64) - _offsets(arrays["w"], channels)
        made = {**add_constants(arrays, zero_point), "first_sum": sign * times * first}
        if rescaling is ONNX:
            scale, lanes = arrays["scale"].reshape(-1), lanes_of(channels, PAIR)
            factor = fixed_scales(scale, zero_point, places)
            made["factor"] = _factors(scale / np.float32(256 * times), factor, lanes)
        if shift:
            lost = -arrays["shift"].astype(np.int64) - LEAST
            made |= {name: made[of] >> lost for name, of in _SHARED.items()}
        return divide_steps(made, channels, once=_ONCE, **sizes) if "group" in sizes else made

    def restore(
        found: Mapping[str, Array], channels: int, shift: int = 0, **sizes: int
    ) -> Mapping[str, Array]:
        if "group" in sizes:
            bytes_of = found["step_factor"].astype(np.uint8).view(np.int8)
            found = join_steps({**found, "step_factor": bytes_of}, channels, once=_ONCE, **sizes)
        first = sign * found["first_sum"].astype(np.int64) // times + _offsets(found["w"], channels)
        # What is known of it, modulo 2**32 / times, as a number with a sign.
        known = (first.astype(np.uint32) * np.uint32(_INVERSE) * np.uint32(times)).astype(np.int32)
        scales = _own_shifts(found) if shift else found
        if rescaling is ONNX:
            scale = _own_scales(found["factor"], places, np.float32(256 * times))
            scales = {**found, "scale": scale[_first_places(channels)]}
        return {**scales, "bias": known // times}

    return Stream(rescaling.sources, fields, prepare, restore)


def _factors(scale: Array, factor: Array, lanes: Array) -> Array:
    """Factors of pairs of channels: both integers, or both negative floats."""
    for pair in (*lanes, *lanes[::-1]):  # the last pair may overlap the one before
        factor[pair] *= factor[pair].all()
    floats = (-scale).astype(np.float32).view(np.int32)
    return np.asarray(np.where(factor > 0, factor, floats)[lanes])


def _own_scales(factor: Array, places: int, times: np.float32) -> Array:
    """The scales of what `_factors` returned."""
    floats = factor.astype(np.int32).view(np.float32) * -times
    return np.asarray(np.where(factor > 0, scales_of(factor, places), floats))


def _first_places(channels: int) -> Array:
    """Index of each channel in pairs."""
    return np.unique(lanes_of(channels, PAIR), return_index=True)[1]


def _offsets(w: Array, channels: int) -> Array:
    """Return the terms that offsets of inputs add to the sums of each channel."""
    return np.asarray(_OFFSET * w.astype(np.int64).reshape(channels, -1).sum(axis=1))


def _own_shifts(found: Mapping[str, Array]) -> Mapping[str, Array]:
    """Return multipliers and shifts of each channel, if channels share one shift."""
    half = found["shared_constant"] + (255 << 11)  # 64, without the bits that are lost
    lost = MOST_LOST - np.log2(half).astype(np.int64)
    return {**found, "multiplier": found["shared_multiplier"] << lost, "shift": -(lost + LEAST)}
