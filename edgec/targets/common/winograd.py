"""Sums of floats over windows of 3 x 3 by the method of Winograd, on vectors of channels.

The image is cut into blocks of tiles, small enough for the fast caches. For each block the inputs
are transformed; then, for each place in a tile, a matrix product multiplies them by the weights;
then the results are transformed back. This adds other numbers than the operator does, so only
`--float-sums free` allows it. The sum of an output does not depend on the size of the blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from math import prod

from edgec.errors import ScheduleError
from edgec.loop.primitives.winograd import TILES
from edgec.loop.rewrite import blocks_of, loops_of
from edgec.loop.schedule import Schedule
from edgec.loop.window import Window
from edgec.targets.common.channel_vectors import is_plain, over_whole_windows
from edgec.targets.common.nests import find_param, largest_divisor, output_loops
from edgec.targets.common.sums import Kind
from edgec.targets.common.vector_tiles import (
    FAR_FLOAT,
    ISSUE,
    NEAR_BYTES,
    Tile,
    best_tile,
    to_vectors,
    whole_lanes,
)
from edgec.targets.rule import Nest, Rule, always

#: Most stack bytes of a block: its transformed inputs and the sums of its products.
MOST_BYTES = 128 << 10
#: By the size of a tile, the most input channels whose sums stay within a convolution's tolerance.
MOST_INPUTS = {2: 1 << 12, 4: 32}
#: How many floats of a vector `_transforms` assumes.
LANES = 8
#: Clocks to read a float of weights where all weights exceed OUTER_BYTES, the second cache.
OUTER_FLOAT, OUTER_BYTES = 0.5, 1 << 20


@dataclass(frozen=True)
class _Plan:
    """Tiles of `size` x `size` outputs; a block holds several groups, multiplied one by one.

    lanes: channels of a vector of outputs, and of a vector of inputs. clocks: of the image on one
    thread.
    """

    size: int
    lanes: tuple[int, int]
    group: Tile
    rows: int
    columns: int
    clocks: float


def _is_for(nest: Nest) -> bool:
    """Whether it sums products of floats over windows, in any order."""
    is_free = nest.options.float_sums == "free" and nest.dtype == "float32" and is_plain(nest)
    return is_free and nest.sums is not None and nest.sums.kind is Kind.WINDOWS


def _schedules(nest: Nest) -> list[Schedule]:
    """Tiles of the fastest size, if they are faster than direct convolution."""
    window, out = nest.window, find_param(nest.func, "out").shape
    if window is None or len(out) != 4:
        return []
    if (window.kernel, window.stride, window.dilation) != ((3, 3), (1, 1), (1, 1)):
        return []
    steps = window.depth
    with suppress(ScheduleError):
        direct = best_tile(nest, out[3], out[1:3], steps).clocks(out[3], steps, own_inputs=False)
        plans = [plan for plan in _plans(nest) if plan.clocks < direct * out[1] * out[2]]
        if plans:
            return [_schedule(nest, window, min(plans, key=lambda plan: plan.clocks))]
    return []


def _plans(nest: Nest) -> Iterator[_Plan]:
    inputs = find_param(nest.func, "w").shape[3]
    for size in (size for size in TILES if inputs <= MOST_INPUTS[size]):
        with suppress(ScheduleError):  # a block of them is too large
            yield _plan(nest, size)


def _plan(nest: Nest, size: int) -> _Plan:
    """The blocks for tiles of one size; more threads take smaller blocks, with the same sums."""
    _, height, width, channels = find_param(nest.func, "out").shape
    inputs, points = find_param(nest.func, "w").shape[3], (size + 2) ** 2
    lanes = whole_lanes(nest, channels), whole_lanes(nest, inputs)
    most = MOST_BYTES // (4 * points * (channels + inputs))

    def blocks(rows: int) -> tuple[Tile, int, int]:
        group = best_tile(
            nest, channels, (rows, columns), inputs,
            may=lambda t: t.blocks.tail == "exact" and t.rows * t.columns <= most,
        )  # fmt: skip
        return group, *_block(group, rows, columns, most)

    rows, columns = -(-height // size), -(-width // size)
    group, *block = blocks(rows)
    weights = points * channels * inputs
    far = OUTER_FLOAT if weights * 4 > OUTER_BYTES else FAR_FLOAT * (weights * 4 > NEAR_BYTES)
    clocks = points * group.clocks(channels, inputs, own_inputs=False)
    clocks += _transforms(size, inputs / LANES, channels / LANES) + far * weights / prod(block)
    share = largest_divisor(rows, max(rows // nest.options.threads, 1))
    return _Plan(size, lanes, *blocks(share), rows * columns * clocks)


def _block(group: Tile, rows: int, columns: int, most: int) -> tuple[int, int]:
    """The rows and columns of groups in a block of at most `most` tiles; whole rows first."""
    across = largest_divisor(columns // group.columns, max(most // (group.rows * group.columns), 1))
    wide = across * group.columns
    down = largest_divisor(rows // group.rows, max(most // (group.rows * wide), 1))
    return (down if wide == columns else 1) * group.rows, wide


def _transforms(size: int, inputs: float, outputs: float) -> float:
    """Clocks to transform a tile of `inputs` and `outputs` vectors: products, then stores."""
    wide, tile = size + 2, TILES[size]
    into, back = (sum(map(bool, chain(*m))) for m in (tile.into, tile.back))
    return (
        2
        * ISSUE
        * (
            inputs * (2 * into * wide + 2 * wide**2)
            + outputs * (back * (wide + size) + 2 * size**2)
        )
    )


def _schedule(nest: Nest, window: Window, plan: _Plan) -> Schedule:
    """Blocks of tiles, each transformed, multiplied and transformed back."""
    size, (lanes, into_lanes) = plan.size, plan.lanes
    schedule = over_whole_windows(nest, window)
    schedule.winograd("acc", "padded" if "padded" in blocks_of(schedule.func.body) else "x", size)
    *_, row, column, channel = output_loops(nest.func, "out", "out")
    block_row, row = schedule.split(row, size * plan.rows)
    row, line = schedule.split(row, size)
    block, column = schedule.split(column, size * plan.columns)
    column, pixel = schedule.split(column, size)
    channel, lane = schedule.split(channel, lanes)
    schedule.reorder(block_row, block, row, column, channel, line, pixel, lane)
    schedule.compute_at("acc", channel, scope="register")
    schedule.compute_at("acc_back", channel, scope="register")
    schedule.compute_at("acc_tiles", block, scope="register")
    schedule.compute_at("acc_in", block, scope="register")
    _products(schedule, plan.group)
    into, inner = schedule.split("acc_in_ic", into_lanes)
    steps = [name for name in ("acc_in_r", "acc_in_t") if name in loops_of(schedule.func.body)]
    schedule.reorder(*steps, into, "acc_in_i", "acc_in_j", inner)
    schedule.compute_at("acc_rows", into, scope="register")
    schedule.compute_at("acc_from", into, scope="register")
    _unroll(
        schedule, line, pixel, "acc_h", "acc_w", "acc_back_q", "acc_back_j", "acc_in_i",
        "acc_in_j", "acc_rows_i", "acc_rows_v", "acc_from_y", "acc_from_v",
    )  # fmt: skip
    for loop in (lane, "acc_c", "acc_back_c", inner, "acc_rows_ic", "acc_from_ic"):
        schedule.vectorize(loop)
    schedule.simplify()
    return schedule


def _products(schedule: Schedule, group: Tile) -> None:
    """Multiply groups of tiles by the weights of each place in them, as matrices are."""
    blocks = group.blocks
    outer, inner = [], []
    for loop, count in (("acc_tiles_r", group.rows), ("acc_tiles_t", group.columns)):
        if loop in loops_of(schedule.func.body):  # there are several
            first, each = schedule.split(loop, count, tail="exact")
            outer.append(first)
            inner.append(each)
    channel, lane = schedule.split("acc_tiles_c", blocks.together, "exact")
    order = ("acc_tiles_i", "acc_tiles_j", channel, *outer, "acc_tiles_ic", *inner, lane)
    schedule.reorder(*order)
    copy = schedule.cache_write("acc_tiles", (channel, *outer)[-1])
    schedule.decompose_reduction("acc_tiles", "acc_tiles_ic")
    schedule.transform_layout("w", f"PQOI -> P Q O/{blocks.together} I O%{blocks.together}")
    to_vectors(schedule, blocks.lanes, lane, f"{lane}_init", f"{copy}_d5")
    starts = (f"{loop}_init" for loop in inner)
    _unroll(schedule, *inner, *starts, f"{copy}_d1", f"{copy}_d2")


def _unroll(schedule: Schedule, *loops: str) -> None:
    """Unroll the loops; loops of one step are gone already."""
    for loop in loops:
        if loop in loops_of(schedule.func.body):
            schedule.unroll(loop)


def rules(feature: str) -> tuple[Rule, ...]:
    """The rules of cores with a feature."""
    needs = frozenset({feature})
    return (Rule("tiles of windows", _is_for, _schedules, needs=needs, ends_menu=always),)
