"""Products of four channels of int8 at once: `runtime_c/kernels/cuda/depthwise_s8.h`."""

from __future__ import annotations

from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, register
from edgec.loop.parser import parse_func

MULTIPLY = "ec_multiply4_s8"
#: Channels of one call.
CHANNELS = 4


def _meaning(offset: int) -> PrimFunc:
    x = f"(int32(x[i]) + {offset})" if offset else "int32(x[i])"
    return parse_func(f"""
func multiply4(x: arena int8[4], w: constant int8[4], acc: arena int32[4]) {{
  for i in 0..4 {{ acc[i] = acc[i] + {x} * int32(w[i]) }}
}}
""")


register(
    Microkernel(
        MULTIPLY,
        _meaning,
        sizes=("offset",),
        header="cuda/depthwise_s8.h",
        needs=frozenset({"cuda"}),
        alignment=(("x", 4), ("w", 4)),
        instructions=lambda offset: 12.0,
    )
)
