"""Matrix instructions, and copies to their tiles: `runtime_c/kernels/cuda/mma_s8.h`, `mma_f32.h`.

A warp runs the instruction together, but its meaning is that of each lane: the sums of two rows of
x by two rows of w. The lane has what lies at its own pointers and reads what others multiply as
well; so all lanes of a warp must come to the call, and their pointers lie as the header says.
"""

from __future__ import annotations

from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, register
from edgec.loop.parser import parse_func
from edgec.loop.primitives.warp_tiles import steps_of

MMA, COPY = "ec_mma_s8", "ec_copy4_s8"
MMA_FLOATS = "ec_mma_f32"


def _mma(x_step: int, w_step: int, lane: object) -> PrimFunc:
    return _product(x_step, w_step, "int8", "int32", "int32(x[r, k]) * int32(w[s, k])")


def _mma_floats(x_step: int, w_step: int, lane: object) -> PrimFunc:
    return _product(x_step, w_step, "float32", "float32", "x[r, k] * w[s, k]")


def _product(x_step: int, w_step: int, dtype: str, total: str, term: str) -> PrimFunc:
    return parse_func(f"""
func mma(
  x: arena {dtype}[2, {x_step}], w: constant {dtype}[2, {w_step}], acc: arena {total}[2, 2]
) {{
  for k in 0..{steps_of(dtype)} {{
    for r in 0..2 {{
      for s in 0..2 {{ acc[r, s] = acc[r, s] + {term} }}
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
        MMA_FLOATS,
        _mma_floats,
        sizes=("x_step", "w_step"),
        indices=("lane",),
        header="cuda/mma_f32.h",
        needs=frozenset({"cuda"}),
        alignment=(("x", 8), ("w", 8)),
        # Three instructions, of half the rate, and what parts the six numbers.
        instructions=lambda x_step, w_step: 64.0,
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
