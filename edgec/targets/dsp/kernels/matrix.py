"""Matrix products of int8 (`runtime_c/kernels/dsp/matrix_s8.h`): their meaning and streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.loop.define import Definition, Tensor
from edgec.loop.ir import PrimFunc
from edgec.loop.stream import Field, Stream, Sums, Totals, lanes_of, rows_at
from edgec.loop.values import Value
from edgec.targets.common.kernels.rescaling import ONNX, SHARED, Rescaling
from edgec.targets.common.kernels.sums import Results, dense_sums, rescaled_sums

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
    results: Results,
) -> PrimFunc:
    """out[p, o] = requantized bias[o] + sum over q, s, r of x[k] * w[o, q, s, r], limited.

    element(p, q, s, r) is x[k] of pixel p, k = 4 * q + 2 * r + s.
    """
    w = definition.constant("w", (out.shape[1], quads, 2, 2), "int8")
    return rescaled_sums(
        definition, rescaling, out, {"q": quads, "s": 2, "r": 2},
        lambda p, c, *k: element(p, *k), lambda p, c, *k: w[c, *k], results,
    )  # fmt: skip


def matrix_block(
    pixels: int,
    rescaling: Rescaling,
    quads: int,
    channels: int,
    zero_point: int = 0,
    limits: tuple[int, int] | None = None,
) -> PrimFunc:
    """Some pixels, their inputs packed; limits: as for `Results`."""
    b = Definition(f"matrix_{pixels}")
    out = b.output("out", (pixels, channels), rescaling.result)
    x = b.input("x", (quads, 2, pixels, 2), "int16")
    element: Element = lambda p, q, s, r: x[q, s, p, r]  # noqa: E731
    return product_nest(b, rescaling, element, out, quads, Results(zero_point, limits))


def matrix_plain(
    rescaling: Rescaling,
    quads: int,
    channels: int,
    zero_point: int = 0,
    limits: tuple[int, int] | None = None,
) -> PrimFunc:
    """One pixel, its inputs and weights not packed."""
    b = Definition("matrix_1_plain")
    out = b.output("out", (1, channels), rescaling.result)
    x = b.input("x", (4 * quads,), "int8")
    return dense_sums(b, rescaling, x, out, Results(zero_point, limits))


def can_share_words(w: Array) -> npt.NDArray[np.bool_]:
    """[a, b]: whether a weight of channel a plus 256 times one of b always fits into a half-word.

    w: int8 [O, ...]. Half-words hold -2^15 at least: b may be -128 only where a is not negative.
    """
    flat = w.reshape(len(w), -1)
    negative, least = (flat < 0).astype(np.float32), (flat == -128).astype(np.float32)
    fits: npt.NDArray[np.bool_] = negative @ least.T == 0
    return fits


#: The sums of a pair: the first channel's, and the first's plus 256 times the second's.
_PAIR_SUMS = np.array([[1, 0], [1, 256]])


def weights_at(lanes: Array, quads: int, is_plain: bool) -> Array:
    """Indices of weights in the order of use, [*lanes.shape, quads, 2 (s), 2 (r)].

    is_plain: the constant has them in the order of inputs.
    """
    w = rows_at(lanes, 4 * quads).reshape(*lanes.shape, quads, 2, 2)
    return w.swapaxes(-1, -2) if is_plain else w


def product_fields(
    rescaling: Rescaling,
    quads: int,
    channels: int,
    unit: int,
    zero_point: int = 0,
    is_plain: bool = False,
) -> list[Field]:
    """The fields of product streams: of each unit the biases, the weights, the rescaling.

    Requires what `edgec.targets.dsp.matrix` checks; see the headers for the order. A half-word has
    the weights of both channels of a pair for one input.
    """
    lanes, pairs = lanes_of(channels, unit), unit // 2
    w = weights_at(lanes, quads, is_plain).reshape(len(lanes), pairs, 2, quads, 2, 2)
    first: Field = Totals("bias", lanes, times=_PAIR_SUMS)
    if unit == TWO_PAIRS:
        w = np.flip(w, axis=4)
        first = Field("first_sum", np.arange(lanes.size).reshape(lanes.shape))
    factors = [(1, 256)[i % 2] for i in range(unit)]
    return [
        first,
        Sums("w", w.transpose(0, 3, 4, 1, 5, 2), "int16", (1, 256)),
        *scale_fields(rescaling, lanes, factors, zero_point, [f > 1 for f in factors]),
    ]


def _own_products(w: Array, channels: int, is_plain: bool) -> Array:
    """The products of weights that Winograd's inner product makes, added up for each channel."""
    w = w.astype(np.int64).reshape(channels, -1, 2, 2)
    first, second = np.moveaxis(w, 3 if is_plain else 2, 0)
    return np.asarray((first * second).sum(axis=(1, 2)))


