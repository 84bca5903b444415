"""Products of two matrices of floats, or of int8 that stay int32: rows share the second's loads.

Where the caches do not hold the second matrix, all rows are multiplied by a block of its columns
before the next block is read, by parts of the sums where its rows are pages of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.errors import ScheduleError
from edgec.loop.ir import Buffer, Load, PrimFunc, Store
from edgec.loop.rewrite import blocks_of, loops_of, subexpressions
from edgec.loop.schedule import Schedule
from edgec.targets.common.nests import find_param, largest_divisor, output_loops
from edgec.targets.common.vector_tiles import PACKED, Blocks, Tile, best_tile, in_order, to_vectors
from edgec.targets.rule import Nest

#: Products for each column that pay for a copy of its weights, if a row of these is a page or more.
LEAST_PRODUCTS, PAGE_BYTES = 1 << 18, 4096
#: Products of a sum that are added at once, at most and at least, and rows that share a copy.
MOST_PART, LEAST_PART, MOST_ROWS = 512, 64, 256
#: Products of a sum, where a run decides that.
MATRIX_STEPS = 64


def schedule_matrices(nest: Nest) -> Schedule:
    """Several rows of the first matrix share the loads of the second."""
    out, loops = find_param(nest.func, "out"), _loops(nest.func)
    known = loops_of(nest.func.body)
    rows, steps = (known[name].extent or 0 for name in (loops[0], loops[-1]))
    tile = best_tile(nest, out.shape[-1], (out.shape[-2], 1), steps or MATRIX_STEPS)
    second = second_factor(nest.func).buffer
    is_packed = second.scope == "constant" and tile.blocks.tail == "exact"
    row_bytes = out.shape[-1] * np.dtype(second.dtype).itemsize
    if not is_packed and row_bytes >= PAGE_BYTES and _pays_copies(rows, steps):
        return _in_parts(nest, tile, loops, steps)
    return _in_one(nest, tile, loops)


def _loops(func: PrimFunc) -> list[str]:
    """The loops over rows and columns, over the rows and columns of sums, and over products."""
    found = [*output_loops(func, "out", "out")[-2:], *_loops_of_block(func)[-3:]]
    if len(found) < 5 or not {*found} <= loops_of(func.body).keys():
        raise ScheduleError("there are no rows of two matrices")
    return found


def _in_one(nest: Nest, tile: Tile, loops: Sequence[str]) -> Schedule:
    """Tile by tile, each with all its products."""
    row, column, own_row, own_column, step = loops
    schedule, blocks = Schedule(nest.func), tile.blocks
    second = second_factor(nest.func).buffer
    row, each = schedule.split(row, tile.rows)
    column, lane = schedule.split(column, blocks.together, blocks.tail)
    order = in_order(second, row, column)
    schedule.reorder(*order, each, lane)
    schedule.compute_at("acc", order[-1], scope="register")
    schedule.decompose_reduction("acc", own_row)
    schedule.reorder(step, own_row, own_column)
    _pack(schedule, second, blocks)
    to_vectors(schedule, blocks.lanes, own_column, f"{own_column}_init", lane)
    for loop in (own_row, f"{own_row}_init", each):
        schedule.unroll(loop)
    schedule.simplify()
    return schedule


def _pack(schedule: Schedule, second: Buffer, blocks: Blocks) -> None:
    """Store constants column by column of a block, or so that a block may begin at any column."""
    if second.scope == "constant":
        schedule.transform_layout(second.name, blocks.packing(PACKED[2]))


def _pays_copies(rows: int, steps: int) -> bool:
    """Whether enough rows share copied parts of a second matrix whose rows are pages or more.

    Measured on an EPYC with matrices of 2 to 16 MB: 0.74 to 0.96 of the time for them, 1.02 to 1.04
    where rows are less than a page. Packed constants are read in order: parts of them took 0.98 to
    1.07 of the time, since their sums go through memory.
    """
    return rows * steps >= LEAST_PRODUCTS and _part(steps) >= LEAST_PART


def _part(steps: int) -> int:
    """The steps of a part of a sum."""
    return largest_divisor(steps, min(MOST_PART, steps // 2))


def _in_parts(nest: Nest, tile: Tile, loops: Sequence[str], steps: int) -> Schedule:
    """All rows of a block by a part of their products, then by the next part.

        for columns, rows {                          for columns, blocks of rows {
          sums = 0                                     sums[rows] = 0
          for k {                                      for parts of k {
            sums += x[rows, k] * y[k, columns]           copy = y[part, columns]
          }                                      ->      for rows, k in part {
          out[rows, columns] = sums                        sums[rows] += x[rows, k] * copy[k]
        }                                              } }
                                                       out[rows, columns] = sums
                                                     }

    The copy stays in the nearest caches for all rows. Each sum adds its products in the same order.
    """
    row, column, own_row, own_column, step = loops
    second, blocks = second_factor(nest.func).buffer, tile.blocks
    out = find_param(nest.func, "out")
    schedule = Schedule(nest.func)
    most = MOST_ROWS // tile.rows
    row, inner = schedule.split(row, tile.rows * largest_divisor(out.shape[-2] // tile.rows, most))
    column, lane = schedule.split(column, blocks.together, blocks.tail)
    schedule.reorder(column, row, inner, lane)
    schedule.compute_at("acc", row, scope="register")
    schedule.decompose_reduction("acc", own_row)
    _pack(schedule, second, blocks)
    part, step = schedule.split(step, _part(steps), "exact")
    rows, each = schedule.split(own_row, tile.rows, "exact")
    schedule.reorder(part, rows, step, each, own_column)
    copy = schedule.cache_read(second.name, part)
    sums = schedule.cache_write("acc", rows)
    axis = len(out.shape) - 1
    lanes = [f"{name}_d{axis}" for name in (f"{sums}_start", sums)]
    copied = f"{copy}_d{len(second.shape) - 1}"
    to_vectors(schedule, blocks.lanes, own_column, f"{own_column}_init", lane, *lanes, copied)
    if tile.rows > 1:
        for loop in (each, f"{sums}_start_d{axis - 1}", f"{sums}_d{axis - 1}"):
            schedule.unroll(loop)
    schedule.simplify()
    return schedule


def _loops_of_block(func: PrimFunc) -> list[str]:
    """The loops that the axes of the sums stand for, each by its name; empty where it is none."""
    bindings = [axis.binding for axis in blocks_of(func.body)["acc"].axes]
    return [str(term) if len(term.variables()) == 1 else "" for term in bindings]


def second_factor(func: PrimFunc, block: str = "acc") -> Load:
    """The load of the second factor of each product that a block adds."""
    store = blocks_of(func.body)[block].body
    assert isinstance(store, Store)
    *_, second = (part for part in subexpressions(store.value) if isinstance(part, Load))
    return second
