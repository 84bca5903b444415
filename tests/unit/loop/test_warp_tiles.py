"""Tiles of a product of int8: the same sums by the threads of a GPU's blocks, and no race."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import edgec.targets.cuda.kernels  # noqa: F401  registers the instruction
from edgec.errors import ContractError, ScheduleError
from edgec.loop.interpret import interpret
from edgec.loop.ir import For, If, PrimFunc, Sync
from edgec.loop.parser import parse_func
from edgec.loop.primitives.lookup import find_loop, with_changes
from edgec.loop.primitives.matrix_product import sizes_of
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


def tiled(func: PrimFunc, rows: int, columns: int, chunks: int, loop: str = "m") -> Schedule:
    schedule = Schedule(func)
    schedule.warp_tiles(loop, rows, columns, chunks)
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
    """Each sum keeps its order here; the instruction has an order of its own."""
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


def two_tensors(batch: int, rows: int, columns: int, steps: int, turned: bool) -> PrimFunc:
    """Products of two tensors as attention has them, with something added to both factors."""
    shape, place = ("columns", "steps"), "b, c, k"
    shape, place = (shape[::-1], "b, k, c") if turned else (shape, place)
    extents = ", ".join(str({"columns": columns, "steps": steps}[name]) for name in shape)
    return parse_func(f"""
func products(x: arena int8[{batch}, {rows}, {steps}], x2: arena int8[{batch}, {extents}],
              out: arena int8[{batch}, {rows}, {columns}]) {{
  alloc acc: register int32[1]
  alloc twice: register int32[1]
  for b in 0..{batch} {{
    for m in 0..{rows} {{
      for c in 0..{columns} {{
        acc[0] = 5
        for k in 0..{steps} {{
          acc[0] = acc[0] + (int32(x[b, m, k]) + 128) * (int32(x2[{place}]) + -127)
        }}
        twice[0] = acc[0] * 2
        out[b, m, c] = int8(twice[0] + index(b + m))
      }}
    }}
  }}
}}
""")


@pytest.mark.parametrize(
    ("sizes", "turned", "tile", "chunks"),
    [
        ((2, 16, 32, 3), False, (16, 32), 1), ((1, 19, 64, 34), True, (16, 32), 2),
        ((2, 64, 8, 12), False, (64, 8), 1), ((1, 5, 8, 40), True, (64, 8), 2),
    ],
)  # fmt: skip
def test_sums_of_two_tensors_are_the_same(
    sizes: tuple[int, int, int, int], turned: bool, tile: tuple[int, int], chunks: int
) -> None:
    """Rows and steps that fill up a tile add nothing, whatever is added to factors."""
    func = two_tensors(*sizes, turned)
    schedule = tiled(func, *tile, chunks, loop="b" if sizes[0] > 1 else "m")
    kinds = {stmt.kind for stmt, _ in walk(schedule.func.body) if isinstance(stmt, For)}
    assert ("block_z" in kinds) == (sizes[0] > 1)
    arrays = arrays_of(func, 2)
    expected = interpret(func, arrays)["out"]
    np.testing.assert_array_equal(interpret(schedule.func, arrays)["out"], expected)


def test_sizes_of_two_tensors() -> None:
    found = sizes_of(two_tensors(2, 19, 33, 34, True), "b")
    assert (found.batch, found.rows, found.columns, found.steps) == (2, 19, 33, 34)
    assert (found.buffers, found.offsets, found.strides) == (("x", "x2"), (128, -127), (1, 33))


def test_floats_that_are_moved_are_refused() -> None:
    """What is added to a float is no part of the instruction."""
    text = print_func(two_tensors(2, 16, 8, 8, False)).replace("int8[", "float32[")
    text = text.replace("int32[", "float32[").replace("int32(x", "(x").replace("* 2", "* 2.0f32")
    text = text.replace("+ 128", "+ 0.5f32").replace("+ -127", "+ 0.5f32")
    text = text.replace("acc[0] = 5", "acc[0] = 0.0f32")
    text = re.sub(r"int8\((.*)\)\n", r"twice[0]\n", text)
    with pytest.raises(ScheduleError, match="no products of rows by columns"):
        Schedule(parse_func(text)).warp_tiles("b", 64, 8)


def test_more_products_than_blocks_are_refused() -> None:
    with pytest.raises(ScheduleError, match="more products than a GPU has blocks"):
        Schedule(two_tensors(65_536, 64, 8, 1, False)).warp_tiles("b", 64, 8)


def test_rows_that_do_not_fill_tiles_of_many_products_are_refused() -> None:
    with pytest.raises(ScheduleError, match="16 do not share out 20 rows"):
        Schedule(two_tensors(2, 20, 32, 8, False)).warp_tiles("b", 16, 32)


def test_floats_of_float16_lie_so_in_tiles() -> None:
    """Numbers that float16 holds: products are exact, and sums keep their order here."""
    func = parse_func("""
func products(x: arena float32[2, 16, 20], x2: arena float32[2, 20, 32],
              out: arena float32[2, 16, 32]) {
  alloc acc: register float32[1]
  for b in 0..2 { for m in 0..16 { for c in 0..32 {
    acc[0] = 0.5f32
    for k in 0..20 { acc[0] = acc[0] + x[b, m, k] * x2[b, k, c] }
    out[b, m, c] = acc[0]
  } } }
}
""")
    schedule = Schedule(func)
    schedule.warp_tiles("b", 16, 32, 2, halves=True)
    schedule.place_barriers()
    verify_func(schedule.func)
    tiles = {b.name: (b.shape, b.dtype) for b in schedule.func.allocs if b.scope == "shared"}
    assert tiles == {"fetched": ((2, 8, 16), "uint16"), "fetched_w": ((4, 8, 16), "uint16")}
    rng = np.random.default_rng(7)
    arrays = {
        b.name: rng.normal(size=b.shape).astype(np.float16).astype(np.float32)
        for b in func.params[:2]
    }
    expected = interpret(func, arrays)["out"]
    np.testing.assert_array_equal(interpret(schedule.func, arrays)["out"], expected)


def test_each_missing_barrier_between_fetched_columns_is_found() -> None:
    func = two_tensors(2, 16, 32, 40, False)
    schedule, arrays = tiled(func, 16, 32, 2, loop="b"), arrays_of(func, 1)
    assert count_found_barriers(schedule.func, arrays) == 2


def test_each_missing_barrier_is_found() -> None:
    func = product(16, 32, 1, 40)
    schedule, arrays = tiled(func, 16, 32, 2), arrays_of(func, 1)
    arrays["w"] = schedule.table("w", arrays)
    # Before the products, and before the next part of the sum.
    assert count_found_barriers(schedule.func, arrays) == 2


def count_found_barriers(func: PrimFunc, arrays: dict[str, np.ndarray]) -> int:
    """How many barriers there are; the interpreter finds out where one of them is missing."""
    barriers = [stmt for stmt, _ in walk(func.body) if isinstance(stmt, Sync)]
    for barrier in barriers:
        body = ReplaceStmts([(barrier, None)]).stmt(func.body)
        with pytest.raises(ContractError, match=r"race: element|nothing wrote"):
            interpret(replace(func, body=body), arrays)
    return len(barriers)


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
