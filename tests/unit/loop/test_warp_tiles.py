"""Tiles of a product of int8: the same sums by the threads of a GPU's blocks, and no race."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import edgec.targets.cuda.kernels  # noqa: F401  registers the instruction
from edgec.errors import ContractError, ScheduleError
from edgec.loop.interpret import interpret
from edgec.loop.ir import If, PrimFunc, Sync
from edgec.loop.parser import parse_func
from edgec.loop.primitives.lookup import find_loop, with_changes
from edgec.loop.primitives.warp_tiles import MMA_NEST
from edgec.loop.printer import print_func
from edgec.loop.rewrite import ReplaceStmts, walk
from edgec.loop.schedule import Schedule, replay
from edgec.loop.verify import verify_func
from edgec.numerics.term import as_term

#: The primitive that random products try.
TILING = ("warp_tiles",)


def product(rows: int, channels: int, taps: int, inputs: int) -> PrimFunc:
    """Windows of some taps along rows, as convolutions have them."""
    return parse_func(f"""
func product(x: arena int8[{rows + taps - 1}, {inputs}], out: arena int8[{rows}, {channels}],
             w: constant int8[{channels}, {taps}, {inputs}], bias: constant int32[{channels}]) {{
  alloc acc: register int32[1]
  alloc twice: register int32[1]
  for m in 0..{rows} {{
    for c in 0..{channels} {{
      acc[0] = bias[c]
      for t in 0..{taps} {{
        for k in 0..{inputs} {{ acc[0] = acc[0] + int32(x[m + t, k]) * int32(w[c, t, k]) }}
      }}
      twice[0] = acc[0] * 2
      out[m, c] = int8(twice[0] + index(m))
    }}
  }}
}}
""")


def arrays_of(func: PrimFunc, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        b.name: rng.integers(-128, 128, b.shape).astype(b.dtype)
        for b in func.params
        if b.name != "out"
    }


def tiled(func: PrimFunc, rows: int, columns: int, chunks: int) -> Schedule:
    schedule = Schedule(func)
    schedule.warp_tiles("m", rows, columns, chunks)
    schedule.place_barriers()
    verify_func(schedule.func)
    return schedule


@pytest.mark.parametrize(
    ("rows", "tile", "taps", "inputs", "chunks", "seed"),
    [
        (5, (16, 32), 2, 3, 1, 0), (19, (16, 32), 1, 34, 2, 1), (16, (64, 8), 2, 12, 1, 1),
        (2, (64, 8), 1, 4, 2, 0),
    ],
)  # fmt: skip
def test_sums_are_the_same(
    rows: int, tile: tuple[int, int], taps: int, inputs: int, chunks: int, seed: int
) -> None:
    """Races are found by the interpreter; rows, steps and windows do not fill tiles."""
    func = product(rows, 2 * tile[1] if seed % 2 else tile[1], taps, inputs)
    schedule, arrays = tiled(func, *tile, chunks), arrays_of(func, seed)
    tables = {name: arrays[name] for name in ("w", "bias")}
    packed = {name: schedule.table(name, tables) for name in tables}
    expected = interpret(func, arrays)["out"]
    np.testing.assert_array_equal(interpret(schedule.func, {**arrays, **packed})["out"], expected)
    assert replay(func, schedule.trace_json()).func == schedule.func


def test_floats_are_tiles_of_eight_steps() -> None:
    """Each sum keeps its order here; that of the instruction is its own."""
    text = print_func(product(19, 32, 2, 3)).replace("int8[", "float32[")
    text = text.replace("int32[", "float32[").replace("int32(x", "(x").replace("int32(w", "(w")
    text = text.replace("* 2", "* 2.0f32")
    text = re.sub(r"int8\((.*)\)\n", r"twice[0]\n", text)
    func = parse_func(text)
    schedule, arrays = tiled(func, 16, 32, 2), arrays_of(func, 0)
    packed = schedule.table("w", {"w": arrays["w"]})
    assert packed.shape == (4, 2, 8, 8)
    found = interpret(schedule.func, {**arrays, "w": packed})["out"]
    np.testing.assert_array_equal(found, interpret(func, arrays)["out"])


def test_each_missing_barrier_is_found() -> None:
    func = product(16, 32, 1, 40)
    schedule, arrays = tiled(func, 16, 32, 2), arrays_of(func, 1)
    arrays["w"] = schedule.table("w", arrays)
    barriers = [stmt for stmt, _ in walk(schedule.func.body) if isinstance(stmt, Sync)]
    assert len(barriers) == 2  # before the products, and before the next part of the sum
    for barrier in barriers:
        body = ReplaceStmts([(barrier, None)]).stmt(schedule.func.body)
        with pytest.raises(ContractError, match=r"race: element|nothing wrote"):
            interpret(replace(schedule.func, body=body), arrays)


@pytest.mark.parametrize(
    ("rows", "columns", "why"),
    [(16, 16, "do not share out"), (16, 64, "do not share out"), (8, 32, "do not share out")],
)
def test_tiles_that_do_not_fit_are_refused(rows: int, columns: int, why: str) -> None:
    with pytest.raises(ScheduleError, match=why):
        Schedule(product(16, 32, 1, 8)).warp_tiles("m", rows, columns)


def test_other_nests_are_refused() -> None:
    text = """
func f(x: arena int8[16, 8], out: arena int8[16, 8]) {
  for m in 0..16 { for c in 0..8 { out[m, c] = x[m, c] } }
}
"""
    with pytest.raises(ScheduleError, match="does not start a sum"):
        Schedule(parse_func(text)).warp_tiles("m", 64, 8)


def test_what_a_warp_runs_together_is_reached_by_all_lanes() -> None:
    """A call of the matrix instruction under a condition that holds for some lanes only."""
    schedule = tiled(product(16, 32, 1, 32), 16, 32, 1)
    schedule.tensorize(
        MMA_NEST, "ec_mma_s8", {"x_step": 256, "w_step": 32, "x_offset": 0, "w_offset": 0},
        {"lane": "multiply_g*4 + multiply_q"},
    )  # fmt: skip
    verify_func(schedule.func)
    loop, _ = find_loop(schedule.func, "multiply_q")
    some = replace(loop, body=If(as_term(loop.var), as_term(3), loop.body))
    with pytest.raises(ContractError, match="ec_mma_s8 is called by threads together"):
        verify_func(with_changes(schedule.func, [(loop, some)]))
