"""Depthwise 3x3 convolutions (`runtime_c/kernels/dsp/depthwise_s8.h`): meaning and streams.

Those with other ways to rescale are in files of their own, also to int16.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.loop.define import Definition
from edgec.loop.gathered import COLUMN, plane_element
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Struct, register
from edgec.loop.schedule import Schedule
from edgec.loop.stream import Field, Stream
from edgec.loop.values import Value, int16, int32
from edgec.numerics.term import TermLike
from edgec.targets.common.kernels.rescaling import ONNX, ONNX_TO_16, TFLM, Rescaling
from edgec.targets.common.kernels.sums import Results

Array = npt.NDArray[Any]

#: Sums are given as 256 times themselves; of the shift, the bits of a word leave so much.
MOST_SUM, MOST_SHIFT = 1 << 23, 16
#: Of the outputs, with gemmlowp's rounding: smaller results are limited to it.
ZERO_POINT = -128
#: Sums are this many times the accumulators.
_TIMES = 256


def pack_columns(first: TermLike, column: TermLike, **sizes: int) -> PrimFunc:
    """to[w, k, r] = x[first + 2 * k + r - top, column + w - left, 0], `fill` outside of x.

    x is int8 [1, height, width, step].
    """
    return _packing("pack_columns", (first, column), 1, 0, **sizes)


def pack_columns_4(first: TermLike, column: TermLike, plane: int, **sizes: int) -> PrimFunc:
    """to[c, w, k, r] is the same of channel c; there are `plane` int16 for each."""
    return _packing("pack_columns_4", (first, column), 4, plane, **sizes)


def _packing(
    name: str,
    corner: tuple[TermLike, TermLike],
    channels: int,
    plane: int,
    pairs: int,
    columns: int,
    **image: int,
) -> PrimFunc:
    """Columns of pairs of rows, from a corner of x on; image: x's sizes, its place and `fill`."""
    height, width = image["height"], image["width"]
    first, column = corner
    b = Definition(name)
    shape: tuple[int, ...] = (columns, COLUMN // 2, 2)
    if channels > 1:
        shape = (channels, plane // COLUMN, COLUMN // 2, 2)
    to = b.output("to", shape, "int16")
    x = b.input("x", (1, height, width, image["step"]), "int8")

    def element(c: Any, w: Any, k: Any, r: Any) -> Value:
        at = (0, 2 * k + r + first - image["top"], w + column - image["left"], c)
        return int16(plane_element(x, at, height, width, image["fill"]))

    if channels == 1:
        b.compute(
            to,
            lambda w, k, r: element(0, w, k, r),
            shape=(columns, pairs, 2),
            at=lambda w, k, r: (w, k, r),
        )
    else:
        b.compute(
            to, element, shape=(channels, columns, pairs, 2), at=lambda c, w, k, r: (c, w, k, r)
        )
    return b.build()


def depthwise_3x3(
    rescaling: Rescaling,
    height: int,
    width: int,
    out_width: int,
    channels: int,
    zero_point: int = 0,
    minimum: int = -128,
    maximum: int = 127,
) -> PrimFunc:
    """out[h, w, 0] = requantized bias + sum over kh, kw of plane[w + kw, h + kh] * w[kh, kw].

    zero_point is added before the result is limited.
    """
    b = Definition("depthwise_3x3")
    out = b.output("out", (height, out_width, channels), rescaling.result)
    plane = b.input("plane", (width + 2, COLUMN), "int16")
    bias = b.constant("bias", (1,), "int32")
    weights = b.constant("w", (3, 3), "int8")
    tables = rescaling.declare(b, 1)
    acc = b.reduce(
        "acc",
        [("kh", 0, 3), ("kw", 0, 3)],
        init=lambda h, w: bias[0],
        update=lambda acc, h, w, kh, kw: (
            acc + int32(plane[w + kw, h + kh]) * int32(weights[kh, kw])
        ),
        shape=(height, width),
        dtype="int32",
    )

    def element(h: Any, w: Any) -> Any:
        rounded = rescaling.rounded(acc[h, w], tables, 0)
        return Results(zero_point, (minimum, maximum)).stored(out, (h, w, 0), rounded)

    b.compute(out, element, shape=(height, width), at=lambda h, w: (h, w, 0))
    schedule = Schedule(b.build())
    schedule.compute_at("acc", "out_w")
    schedule.decompose_reduction("acc", "acc_kh")
    schedule.simplify()
    return schedule.func


def fits_stream(tables: Mapping[str, Array], rescaling: Rescaling) -> bool:
    """Whether all channels of these tables can be given by streams, exactly; scales are checked."""
    w = np.abs(tables["w"].astype(np.int64)).reshape(len(tables["bias"]), -1)
    most = np.abs(tables["bias"].astype(np.int64)) + 128 * w.sum(axis=1)
    if most.max() >= MOST_SUM:
        return False
    if rescaling is not TFLM:
        return True
    shift = tables["shift"]
    return bool(tables["multiplier"].min() >= 0 and shift.max() < 0 and shift.min() >= -MOST_SHIFT)


def _fields(rescaling: Rescaling, **_: int) -> list[Field]:
    """A channel's constants in the order of use; see the headers."""
    one, columns = np.zeros((1, 1), int), np.arange(9).reshape(3, 3)[[1, 0, 2, 1]].T[None]
    w = Field("w", columns, "int8")
    if rescaling is not TFLM:
        return [w, Field("bias", one, times=_TIMES), Field("scale", one, "float32", 1 / _TIMES)]
    return [w, Field("bias_and_shift", one), Field("multiplier", one)]


def _prepare(arrays: Mapping[str, Array], **_: int) -> Mapping[str, Array]:
    if "shift" not in arrays:
        return arrays
    return {**arrays, "bias_and_shift": arrays["bias"].astype(np.int64) * _TIMES - arrays["shift"]}


def _restore(found: Mapping[str, Array], **_: int) -> Mapping[str, Array]:
    if "bias_and_shift" not in found:
        return found
    both = found["bias_and_shift"]
    return {**found, "bias": both // _TIMES, "shift": -(both % _TIMES)}


#: Instructions for two rows of two columns, and for two rows of one column.
_COSTS: Mapping[Rescaling, tuple[int, int]] = {TFLM: (52, 32), ONNX: (66, 39), ONNX_TO_16: (74, 43)}


def _instructions_3x3(rescaling: Rescaling, height: int, width: int, **_: int) -> float:
    pairs = (height + 1) // 2
    four, two = _COSTS[rescaling]
    return 80 + (width // 2) * (25 + four * pairs) + width % 2 * (20 + two * pairs)


def _pack_instructions(pairs: int, columns: int, **_: int) -> float:
    return 100 + columns * (20 + 5.5 * pairs)


def _pack_4_instructions(pairs: int, columns: int, **_: int) -> float:
    return 110 + columns * (33 + 17 * pairs)


_PACKING = ("height", "width", "step", "top", "left", "pairs", "columns", "fill")
_PACKING_TYPES = {
    **dict.fromkeys(("height", "width", "step", "columns", "plane"), "uint16"),
    **dict.fromkeys(("top", "left", "pairs"), "uint8"), "fill": "int8",
}  # fmt: skip
_PACKING_STRUCT = Struct("ec_pack_columns_sizes", (*_PACKING_TYPES,), (*_PACKING_TYPES.items(),))
for _name, _meaning, _sizes, _instructions, _code_bytes in (
    ("ec_pack_columns_s8_dsp", pack_columns, _PACKING, _pack_instructions, 300),
    ("ec_pack_columns_4_s8_dsp", pack_columns_4, (*_PACKING, "plane"), _pack_4_instructions, 350),
):
    register(
        Microkernel(
            _name,
            _meaning,
            sizes=_sizes,
            indices=("first", "column"),
            header="dsp/depthwise_s8.h",
            needs=frozenset({"dsp"}),
            alignment=(("to", 4),),
            instructions=_instructions,
            code_bytes=_code_bytes,
            struct=_PACKING_STRUCT.of(_sizes),
        )
    )
#: What the meaning of each takes besides the plane, and what it always takes.
_ENDS: Mapping[Rescaling, tuple[tuple[str, ...], dict[str, int]]] = {
    TFLM: ((), {"zero_point": ZERO_POINT}),
    ONNX: (("zero_point",), {}),
    ONNX_TO_16: (("minimum", "maximum"), {}),
}
for _rescaling, (_own, _always) in _ENDS.items():
    _numbers = ("height", "width", "out_width", "channels", *_own)
    register(
        Microkernel(
            _rescaling.kernel("depthwise_3x3"),
            partial(depthwise_3x3, _rescaling, **_always),
            sizes=_numbers,
            header=f"dsp/depthwise_{_rescaling.file}",
            needs=frozenset({"dsp"}) | _rescaling.needs,
            alignment=(("plane", 4), ("bias", 4)),
            stream=Stream(_rescaling.sources, partial(_fields, _rescaling), _prepare, _restore),
            instructions=partial(_instructions_3x3, _rescaling),
            code_bytes=700,
            struct=Struct("ec_depthwise_3x3_s16_sizes", _numbers) if len(_own) > 1 else None,
        )
    )
