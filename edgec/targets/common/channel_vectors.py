"""Sums of float32, and of int8 that stay int32: vectors of output channels by schedules.

Each lane sums the products of its channel in the order of the plain loops, so the bits are equal.
Several vectors side by side share each input, several pixels share each weight, and together they
hide the latency of sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import product

from edgec.errors import ScheduleError
from edgec.loop.ir import Block, Gather, Intrinsic, Load, Select, Store
from edgec.loop.primitives.whole_windows import is_clipped
from edgec.loop.rewrite import blocks_of, loops_of, subexpressions
from edgec.loop.schedule import Schedule
from edgec.loop.window import Window
from edgec.numerics.term import as_term
from edgec.targets.common.gathered import IMAGE_AXES, padding_adds_nothing
from edgec.targets.common.nests import (
    find_param,
    gather_temporaries,
    output_loops,
    stored_value,
)
from edgec.targets.common.per_element import window_loops
from edgec.targets.common.sums import WEIGHTED, Kind
from edgec.targets.common.vector_matrices import schedule_matrices, second_factor
from edgec.targets.common.vector_tiles import (
    PACKED,
    Blocks,
    best_tile,
    in_order,
    lanes_of,
    to_vectors,
    whole_lanes,
)
from edgec.targets.rule import Nest, Rule, always

#: Vectors of channels that share each input.
VECTORS = (4, 2, 1)


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


def _blocks(nest: Nest, channels: int) -> Blocks:
    """Full blocks of the widest vectors, or with a last block that begins earlier, or of narrower
    vectors; ScheduleError if none fit. Several vectors of sums per pixel hide the latency of each.
    """
    wide, *narrower = lanes_of(nest)
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
    for made in (_tiles, schedule_matrices, _pixel_by_pixel):
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
    order = in_order(weights, row, column, channel)
    schedule.reorder(*order, line, pixel, lane)
    schedule.compute_at("acc", order[-1], scope="register")
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


def _is_computed(nest: Nest) -> bool:
    """Whether it multiplies two matrices of floats and reads the second one row by row."""
    if nest.sums is None or nest.sums.kind is not Kind.COMPUTED or nest.is_small:
        return False
    second = second_factor(nest.func)
    *_, column, step = (as_term(axis.var) for axis in blocks_of(nest.func.body)["acc"].axes)
    is_float = second.dtype == nest.dtype == nest.out_dtype == "float32"
    return is_float and second.indices[-2:] == (step, column)


def _computed(nest: Nest) -> list[Schedule]:
    with suppress(ScheduleError):
        return [schedule_matrices(nest)]
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
