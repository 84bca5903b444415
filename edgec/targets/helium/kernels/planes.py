"""Depthwise 3x3 convolutions on planes (`runtime_c/kernels/helium/planes_s8.h`): meaning, streams.

A plane holds one channel: of each column of outputs what its windows read, row after row. So a
window's nine inputs lie together, and one VMLADAVA multiplies all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.loop.define import Definition
from edgec.loop.gathered import plane_element
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, Struct, register
from edgec.loop.schedule import Schedule
from edgec.loop.stream import Field, Stream, lanes_of, rows_at
from edgec.loop.values import int32
from edgec.numerics.term import TermLike
from edgec.targets.common.kernels.rescaling import TFLM
from edgec.targets.common.kernels.sums import Results
from edgec.targets.helium.kernels.matrix import table_field

Array = npt.NDArray[Any]

#: Channels that are packed, and summed, at once.
LANES = 4
#: Of outputs: smaller results are limited to it, so ties of negative sums need no care.
ZERO_POINT = -128
#: Shifts are at least this: the kernel has results in the highest bytes of words.
LEAST_SHIFT = -24
#: Bytes of a row of an image are below this: offsets of vectors have 16 bits.
MOST_ROW = (1 << 16) - 3
#: Bytes that a plane may take; there are four. Of a tile of an image, and columns of one at least:
#: the columns beside a tile are packed for it, too.
MOST_PLANE, MOST_TILE, LEAST_TILE = 2048, 1024, 4


def pack_planes(
    height: int, width: int, columns: int, channels: int, fill: int, column: TermLike
) -> PrimFunc:
    """to[c, j, h, 0, r] = x[0, h - 1, column + j + r - 1, c] for j < columns, `fill` outside of x.

    x is int8 [1, height, width, channels].
    """
    b = Definition("pack_planes")
    to = b.output("to", (LANES, columns, height + 2, 1, 3), "int8")
    x = b.input("x", (1, height, width, channels), "int8")
    b.compute(
        to,
        lambda c, j, h, w, r: plane_element(
            x, (0, h - 1, column + j + r - 1, c), height, width, fill
        ),
    )
    return b.build()


def depthwise_planes(height: int, width: int, columns: int, channels: int, **_: int) -> PrimFunc:
    """out[h, w, c] = requantized bias[c] + sum of plane[c, w, h + kh, kw] * w[c, kh, kw].

    For the first channels and columns of out [height, width, channels].
    """
    b = Definition("depthwise_planes")
    out = b.output("out", (height, width, channels), "int8")
    plane = b.input("plane", (LANES, columns, height + 2, 3), "int8")
    bias = b.constant("bias", (LANES,), "int32")
    weights = b.constant("w", (LANES, 3, 3), "int8")
    tables = TFLM.declare(b, LANES)
    acc = b.reduce(
        "acc",
        [("kh", 0, 3), ("kw", 0, 3)],
        init=lambda c, w, h: bias[c],
        update=lambda acc, c, w, h, kh, kw: (
            acc + int32(plane[c, w, h + kh, kw]) * int32(weights[c, kh, kw])
        ),
        shape=(LANES, columns, height),
        dtype="int32",
    )

    def element(c: Any, w: Any, h: Any) -> Any:
        rounded = TFLM.rounded(acc[c, w, h], tables, c)
        return Results(ZERO_POINT).stored(out, (h, w, c), rounded)

    b.compute(out, element, shape=(LANES, columns, height), at=lambda c, w, h: (h, w, c))
    schedule = Schedule(b.build())
    schedule.compute_at("acc", "out_h")
    schedule.decompose_reduction("acc", "acc_kh")
    schedule.simplify()
    return schedule.func


def fits_planes(tables: Mapping[str, Array]) -> bool:
    """Whether int32 holds all sums, and shifts are not too large; weights are [channels, 3, 3]."""
    w = np.abs(tables["w"].astype(np.int64)).reshape(len(tables["bias"]), -1)
    most = np.abs(tables["bias"].astype(np.int64)) + 128 * w.sum(axis=1)
    return bool(tables["shift"].min() >= LEAST_SHIFT and most.max() < 1 << 31)


def _fields(**_: int) -> list[Field]:
    """Four channels' constants in the order of use."""
    lanes = lanes_of(LANES, LANES)
    return [
        Field("bias", lanes),
        *(table_field(TFLM, name, lanes) for name in TFLM.tables),
        Field("w", rows_at(lanes, 9), "int8"),
    ]


def _pack_instructions(height: int, width: int, columns: int, **_: int) -> float:
    filled = LANES * columns * (height + 2) * 3 // 16
    return 80 + 1.25 * filled + min(columns + 2, width) * (14 + 7 * ((height + 1) // 2))


def _sum_instructions(height: int, columns: int, **_: int) -> float:
    return 70 + columns * (10 + 18 * height)


_SIZES = Struct("ec_planes_mve_sizes", ("height", "width", "columns", "channels", "fill"))

register(
    Microkernel(
        "ec_pack_planes_s8_mve",
        pack_planes,
        sizes=_SIZES.members,
        struct=_SIZES,
        indices=("column",),
        header="helium/planes_s8.h",
        needs=frozenset({"mve"}),
        instructions=_pack_instructions,
        code_bytes=200,
    )
)
register(
    Microkernel(
        "ec_depthwise_planes_s8_mve",
        depthwise_planes,
        sizes=_SIZES.members,
        struct=_SIZES,
        header="helium/planes_s8.h",
        needs=frozenset({"mve"}),
        alignment=(("bias", 4),),
        reads_past=(("plane", 7),),
        stream=Stream(TFLM.sources, _fields),
        instructions=_sum_instructions,
        code_bytes=300,
    )
)
