"""Filters over time (`runtime_c/kernels/dsp/svdf.h`): what kernels of their dot products mean."""

from __future__ import annotations

from functools import partial

import numpy as np

from edgec.loop.define import Definition
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, register
from edgec.loop.schedule import Schedule
from edgec.loop.stream import Field, Stream, rows_at
from edgec.loop.values import clamp, int8, int32, intrinsic
from edgec.targets.common.kernels.shift_down import LANES, SUFFIXES


def svdf_time(dtype: str, units: int, taps: int, zero_point: int) -> PrimFunc:
    """out[u] = bias[u] + the sum of x[u * taps + k] * w[u * taps + k] over k, rescaled, limited."""
    b = Definition("svdf_time")
    out = b.output("out", (units,), "int8")
    x = b.input("x", (units * taps,), dtype)
    bias = b.constant("bias", (units,), "int32")
    w = b.constant("w", (units * taps,), dtype)
    multiplier = b.constant("multiplier", (1,), "int32")
    shift = b.constant("shift", (1,), "int8")
    acc = b.reduce(
        "acc",
        [("k", 0, taps)],
        init=lambda u: bias[u],
        update=lambda acc, u, k: acc + int32(x[u * taps + k]) * int32(w[u * taps + k]),
        shape=(units,),
        dtype="int32",
    )

    def element(u: int) -> object:
        rounded = intrinsic("requantize_tflm_right", acc[u], multiplier[0], int32(shift[0]))
        return int8(clamp(rounded + zero_point, -128, 127))

    b.compute(out, element)  # type: ignore[arg-type]
    schedule = Schedule(b.build())
    schedule.compute_at("acc", "out_u")
    schedule.decompose_reduction("acc", "acc_k")
    schedule.simplify()
    return schedule.func


def _fields(dtype: str, units: int, taps: int, **_: int) -> list[Field]:
    each = np.arange(units)
    return [Field("bias", each[:, None]), Field("w", rows_at(each, taps), dtype)]


def _on_dsp(dtype: str, units: int, taps: int, **_: int) -> float:
    return 40 + units * (14 + (10 if dtype == "int8" else 5) * (taps // LANES[dtype]))


for _dtype, _suffix in SUFFIXES.items():
    register(
        Microkernel(
            f"ec_svdf_time_{_suffix}_dsp",
            partial(svdf_time, _dtype),
            sizes=("units", "taps", "zero_point"),
            header="dsp/svdf.h",
            needs=frozenset({"dsp"}),
            alignment=(("bias", 4),),
            in_order=("out_u", 1),
            stream=Stream(("bias", "w"), partial(_fields, _dtype)),
            instructions=partial(_on_dsp, _dtype),
            code_bytes=130,
        )
    )
