"""Sums of products of four int8: `runtime_c/kernels/cuda/dot_s8.h`."""

from __future__ import annotations

from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, register
from edgec.loop.parser import parse_func

DOT = "ec_dot4_s8"
#: Inputs that one instruction multiplies.
AT_ONCE = 4


def _meaning(channels: int) -> PrimFunc:
    return parse_func(f"""
func dot4(x: arena int8[4], w: constant int8[{channels}, 4], acc: arena int32[{channels}]) {{
  for k in 0..4 {{
    for c in 0..{channels} {{ acc[c] = acc[c] + int32(x[k]) * int32(w[c, k]) }}
  }}
}}
""")


register(
    Microkernel(
        DOT,
        _meaning,
        sizes=("channels",),
        header="cuda/dot_s8.h",
        needs=frozenset({"cuda"}),
        alignment=(("x", 4), ("w", 4)),
        instructions=lambda channels: 3.0 + 2.0 * channels,
    )
)