def add_first_sums(
    arrays: Mapping[str, Array], channels: int, is_plain: bool, **_: int
) -> Mapping[str, Array]:
    """Add the terms that the sums of each two pairs begin with."""
    lanes = lanes_of(channels, TWO_PAIRS)
    bias = arrays["bias"].astype(np.int64)
    sums, above = bias[lanes], bias[lanes[:, 1::2]]
    sums[:, 1::2] = sums[:, ::2] + 256 * above
    sums[:, ::2] -= _own_products(arrays["w"], channels, is_plain)[lanes[:, ::2]]
    return {**arrays, "first_sum": sums}


def take_first_sums(
    found: Mapping[str, Array], channels: int, is_plain: bool, **_: int
) -> Mapping[str, Array]:
    """Restore the biases that `add_first_sums` was given."""
    lanes = lanes_of(channels, TWO_PAIRS)
    sums = found["first_sum"].reshape(lanes.shape)
    bias = np.zeros(channels, np.int64)
    own = sums[:, ::2] + _own_products(found["w"], channels, is_plain)[lanes[:, ::2]]
    bias[lanes[:, ::2]] = own.astype(np.int32)
    bias[lanes[:, 1::2]] = (sums[:, 1::2] - own).astype(np.int32) >> 8
    return {**found, "bias": bias}


def scale_fields(
    rescaling: Rescaling,
    lanes: Array,
    factors: Sequence[int],
    zero_point: int,
    is_wide: Sequence[bool],
) -> list[Field]:
    """The rescaling of each channel of the units [units, unit]: its scale, or M, C, e.

    factors: how many times themselves sums come that a scale is for. is_wide: of M, C, e, which
    channels take sums of 256 times themselves, where the zero point is -128.
    """
    if "scale" in rescaling.tables:
        times = [1 / factor for factor in factors]
        return [Field("scale", lanes, "float32", times)]
    found: list[Field] = []
    for place, wide in enumerate(is_wide if rescaling.tables else ()):
        lane = lanes[:, place : place + 1]
        more = 7 * (wide and zero_point == -128)
        constant = Field("wide_constant" if more else "constant", lane)
        found += [Field("multiplier", lane), constant, Field("shift", lane, times=-1, plus=more)]
    return found


def add_constants(
    arrays: Mapping[str, Array], zero_point: int = 0, **_: int
) -> Mapping[str, Array]:
    """Adds C of each channel, the constant before a shift: half of the last bit that stays, and the
    zero point; and the same constant for 256 times the sums.
    """
    if "shift" not in arrays:
        return arrays
    whole = 1 << -arrays["shift"].astype(np.int64)  # nothing to round where nothing is shifted out
    constant = (whole >> 1) + zero_point * whole
    return {**arrays, "constant": constant, "wide_constant": (constant << 7) + 64}


def product_stream(
    rescaling: Rescaling, unit: int, is_plain: bool = False, head: Sequence[Field] = ()
) -> Stream:
    """A stream for sizes with quads, or octets. head: the fields before all units."""

    def fields(
        channels: int, zero_point: int = 0, quads: int = 0, octets: int = 0, **_: int
    ) -> list[Field]:
        whole = quads or 2 * octets
        return [
            *head, *product_fields(rescaling, whole, channels, unit, zero_point, is_plain),
        ]  # fmt: skip

    if unit == PAIR:
        return Stream(rescaling.sources, fields, add_constants)

    def prepare(arrays: Mapping[str, Array], **sizes: int) -> Mapping[str, Array]:
        return add_first_sums(add_constants(arrays, **sizes), is_plain=is_plain, **sizes)

    return Stream(rescaling.sources, fields, prepare, partial(take_first_sums, is_plain=is_plain))


def shared_stream(unit: int, is_plain: bool) -> Stream:
    """Return a stream that begins with the scale of all channels and has no other scales."""
    head = Field("scale", np.zeros((1, 2), int), "float32", (1, 1 / 256))
    inner = product_stream(SHARED, unit, is_plain, (head,))

    def restore(found: Mapping[str, Array], channels: int, **_: int) -> Mapping[str, Array]:
        scale = np.broadcast_to(found["scale"], (channels,))
        return {**take_first_sums(found, channels, is_plain), "scale": scale}

    return Stream(ONNX.sources, inner.fields, inner.prepare, restore)
