"""Dense and convolutions on the matrix instructions: a tile for each block.

    for m in 0..M {                     block_y, block_x {
      for c in 0..N {                     tile = some rows of x, fetched by all threads
        for k in 0..K {           ->      sync block
          acc += x[m, k] * w[c, k]        for kk in 0..K // 32 { call ec_mma_s8(&tile, &w, &acc) }
    } } }                                 out = f(acc)

A window is a row of an implicit matrix: threads gather it while they fetch. What is chosen between
these tiles, `edgec.targets.cuda.dots` and, where inputs come in no groups of four, plain loops is
what the model of costs says is faster: a small layer does not fill tiles. So do floats whose sums
are free, by the instruction for TF32: three products of halves are as near as one of float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from edgec.errors import ScheduleError
from edgec.loop.bound import MOST_SHARED_BYTES
from edgec.loop.primitives.warp_tiles import (
    COLUMNS,
    GROUP,
    MMA_NEST,
    ROWS,
    STEP_BYTES,
    WARPS,
    steps_of,
)
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule
from edgec.targets.common import loops
from edgec.targets.common.gathered import padding_adds_nothing
from edgec.targets.common.nests import decompose, find_param, gather_temporaries, output_loops
from edgec.targets.cuda.bind import place_whole_barriers, with_bound_statements
from edgec.targets.cuda.costs import GPUS, Gpu, Work, kernel_us
from edgec.targets.cuda.crew import launched_us
from edgec.targets.cuda.dots import PADDED, make_whole, schedule_dots
from edgec.targets.cuda.kernels.dots import AT_ONCE
from edgec.targets.cuda.kernels.mma import COPY, MMA, MMA_FLOATS
from edgec.targets.cuda.reductions import shared
from edgec.targets.cuda.rows import on_threads
from edgec.targets.rule import Nest

#: Bytes of one chunk of rows in shared memory: two blocks fit in one multiprocessor of Turing.
CHUNK_BYTES = MOST_SHARED_BYTES // 2
#: Instructions of a thread: for four bytes that it fetches, for an element that it rescales.
FETCH_INSTRUCTIONS, END_INSTRUCTIONS, MMA_INSTRUCTIONS = 14, 24, 12
THREADS = 32 * WARPS


@dataclass(frozen=True)
class Tile:
    """rows, columns: of a block. chunks: parts of the sum that lie in shared memory at once."""

    rows: int
    columns: int
    chunks: int

    def us(self, sizes: tuple[int, int, int], gpu: Gpu, at_once: int) -> float:
        """What it takes of a product of these rows, columns and steps."""
        m, n, k = sizes
        steps = -(-k // at_once)
        blocks = -(-m // self.rows) * (n // self.columns)
        products = self.rows * self.columns // (ROWS * COLUMNS * WARPS)
        own = (
            self.rows * steps * 8 // THREADS * FETCH_INSTRUCTIONS
            + products * steps * MMA_INSTRUCTIONS
            + products * 4 * END_INSTRUCTIONS
        )
        return kernel_us(Work(blocks * THREADS, float(own * blocks * THREADS), own), gpu)


def schedule_products(nest: Nest) -> list[Schedule]:
    """The schedule that is faster by the model of costs; none where sums are of another form."""
    gpu = GPUS[nest.core.gpu_architecture]
    found = schedule_tiles(nest)
    if nest.dtype == "int8":
        found += [*schedule_dots(nest), *schedule_dots(nest, shared)]
    if nest.dtype != "int8" or find_param(nest.func, "w").shape[-1] % AT_ONCE:
        plain = next(rule for rule in loops.LOOPS if rule.match(nest))
        found += on_threads(plain.apply)(nest)
    driver = nest.options.driver
    return sorted(found, key=lambda schedule: launched_us(schedule.func, gpu, driver))[:1]


def schedule_tiles(nest: Nest) -> list[Schedule]:
    """Its schedule by tiles; none where sums do not fit them."""
    schedule = Schedule(nest.func)
    try:
        inputs = make_whole(schedule)
        at = output_loops(schedule.func, "out", "out")[-1]
        gather_temporaries(schedule, at, apart=(inputs,))
        decompose(schedule, "acc")
        schedule.simplify()
        dtype = nest.dtype
        if inputs == PADDED and not padding_adds_nothing(dtype, nest.tables):
            return []
        tile = best_tile(_sizes(schedule), GPUS[nest.core.gpu_architecture], dtype)
        if tile is None:
            return []
        loop = _outermost(schedule)
        schedule = with_bound_statements(schedule, but=loop)
        schedule.warp_tiles(loop, tile.rows, tile.columns, tile.chunks)
        place_whole_barriers(schedule)
        _call_kernels(schedule, dtype)
    except ScheduleError:
        return []
    return [schedule]


def best_tile(sizes: tuple[int, int, int], gpu: Gpu, dtype: str) -> Tile | None:
    """The fastest tile of a product of these rows, columns and steps; None if none fits."""
    at_once = steps_of(dtype)
    tiles = _tiles(sizes, STEP_BYTES // at_once)
    return min(tiles, key=lambda tile: tile.us(sizes, gpu, at_once), default=None)


def _tiles(sizes: tuple[int, int, int], step_bytes: int) -> Iterator[Tile]:
    _, n, k = sizes
    for width in (1, 2, 4):
        for height in (1, 2):
            for rows, columns in (
                (ROWS * height, COLUMNS * width * WARPS), (ROWS * height * WARPS, COLUMNS * width),
            ):  # fmt: skip
                if n % columns == 0 and (columns % (COLUMNS * WARPS) == 0) == (rows < ROWS * WARPS):
                    yield Tile(rows, columns, -(-rows * k * step_bytes // CHUNK_BYTES))


def _outermost(schedule: Schedule) -> str:
    """The outermost loop of the nest that stores the output: the last statement of all."""
    names = output_loops(schedule.func, "out", "out")
    return next(name for name in names if name in loops_of(schedule.func.body))


def _sizes(schedule: Schedule) -> tuple[int, int, int]:
    """Rows, columns and steps of the product."""
    out, weights = (find_param(schedule.func, name) for name in ("out", "w"))
    columns = weights.shape[0]
    return out.elements // columns, columns, prod(weights.shape[1:])


def _call_kernels(schedule: Schedule, dtype: str) -> None:
    """Put calls in the place of what the instruction means, and of copies of four bytes."""
    names, steps = loops_of(schedule.func.body), steps_of(dtype)
    schedule.tensorize(
        MMA_NEST,
        MMA if dtype == "int8" else MMA_FLOATS,
        {"x_step": GROUP * steps, "w_step": steps},
        {"lane": "multiply_g*4 + multiply_q"},
    )
    if "tile_copy" in names:
        schedule.tensorize("tile_copy", COPY, {})
