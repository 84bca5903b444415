"""Sums of float32, and of int8 that stay int32: vectors of output channels by schedules.

Each lane sums the products of its channel in the order of the plain loops, so the bits are equal.
Several vectors side by side share each input, several pixels share each weight, and together they
hide the latency of sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product

from edgec.errors import ScheduleError
from edgec.loop.ir import Block, Gather, Intrinsic, Load, PrimFunc, Select, Store
from edgec.loop.primitives.loops import Tail
from edgec.loop.primitives.whole_windows import is_clipped
from edgec.loop.rewrite import blocks_of, loops_of, subexpressions
from edgec.loop.schedule import Schedule
from edgec.loop.window import Window
from edgec.numerics.term import as_term
from edgec.targets.common.gathered import IMAGE_AXES, padding_adds_nothing
from edgec.targets.common.nests import find_param, gather_temporaries, output_loops, stored_value
from edgec.targets.common.per_element import window_loops
from edgec.targets.common.sums import WEIGHTED, Kind
from edgec.targets.core import Core
from edgec.targets.rule import Nest, Rule, always


@dataclass(frozen=True)
class Weights:
    """Weights of one rank: the axis of output channels, the loops over taps, the packing.

    Depthwise weights are already stored channel by channel.
    """

    channel: int
    taps: tuple[str, ...]
    packing: str = ""
    side_by_side: str = ""


#: By the rank of the weights. `side_by_side`: so that a vector may begin at any channel.
PACKED = {
    2: Weights(0, ("acc_k",), "OI -> O/{0} I O%{0}", "OI -> I O"),
    3: Weights(2, ("acc_kh", "acc_kw")),
    4: Weights(
        0, ("acc_kh", "acc_kw", "acc_ic"), "OHWI -> O/{0} H W I O%{0}", "OHWI -> H W I O"
    ),
}  # fmt: skip
#: Vectors of channels that share each input.
VECTORS = (4, 2, 1)
#: Floats in a vector, by features, the widest first. A load of 16 floats across two cache lines, as
#: of activations, counts as two and lowers the clock rate: only tiles of sums gain from it.
LANES = {"avx512": (8, 4), "avx2": (8, 4), "neon": (4,)}
WIDEST = {"avx512": (16,)}
#: Vectors of channels of a tile.
TILE_VECTORS = (8, 4, 3, 2, 1)
#: Vector registers, and how many of them a tile's sums may take.
REGISTERS = {"avx512": (32, 24), "avx2": (16, 12), "neon": (16, 12)}
#: Clocks of a narrow vector's load, of a load of 16 floats within one cache line and across two, of
#: a product, the latency of a sum, an instruction, a tile and each of its sums.
LOAD, WIDE_LOAD, SPLIT_LOAD, PRODUCT, WAIT, ISSUE, TILE, SUM = 0.5, 0.9, 1.8, 0.5, 4.0, 0.25, 15, 3
#: The cost of a float of weights beyond the bytes that stay in the first cache.
FAR_FLOAT, NEAR_BYTES = 0.12, 32 << 10
#: Pixels of a tile; more make the code longer, not faster. MOST_OWN: in one row, if each channel
#: has its own inputs, where two vectors share a cache line.
MOST_PIXELS, MOST_OWN = 12, 6
#: Products of a sum, where a run decides that.
MATRIX_STEPS = 64
#: How much longer a clock is while products of 16 floats run.
WIDE_CLOCK = 1.2


@dataclass(frozen=True)
class Blocks:
    """Channels in blocks of several vectors of `lanes`, `together` in all.

    tail: "shift" where the last block begins earlier, and does some channels again.
    """

    lanes: int
    together: int
    tail: Tail

    def packing(self, weights: Weights) -> str:
        """Name of the weights' packing."""
        return weights.packing.format(self.together) if self.tail == "exact" else (
            weights.side_by_side
        )  # fmt: skip


