"""Dense layers, convolutions and attention on the matrix instructions: a tile for each block.

    for m in 0..M {                     block_y, block_x {
      for c in 0..N {                     tile = some rows of x, fetched by all threads
        for k in 0..K {           ->      sync block
          acc += x[m, k] * w[c, k]        for kk in 0..K // 32 { call ec_mma_s8(&tile, &w, &acc) }
    } } }                                 out = f(acc)

A window is a row of an implicit matrix: threads gather it while they fetch; for two tensors, as in
attention, they fetch columns too. The cost model chooses between these tiles,
`edgec.targets.cuda.dots` and, if inputs do not come in groups of four, plain loops: a small layer
does not fill tiles. Floats with free order of sums take tiles too: with the float16 instruction if
both factors are float16, whose products are exact; else with TF32, where three products of parts
are as accurate as one of float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from edgec.errors import ScheduleError
from edgec.loop.bound import MOST_SHARED_BYTES
from edgec.loop.primitives.matrix_product import Sizes, sizes_of
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
from edgec.targets.common.sums import Kind
from edgec.targets.cuda.bind import place_whole_barriers, with_bound_statements
from edgec.targets.cuda.costs import GPUS, Gpu, Work, kernel_us
from edgec.targets.cuda.crew import launched_us
from edgec.targets.cuda.dots import PADDED, make_whole, schedule_dots
from edgec.targets.cuda.kernels.dots import AT_ONCE
from edgec.targets.cuda.kernels.mma import COPY, COPY_HALVES, MMA, MMA_FLOATS, MMA_HALVES
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

    def us(self, sizes: Sizes, gpu: Gpu, at_once: int) -> float:
        """The time of a product of these sizes."""
        steps = -(-sizes.steps // at_once)
        blocks = sizes.batch * -(-sizes.rows // self.rows) * (sizes.columns // self.columns)
        products = self.rows * self.columns // (ROWS * COLUMNS * WARPS)
        lines = self.rows + (0 if sizes.is_packed else self.columns)
        own = (
            lines * steps * 8 // THREADS * FETCH_INSTRUCTIONS
            + products * steps * MMA_INSTRUCTIONS
            + products * 4 * END_INSTRUCTIONS
        )
        return kernel_us(Work(blocks * THREADS, float(own * blocks * THREADS), own), gpu)


def schedule_products(nest: Nest) -> list[Schedule]:
    """The schedule that is faster by the model of costs; none where sums are of another form."""
    gpu = GPUS[nest.core.gpu_architecture]
    found = [each for kernel in _kernels(nest) for each in schedule_tiles(nest, kernel)]
    is_computed = _is_computed(nest)
    if nest.dtype == "int8" and not is_computed:
        found += [*schedule_dots(nest), *schedule_dots(nest, shared)]
    if is_computed or nest.dtype != "int8" or find_param(nest.func, "w").shape[-1] % AT_ONCE:
        plain = next(rule for rule in loops.LOOPS if rule.match(nest))
        found += on_threads(plain.apply)(nest)
    driver = nest.options.driver
    return sorted(found, key=lambda schedule: launched_us(schedule.func, gpu, driver))[:1]


def _is_computed(nest: Nest) -> bool:
    return nest.sums is not None and nest.sums.kind is Kind.COMPUTED


def _kernels(nest: Nest) -> tuple[str, ...]:
    """The instructions that may multiply its factors."""
    if nest.dtype == "int8":
        return (MMA,)
    floats = (MMA_FLOATS,) if nest.core.gpu_architecture != "sm_75" else ()
    return (MMA_HALVES, *floats) if nest.halves else floats


def _is_half(nest: Nest, name: str) -> bool:
    """Whether an input, or a constant, has numbers of float16 alone; zeros around it are such."""
    name = "x" if name == PADDED else name
    if name not in nest.tables:
        return name in nest.halves
    with np.errstate(over="ignore"):
        return bool(np.all(nest.tables[name].astype(np.float16) == nest.tables[name]))


def schedule_tiles(nest: Nest, kernel: str) -> list[Schedule]:
    """Return the nest's schedule by tiles and an instruction; none if sums do not fit them."""
    try:
        return _by_tiles(nest, kernel, _one_nest(nest))
    except ScheduleError:
        return []


