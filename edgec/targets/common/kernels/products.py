"""int8 products on vectors of channels: their streams, and the registration of kernels.

Their meaning equals the MVE kernels'. A stream holds units of as many channels as a kernel computes
side by side, padded with zeros; the heads of the C files describe a unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from edgec.errors import ContractError
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Struct, register
from edgec.loop.stream import Change, Field, Stream, lanes_of
from edgec.loop.values import Array
from edgec.targets.common.kernels.lines import LINES, factors_of, find_lines
from edgec.targets.common.kernels.rescaling import LINED, RESCALINGS, SUMS, Rescaling

#: The meaning of a kernel, of how it rescales and of its sizes.
Meaning = Callable[..., PrimFunc]


@dataclass(frozen=True)
class Vectors:
    """The vectors of a core, and the kernels of products on them.

    suffix, planes: the ends of kernels' names, of convolutions and of depthwise ones. lanes,
    plane_lanes: channels of a unit of either. group: inputs that one instruction multiplies by a
    channel's weights; `together` of the weights are adjacent. offset: added to int8 inputs. pixels,
    units: of a tile of a convolution. shift_sign: stored shifts are multiplied by it. halves,
    tap_pairs: two products are added in 16 bits, of both halves of a group and of two taps of a
    depthwise window: two weights that meet there must not both be -128. sums: whether convolutions
    may store their sums directly. starts: the first pixels of tiles, if not multiples. floor:
    kernels omit the minimum if the zero point is -128 and there is no other limit.
    """

    suffix: str
    needs: frozenset[str]
    lanes: int
    group: int
    together: int
    pixels: int
    units: int
    planes: str
    plane_lanes: int
    offset: int = 0
    shift_sign: int = -1
    halves: bool = False
    tap_pairs: bool = False
    sums: bool = False
    starts: Callable[..., Sequence[int]] | None = None
    lines: bool = False
    floor: bool = False
    rescalings: tuple[Rescaling, ...] = RESCALINGS

    @property
    def ways(self) -> tuple[Rescaling, ...]:
        """All ways in which its kernels make int8 of sums."""
        return (*self.rescalings, *([LINED] if self.lines else []))


def reach_of(w: Array, bias: Array) -> tuple[Array, Array]:
    """The least and the largest sum of each channel; w: [channels, ...], depthwise [height, width,
    channels].
    """
    w, channels = w.astype(np.int64), len(bias)
    by_channel = w.reshape(-1, channels).T if w.ndim == 3 else w.reshape(channels, -1)
    more = 128 * np.abs(by_channel).sum(axis=1)
    return bias.astype(np.int64) - more, bias.astype(np.int64) + more


def groups_at(kernel_h: int, run: int, group: int) -> Array:
    """Indices of a channel's weights for groups, [rows, groups, group].

    -1 where they are in the group before.
    """
    at = np.arange(kernel_h)[:, None, None] * run + lanes_of(run, group)
    at[:, -1, : -run % group] = -1
    return at


def _fields(
    vectors: Vectors, rescaling: Rescaling, channels: int, at: Array, steps: tuple[int, int, int]
) -> list[Field]:
    """Units of channels: weights, biases and tables.

    at: [chunks, weights of a chunk] of a channel, -1 for zeros. steps: from one of these, and from
    one channel, to the next in the constant; and channels of a unit.
    """
    unit = steps[2]
    lanes = np.arange(-(-channels // unit) * unit).reshape(-1, unit)
    w = at[:, None] * steps[0] + lanes[:, None, :, None] * steps[1]
    is_used = (at[:, None] >= 0) & (lanes < channels)[:, None, :, None]
    lanes = np.where(lanes < channels, lanes, -1)
    return [
        Field("w", np.where(is_used, w, -1), "int8"),
        Field("moved_bias", lanes),
        *(
            Field(
                name, lanes, dtype if dtype == "float32" else "int32",
                vectors.shift_sign if name == "shift" else 1,
            )
            for name, dtype in (LINES if rescaling is LINED else rescaling.tables).items()
        ),
    ]  # fmt: skip


def _prepare(vectors: Vectors, rescaling: Rescaling, *, is_depthwise: bool) -> Change:
    """Biases less the sums of input offsets, and lines instead of factors."""

    def prepare(arrays: Mapping[str, Array], channels: int, **sizes: int) -> Mapping[str, Array]:
        shape = (1, -1, channels) if is_depthwise else (channels, -1)
        w = arrays["w"].reshape(shape)
        found = {**arrays, "moved_bias": arrays["bias"]}
        if not is_depthwise:
            found["moved_bias"] = _moved(arrays["bias"], -vectors.offset, w)
        if rescaling is LINED:
            zero_point = sizes["zero_point"]
            limits = sizes["minimum"] - zero_point, sizes["maximum"] - zero_point
            lines = find_lines(arrays, reach_of(w, arrays["bias"]), limits)
            if lines is None:
                raise ContractError("sums of a channel are rescaled by no line")
            found |= lines
        return found

    return prepare


def _restore(vectors: Vectors, rescaling: Rescaling, *, is_depthwise: bool) -> Change:
    """The arrays before `_prepare`."""

    def restore(found: Mapping[str, Array], channels: int, **_: int) -> Mapping[str, Array]:
        bias = found["moved_bias"]
        if not is_depthwise:
            bias = _moved(bias, vectors.offset, found["w"].reshape(channels, -1))
        return {**found, "bias": bias, **(factors_of(found) if rescaling is LINED else {})}

    return restore


def _moved(bias: Array, offset: int, w: Array) -> Array:
    """Biases and an offset times all weights of a channel."""
    moved = bias.astype(np.int64) + offset * w.sum(axis=1, dtype=np.int64)
    return np.asarray(moved.astype(np.uint32).view(np.int32))


def _conv_stream(vectors: Vectors, rescaling: Rescaling) -> Stream:
    def fields(
        kernel_h: int, kernel_w: int, in_channels: int, channels: int, **_: int
    ) -> list[Field]:
        run = kernel_w * in_channels
        at = groups_at(kernel_h, run, vectors.group).reshape(-1, vectors.together)
        return _fields(vectors, rescaling, channels, at, (1, kernel_h * run, vectors.lanes))

    return Stream(
        rescaling.sources, fields, _prepare(vectors, rescaling, is_depthwise=False),
        _restore(vectors, rescaling, is_depthwise=False),
    )  # fmt: skip


def _depthwise_stream(vectors: Vectors, rescaling: Rescaling) -> Stream:
    def fields(kernel_h: int, kernel_w: int, channels: int, **_: int) -> list[Field]:
        taps = np.arange(kernel_h * kernel_w)[:, None]
        return _fields(vectors, rescaling, channels, taps, (channels, 1, vectors.plane_lanes))

    return Stream(
        rescaling.sources, fields, _prepare(vectors, rescaling, is_depthwise=True),
        _restore(vectors, rescaling, is_depthwise=True),
    )  # fmt: skip


_LIMITS = ("zero_point", "minimum", "maximum")
_CONV = ("kernel_h", "kernel_w", "in_channels", "pitch", "step", "pixels", "channels", *_LIMITS)
_DEPTHWISE = (
    "kernel_h", "kernel_w", "pitch", "tap", "row_step", "rows", "step", "pixels", "channels",
    *_LIMITS,
)  # fmt: skip


def register_convolutions(
    vectors: Vectors, header: str, meaning: Meaning, instructions: Callable[..., float],
    code_bytes: int,
) -> None:  # fmt: skip
    """Register one for each way to rescale sums; meaning: of a rescaling and sizes."""
    for rescaling in (*vectors.ways, *([SUMS] if vectors.sums else [])):
        sizes = _CONV[: -len(_LIMITS)] if rescaling is SUMS else _CONV
        register(
            Microkernel(
                rescaling.kernel("conv", vectors.suffix), partial(meaning, rescaling), sizes,
                header, vectors.needs, alignment=(("bias", 4),),
                in_order=("result_d0", vectors.pixels), starts=vectors.starts,
                stream=_conv_stream(vectors, rescaling), instructions=instructions,
                code_bytes=code_bytes,
                struct=Struct("ec_conv_sizes", sizes),
            )
        )  # fmt: skip


def register_depthwise(
    vectors: Vectors, header: str, meaning: Meaning, instructions: Callable[..., float],
    code_bytes: int,
) -> None:  # fmt: skip
    """Register a depthwise convolution for each way to rescale sums."""
    for rescaling in vectors.ways:
        register(
            Microkernel(
                rescaling.kernel("depthwise", vectors.planes), partial(meaning, rescaling),
                _DEPTHWISE, header, vectors.needs, alignment=(("bias", 4),),
                stream=_depthwise_stream(vectors, rescaling), instructions=instructions,
                code_bytes=code_bytes,
                struct=Struct("ec_depthwise_sizes", _DEPTHWISE),
            )
        )  # fmt: skip