@dataclass(frozen=True)
class Tile:
    """Channels in blocks, and the rows and columns of pixels that are summed at once."""

    blocks: Blocks
    rows: int
    columns: int

    @property
    def vectors(self) -> int:
        """The vectors of channels."""
        return self.blocks.together // self.blocks.lanes

    @property
    def sums(self) -> int:
        """Vectors of them."""
        return self.vectors * self.rows * self.columns

    def fits(self, core: Core, *, own_inputs: bool) -> bool:
        """Whether sums, an input and the weights that several pixels share stay in registers."""
        registers, most = _of_core(REGISTERS, core)
        pixels = self.rows * self.columns
        if pixels > (MOST_OWN if own_inputs else MOST_PIXELS) or (own_inputs and self.rows > 1):
            return False
        shared = self.vectors if pixels > 1 else 0
        return self.sums <= most and self.sums + shared + 1 <= registers

    def clocks(self, channels: int, steps: int, *, own_inputs: bool) -> float:
        """The clocks of a pixel; own_inputs: each channel has its own (depthwise convolutions)."""
        pixels, is_wide = self.rows * self.columns, self.blocks.lanes > 8
        inputs = self.sums if own_inputs else pixels
        is_far = channels * steps * 4 > NEAR_BYTES
        weight = self._load(is_split=own_inputs or self.blocks.tail == "shift")
        weight += self.blocks.lanes * FAR_FLOAT * is_far
        turn = max(
            self.sums * PRODUCT, self.vectors * weight + inputs * self._load(is_split=own_inputs),
            WAIT, (self.sums + self.vectors + inputs + 2) * ISSUE,
        )  # fmt: skip
        slower, each = (WIDE_CLOCK, 2 * SUM) if is_wide else (1, SUM)
        tile = steps * turn * slower + TILE + self.sums * each
        return -(-channels // self.blocks.together) * tile / pixels

    def _load(self, *, is_split: bool) -> float:
        """Clocks of a vector, or of one float for all its lanes."""
        if self.blocks.lanes <= 8:
            return LOAD
        return SPLIT_LOAD if is_split else WIDE_LOAD


def is_plain(nest: Nest) -> bool:
    """Whether it sums products of floats to floats, or of int8 to sums that nothing rescales."""
    types = (nest.dtype, nest.out_dtype)
    is_sum = nest.sums is not None and nest.sums.kind in WEIGHTED and not nest.is_small
    return is_sum and types in (("float32", "float32"), ("int8", "int32"))


def _is_spread(nest: Nest) -> bool:
    """Whether it sums products of floats in which all channels of a pixel read the same inputs, but
    each pixel reads other weights, as in transposed convolutions.
    """
    if nest.sums is None or nest.sums.kind is not Kind.OTHER or nest.is_small:
        return False
    return nest.dtype == nest.out_dtype == "float32" and _shares_inputs(
        blocks_of(nest.func.body)["acc"]
    )


def _shares_inputs(block: Block) -> bool:
    """Whether the channel, the fourth axis, is the first index of the weights and nothing else."""
    parts = subexpressions(block.body.value) if isinstance(block.body, Store) else ()
    loads = {part.buffer.name: part for part in parts if isinstance(part, Load)}
    if loads.keys() != {"acc", "x", "w"} or len(loads["w"].indices) != 4 or len(block.axes) != 7:
        return False
    channel = block.axes[3].var
    elsewhere = (*loads["x"].indices, *loads["w"].indices[1:])
    return loads["w"].indices[0] == as_term(channel) and not any(
        channel in index.variables() for index in elsewhere
    )


def _pixels(nest: Nest) -> list[Schedule]:
    with suppress(ScheduleError):
        return [_pixel_by_pixel(nest)]
    return []


def _of_core(table: Mapping[str, tuple[int, ...]], core: Core) -> tuple[int, ...]:
    return next((row for feature, row in table.items() if core.has(feature)), ())


def _lanes(nest: Nest) -> tuple[int, ...]:
    return _of_core(LANES, nest.core)


def best_tile(
    nest: Nest,
    channels: int,
    image: tuple[int, int],
    steps: int,
    *,
    own_inputs: bool = False,
    may: Callable[[Tile], bool] = lambda _: True,
) -> Tile:
    """The allowed tile with the fewest clocks for an image of rows and columns of pixels, each with
    sums of `steps` products; ScheduleError if no vector is as narrow as the channels.
    """
    widths = (*_of_core(WIDEST, nest.core), *_lanes(nest))
    blocks = (
        Blocks(lanes, lanes * count, "shift" if channels % (lanes * count) else "exact")
        for lanes, count in product(widths, TILE_VECTORS) if lanes * count <= channels
    )  # fmt: skip
    sizes = product(*(_divisors(extent) for extent in image))
    tiles = (Tile(block, *size) for block, size in product(blocks, sizes))
    fitting = [t for t in tiles if t.fits(nest.core, own_inputs=own_inputs) and may(t)]
    if not fitting:
        raise ScheduleError(f"{channels} channels are not whole vectors")
    return min(fitting, key=lambda tile: tile.clocks(channels, steps, own_inputs=own_inputs))


def _divisors(extent: int) -> list[int]:
    """The divisors that are allowed as a tile's extent."""
    return [size for size in range(1, min(extent, MOST_PIXELS) + 1) if extent % size == 0]


def _blocks(nest: Nest, channels: int) -> Blocks:
    """Full blocks of the widest vectors, or with a last block that begins earlier, or of narrower
    vectors; ScheduleError if none fit. Several vectors of sums per pixel hide the latency of each.
    """
    wide, *narrower = _lanes(nest)
    whole = _exact([wide], VECTORS, channels)
    if whole:
        return whole[0]
    exact = _exact(narrower, VECTORS, channels)
    shifted = _least_idle([wide * vectors for vectors in VECTORS], channels, wide)
    if shifted:
        return Blocks(wide, shifted, "shift")
    if exact:
        return exact[0]
    raise ScheduleError(f"{channels} channels are not whole vectors")


def _least_idle(blocks: Sequence[int], channels: int, overhead: int) -> int:
    """The block with the fewest lanes in all, of equal ones the largest; 0 if none is smaller."""
    smaller = (block for block in blocks if block < channels)
    lanes_used = {block: -(-channels // block) * (block + overhead) for block in smaller}
    return min(lanes_used, key=lambda block: (lanes_used[block], -block), default=0)


def _exact(lanes: Sequence[int], vectors: Sequence[int], channels: int) -> list[Blocks]:
    return [
        Blocks(wide, wide * count, "exact")
        for wide, count in product(lanes, vectors) if channels % (wide * count) == 0
    ]  # fmt: skip


def _channels(nest: Nest) -> list[Schedule]:
    """Tiles of pixels and channels where windows are whole or can be made so, else of channels."""
    for made in (_tiles, _matrices, _pixel_by_pixel):
        with suppress(ScheduleError):
            return [made(nest)]
    return []


def _tiles(nest: Nest) -> Schedule:
    """Several pixels of a row share the weights that are loaded."""
    func, window = nest.func, nest.window
    out = find_param(func, "out")
    if window is None or len(out.shape) != 4:
        raise ScheduleError("there are no rows of pixels")
    weights = find_param(func, "w")
    axes = PACKED[len(weights.shape)]
    schedule = over_whole_windows(nest, window)
    channels, own_inputs = weights.shape[axes.channel], not axes.packing
    steps = weights.elements // channels
    tile = best_tile(nest, channels, out.shape[1:3], steps, own_inputs=own_inputs)
    blocks = tile.blocks
    *_, row, column, channel = output_loops(func, "out", "out")
    row, line = schedule.split(row, tile.rows)
    column, pixel = schedule.split(column, tile.columns)
    channel, lane = schedule.split(channel, blocks.together, blocks.tail)
    schedule.reorder(row, column, channel, line, pixel, lane)
    schedule.compute_at("acc", channel, scope="register")
    own = [name for name in ("acc_h", "acc_w") if name in loops_of(schedule.func.body)]
    schedule.decompose_reduction("acc", (*own, "acc_c")[0])
    schedule.reorder(*axes.taps, *own, "acc_c")
    if axes.packing:
        schedule.transform_layout("w", blocks.packing(axes))
    to_vectors(schedule, blocks.lanes, "acc_c", "acc_c_init", lane)
    for loop in (*own, *(f"{name}_init" for name in own), line, pixel):
        schedule.unroll(loop)
    schedule.simplify()
    return schedule


def over_whole_windows(nest: Nest, window: Window) -> Schedule:
    """A schedule whose sums go over whole windows, of a copy with padding where they did not."""
    schedule = Schedule(nest.func)
    if is_clipped(nest.func, "acc"):
        if not padding_adds_nothing(nest.dtype, nest.tables):
            raise ScheduleError("a product by padding may change a sum")
        schedule.pad_copy("acc", "x", "padded", range(4), IMAGE_AXES)
        with suppress(ScheduleError):  # few inputs: one after the other
            to_vectors(schedule, whole_lanes(nest, window.shape[2]), "padded_c")
        _cut_edges(schedule, window)
    return schedule


def _cut_edges(schedule: Schedule, window: Window) -> None:
    """Split off loops for the padding: the loops that copy the image need no conditions then."""
    inside = ""
    for loop, first, extent in zip(
        ("padded_h", "padded_w"), window.corner, window.shape[:2], strict=True
    ):
        with suppress(ScheduleError):  # no padding there
            schedule.cut(f"{loop}{inside}", first + extent, (), "_after")
        with suppress(ScheduleError):
            schedule.cut(f"{loop}{inside}", first, (), "_in")
            inside += "_in"


def _matrices(nest: Nest) -> Schedule:
    """Several rows of the first matrix share the loads of the second."""
    out = find_param(nest.func, "out")
    found = [*output_loops(nest.func, "out", "out")[-2:], *_loops_of_block(nest.func)[-3:]]
    if len(found) < 5 or not {*found} <= loops_of(nest.func.body).keys():
        raise ScheduleError("there are no rows of two matrices")
    row, column, own_row, own_column, step = found
    summed = loops_of(nest.func.body)[step]
    steps = summed.extent or MATRIX_STEPS
    tile = best_tile(nest, out.shape[-1], (out.shape[-2], 1), steps)
    blocks = tile.blocks
    schedule = Schedule(nest.func)
    row, each = schedule.split(row, tile.rows)
    column, lane = schedule.split(column, blocks.together, blocks.tail)
    schedule.reorder(row, column, each, lane)
    schedule.compute_at("acc", column, scope="register")
    schedule.decompose_reduction("acc", own_row)
    schedule.reorder(step, own_row, own_column)
    if any(buffer.name == "w" for buffer in nest.func.params):
        schedule.transform_layout("w", blocks.packing(PACKED[2]))
    to_vectors(schedule, blocks.lanes, own_column, f"{own_column}_init", lane)
    for loop in (own_row, f"{own_row}_init", each):
        schedule.unroll(loop)
    schedule.simplify()
    return schedule


def _loops_of_block(func: PrimFunc) -> list[str]:
    """The loops that the axes of the sums stand for, each by its name; empty where it is none."""
    bindings = [axis.binding for axis in blocks_of(func.body)["acc"].axes]
    return [str(term) if len(term.variables()) == 1 else "" for term in bindings]


def _is_computed(nest: Nest) -> bool:
    """Whether it multiplies two matrices of floats and reads the second one row by row."""
    if nest.sums is None or nest.sums.kind is not Kind.COMPUTED or nest.is_small:
        return False
    block = blocks_of(nest.func.body)["acc"]
    assert isinstance(block.body, Store)
    *_, second = (part for part in subexpressions(block.body.value) if isinstance(part, Load))
    *_, column, step = (as_term(axis.var) for axis in block.axes)
    is_float = second.dtype == nest.dtype == nest.out_dtype == "float32"
    return is_float and second.indices[-2:] == (step, column)


def _computed(nest: Nest) -> list[Schedule]:
    with suppress(ScheduleError):
        return [_matrices(nest)]
    return []


def _pixel_by_pixel(nest: Nest) -> Schedule:
    weights = find_param(nest.func, "w")
    axes = PACKED[len(weights.shape)]
    blocks = _blocks(nest, weights.shape[axes.channel])
    schedule = Schedule(nest.func)
    last = output_loops(nest.func, "out", "out")[-1]
    block, lane = schedule.split(last, blocks.together, blocks.tail)
    gather_temporaries(schedule, block)
    schedule.decompose_reduction("acc", "acc_c")
    schedule.reorder(*axes.taps, "acc_c")
    if axes.packing:
        schedule.transform_layout("w", blocks.packing(axes))
    to_vectors(schedule, blocks.lanes, "acc_c", "acc_c_init", lane)
    return schedule


def _pools(nest: Nest) -> list[Schedule]:
    """Means and largest elements of windows of each channel: a vector of channels at a time."""
    out = find_param(nest.func, "out")
    schedule = Schedule(nest.func)
    try:
        blocks = _blocks(nest, out.shape[-1])
        last = output_loops(nest.func, "out", "out")[-1]
        block, lane = schedule.split(last, blocks.together, blocks.tail)
        gather_temporaries(schedule, block)
        schedule.decompose_reduction("acc", "acc_c")
        schedule.reorder(*window_loops(schedule.func), "acc_c")
        to_vectors(schedule, blocks.lanes, "acc_c", "acc_c_init")
    except ScheduleError:
        return []
    with suppress(ScheduleError):
        to_vectors(schedule, blocks.lanes, lane)
    return [schedule]


def _is_pool(nest: Nest) -> bool:
    """Whether it adds or compares elements of windows of each channel."""
    sums = nest.sums
    is_pool = sums is not None and sums.kind in (Kind.TOTAL, Kind.LARGEST) and not nest.is_small
    return is_pool and "acc_kh" in loops_of(nest.func.body)


def _has_branches(nest: Nest) -> bool:
    """Whether each float is one of two values, as in a PReLU: the C compiler jumps lane by lane,
    since it may not compute the value that is not chosen.
    """
    if nest.temporaries or nest.is_small or nest.out_dtype != "float32":
        return False
    value = stored_value(nest.func)
    parts = [] if value is None else list(subexpressions(value))
    is_plain = not any(isinstance(part, (Gather, Intrinsic)) for part in parts)
    return is_plain and any(isinstance(part, Select) for part in parts)


def _is_rescaled(nest: Nest) -> bool:
    """Whether int32 sums become floats by factors that a row has: the C compiler, which cannot know
    that no result is stored over a factor, reads them again each time.
    """
    is_plain = nest.sums is None and not nest.is_small
    return is_plain and (nest.dtype, nest.out_dtype) == ("int32", "float32")


def _elements(nest: Nest) -> list[Schedule]:
    out = find_param(nest.func, "out")
    if not out.shape:
        return []
    schedule = Schedule(nest.func)
    try:
        if "element" in nest.temporaries:  # read by the last formula, such as an activation
            schedule.compute_inline("element")
        last = output_loops(schedule.func, "out", "out")[-1]
        to_vectors(schedule, whole_lanes(nest, out.shape[-1]), last)
        schedule.simplify()
    except ScheduleError:
        return []
    return [schedule]


def whole_lanes(nest: Nest, channels: int) -> int:
    """Lanes of the widest vectors that divide the channels; ScheduleError if none do."""
    for lanes in _lanes(nest):
        if channels % lanes == 0:
            return lanes
    raise ScheduleError(f"{channels} channels are not whole vectors")


def to_vectors(schedule: Schedule, lanes: int, *loops: str) -> None:
    """Let these loops over channels go from vector to vector, in straight code."""
    for loop in loops:
        outer, inner = schedule.split(loop, lanes, tail="exact")
        schedule.unroll(outer)
        schedule.vectorize(inner)


def rules(feature: str) -> tuple[Rule, ...]:
    """The rules of cores with a feature."""
    needs = frozenset({feature})
    return (
        Rule("channels side by side", is_plain, _channels, needs=needs, ends_menu=always),
        Rule("rows side by side", _is_computed, _computed, needs=needs, ends_menu=always),
        Rule("pixels of other weights", _is_spread, _pixels, needs=needs, ends_menu=always),
        Rule("floats of two values", _has_branches, _elements, needs=needs, ends_menu=always),
        Rule("sums that rows rescale", _is_rescaled, _elements, needs=needs, ends_menu=always),
        Rule("pools of channels", _is_pool, _pools, needs=needs, ends_menu=always),
    )
