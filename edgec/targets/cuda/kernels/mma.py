"""The matrix instruction of int8, and copies to its tiles: `runtime_c/kernels/cuda/mma_s8.h`.

A warp runs the instruction together, but its meaning is that of each lane: the sums of two rows of
x by two rows of w. The lane has what lies at its own pointers and reads what others multiply as
well; so all lanes of a warp must come to the call, and their pointers lie as the header says.
"""

from __future__ import annotations

from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, register
from edgec.loop.parser import parse_func

MMA, COPY = "ec_mma_s8", "ec_copy4_s8"
#: Steps of a sum that one instruction adds.
STEPS = 32


def _mma(x_step: int, w_step: int, lane: object) -> PrimFunc:
    return parse_func(f"""
func mma(x: arena int8[2, {x_step}], w: constant int8[2, {w_step}], acc: arena int32[2, 2]) {{
  for k in 0..{STEPS} {{
    for r in 0..2 {{
      for s in 0..2 {{ acc[r, s] = acc[r, s] + int32(x[r, k]) * int32(w[s, k]) }}
    }}
  }}
}}
""")


def _copy() -> PrimFunc:
    return parse_func("""
func copy(x: arena int8[4], out: arena int8[4]) { for i in 0..4 { out[i] = x[i] } }
""")


register(
    Microkernel(
        MMA,
        _mma,
        sizes=("x_step", "w_step"),
        indices=("lane",),
        header="cuda/mma_s8.h",
        needs=frozenset({"cuda"}),
        alignment=(("x", 8), ("w", 4)),
        # A multiprocessor of Orin ends one in four cycles or so, of which a lane has its part.
        instructions=lambda x_step, w_step: 12.0,
        together="warp",
    )
)
register(
    Microkernel(
        COPY,
        _copy,
        header="cuda/mma_s8.h",
        needs=frozenset({"cuda"}),
        alignment=(("x", 4), ("out", 4)),
        instructions=lambda: 2.0,
    )
)
