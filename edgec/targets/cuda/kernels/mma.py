"""Matrix instructions, and copies to their tiles: `runtime_c/kernels/cuda/mma.h`, `mma_f32.h`.

A warp runs the instruction together, but its meaning is per lane: the sums of two rows of x by two
rows of w. A lane holds the data at its own pointers and uses other lanes' data too, so all lanes of
a warp must make the call, with pointers as the header requires.
"""

from __future__ import annotations

from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, register
from edgec.loop.parser import parse_func
from edgec.loop.primitives.warp_tiles import steps_of

COPY, COPY_HALVES = "ec_copy4_s8", "ec_copy4_f16"
MMA, MMA_HALVES, MMA_FLOATS = "ec_mma_s8", "ec_mma_f16", "ec_mma_f32"
#: For each tile dtype: the dtype of sums, and of the number that an element stands for.
_FORMS = {
    MMA: ("int8", "int32", "int32({0})"),
    MMA_HALVES: ("uint16", "float32", "widen_f32(uint32({0}), 16, 10, 15, 0)"),
    MMA_FLOATS: ("float32", "float32", "{0}"),
}


def _bytes(x_step: int, w_step: int, x_offset: int, w_offset: int, lane: object) -> PrimFunc:
    return _product(MMA, x_step, w_step, x_offset, w_offset)


def _halves(x_step: int, w_step: int, lane: object) -> PrimFunc:
    return _product(MMA_HALVES, x_step, w_step)


def _floats(x_step: int, w_step: int, lane: object) -> PrimFunc:
    return _product(MMA_FLOATS, x_step, w_step)


def _product(
    kernel: str, x_step: int, w_step: int, x_offset: int = 0, w_offset: int = 0
) -> PrimFunc:
    dtype, total, form = _FORMS[kernel]
    x, w = (
        f"({form.format(element)} + {offset})" if offset else form.format(element)
        for element, offset in (("x[r, k]", x_offset), ("w[s, k]", w_offset))
    )
    return parse_func(f"""
func mma(
  x: arena {dtype}[2, {x_step}], w: constant {dtype}[2, {w_step}], acc: arena {total}[2, 2]
) {{
  for k in 0..{steps_of(dtype)} {{
    for r in 0..2 {{
      for s in 0..2 {{ acc[r, s] = acc[r, s] + {x} * {w} }}
    }}
  }}
}}
""")


def _copy() -> PrimFunc:
    return parse_func("""
func copy(x: arena int8[4], out: arena int8[4]) { for i in 0..4 { out[i] = x[i] } }
""")


def _copy_halves(x_step: int) -> PrimFunc:
    return parse_func(f"""
func copy(x: arena float32[{3 * x_step + 1}], out: arena uint16[4]) {{
  for i in 0..4 {{ out[i] = uint16(narrow_f32(x[i*{x_step}], 16, 10, 15, 0, 0)) }}
}}
""")


_STEPS = ("x_step", "w_step")
# A multiprocessor of Orin completes an instruction in about four cycles, shared by its lanes.
# Offsets take two more; floats take three instructions of half the rate, and the splitting of six
# numbers.
register(
    Microkernel(
        MMA,
        _bytes,
        sizes=(*_STEPS, "x_offset", "w_offset"),
        indices=("lane",),
        header="cuda/mma.h",
        needs=frozenset({"cuda"}),
        alignment=(("x", 8), ("w", 4)),
        instructions=lambda x_step, w_step, x_offset, w_offset: (
            12.0 + 12.0 * bool(x_offset) + 12.0 * bool(w_offset)
        ),
        together="warp",
    )
)
register(
    Microkernel(
        MMA_HALVES,
        _halves,
        sizes=_STEPS,
        indices=("lane",),
        header="cuda/mma.h",
        needs=frozenset({"cuda"}),
        alignment=(("x", 8), ("w", 4)),
        instructions=lambda x_step, w_step: 12.0,
        together="warp",
    )
)
register(
    Microkernel(
        MMA_FLOATS,
        _floats,
        sizes=_STEPS,
        indices=("lane",),
        header="cuda/mma_f32.h",
        needs=frozenset({"cuda"}),
        alignment=(("x", 8), ("w", 8)),
        instructions=lambda x_step, w_step: 64.0,
        together="warp",
    )
)
register(
    Microkernel(
        COPY,
        _copy,
        header="cuda/mma.h",
        needs=frozenset({"cuda"}),
        alignment=(("x", 4), ("out", 4)),
        instructions=lambda: 2.0,
    )
)
register(
    Microkernel(
        COPY_HALVES,
        _copy_halves,
        sizes=("x_step",),
        header="cuda/mma.h",
        needs=frozenset({"cuda"}),
        alignment=(("x", 4), ("out", 8)),
        instructions=lambda x_step: 12.0,
    )
)