def _one_nest(nest: Nest) -> Schedule:
    """Move the operations after each sum into the loops of the sum."""
    schedule = Schedule(nest.func)
    inputs = "x" if _is_computed(nest) else make_whole(schedule)
    at = output_loops(schedule.func, "out", "out")[-1]
    gather_temporaries(schedule, at, apart=(inputs,))
    decompose(schedule, "acc")
    schedule.simplify()
    if inputs == PADDED and not padding_adds_nothing(nest.dtype, nest.tables):
        raise ScheduleError("padding adds to sums")
    return schedule


def _by_tiles(nest: Nest, kernel: str, schedule: Schedule) -> list[Schedule]:
    loop, is_half = _outermost(schedule), kernel == MMA_HALVES
    dtype = "uint16" if is_half else nest.dtype
    sizes = sizes_of(schedule.func, loop)
    tile = best_tile(sizes, GPUS[nest.core.gpu_architecture], dtype)
    if tile is None or (is_half and not all(_is_half(nest, name) for name in sizes.buffers)):
        return []
    schedule = with_bound_statements(schedule, but=loop)
    schedule.warp_tiles(loop, tile.rows, tile.columns, tile.chunks, is_half)
    place_whole_barriers(schedule)
    _call_kernels(schedule, kernel, steps_of(dtype), sizes)
    return [schedule]


def best_tile(sizes: Sizes, gpu: Gpu, dtype: str) -> Tile | None:
    """The fastest tile of a product of these sizes, with elements of a dtype; None if none fits."""
    at_once = steps_of(dtype)
    tiles = _tiles(sizes, STEP_BYTES // at_once)
    return min(tiles, key=lambda tile: tile.us(sizes, gpu, at_once), default=None)


def _tiles(sizes: Sizes, step_bytes: int) -> Iterator[Tile]:
    shapes = (
        shape
        for width in (1, 2, 4)
        for height in (1, 2)
        for shape in (
            (ROWS * height, COLUMNS * width * WARPS),
            (ROWS * height * WARPS, COLUMNS * width),
        )
    )
    for rows, columns in shapes:
        is_wide = columns % (COLUMNS * WARPS) == 0
        if is_wide == (rows < ROWS * WARPS) and _is_whole(sizes, rows, columns):
            lines = rows + (0 if sizes.is_packed else columns)
            yield Tile(rows, columns, -(-lines * sizes.steps * step_bytes // CHUNK_BYTES))


def _is_whole(sizes: Sizes, rows: int, columns: int) -> bool:
    """Whether such tiles share out the columns, and the rows of each of many products."""
    return sizes.columns % columns == 0 and (sizes.batch == 1 or sizes.rows % rows == 0)


def _outermost(schedule: Schedule) -> str:
    """The outermost loop of the nest that stores the output: the last statement of all."""
    names = output_loops(schedule.func, "out", "out")
    found = next((name for name in names if name in loops_of(schedule.func.body)), None)
    if found is None:
        raise ScheduleError("the output is one number")
    return found


def _call_kernels(schedule: Schedule, kernel: str, steps: int, sizes: Sizes) -> None:
    """Replace the instruction's meaning, and copies of four elements, by calls."""
    names = loops_of(schedule.func.body)
    of_call = {"x_step": GROUP * steps, "w_step": steps}
    if kernel == MMA:
        of_call |= dict(zip(("x_offset", "w_offset"), sizes.offsets, strict=True))
    schedule.tensorize(MMA_NEST, kernel, of_call, {"lane": "multiply_g*4 + multiply_q"})
    for name, step in zip(("rows_copy", "columns_copy"), sizes.strides, strict=True):
        if name in names and kernel == MMA_HALVES:
            schedule.tensorize(name, COPY_HALVES, {"x_step": step})
        elif name in names:
            schedule.tensorize(name, COPY, {})
