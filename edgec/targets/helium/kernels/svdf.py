"""Filters over time (`runtime_c/kernels/helium/svdf.h`)."""

from __future__ import annotations

from functools import partial

from edgec.loop.microkernel import Microkernel, Struct, register
from edgec.targets.common.kernels.shift_down import LANES, SUFFIXES
from edgec.targets.dsp.kernels.svdf import svdf_time


def _on_vectors(dtype: str, units: int, taps: int, **_: int) -> float:
    return 40 + units * (24 + 4 * -(-taps // (4 * LANES[dtype])))


_SIZES = ("units", "taps", "zero_point")
for _dtype, _suffix in SUFFIXES.items():
    register(
        Microkernel(
            f"ec_svdf_time_{_suffix}_mve",
            partial(svdf_time, _dtype),
            sizes=_SIZES,
            struct=Struct("ec_svdf_sizes", _SIZES),
            header="helium/svdf.h",
            needs=frozenset({"mve"}),
            in_order=("out_u", 1),
            instructions=partial(_on_vectors, _dtype),
            code_bytes=150,
        )
    )
