"""Convolutions and dense: blocks of pixels and channels whose sums stay in registers."""

from __future__ import annotations

from edgec.loop.dtype import is_integer
from edgec.loop.primitives.fold_offset import adds_offset
from edgec.loop.primitives.lookup import find_loop
from edgec.loop.primitives.whole_windows import is_clipped
from edgec.loop.rewrite import blocks_of, loops_of
from edgec.loop.schedule import Schedule
from edgec.targets.common.gathered import IMAGE_AXES, padding_adds_nothing
from edgec.targets.common.nests import find_param
from edgec.targets.common.sums import Kind
from edgec.targets.rule import Nest
from edgec.tune.decisions import Decisions
from edgec.tune.sketches.blocks import (
    BlockedLoop,
    block_loop,
    block_pixels,
    decompose_sums,
    divisors,
    finish,
    place_rows,
    place_temporaries,
    unroll_all,
)

#: Elements whose sums are kept at once, at most: more need more registers than any core has.
MOST_SUMS = 16
#: Steps of a loop in straight code, at most.
MOST_STRAIGHT = 16
#: Loops over the steps of a sum.
STEPS = ("acc_kh", "acc_kw", "acc_ic", "acc_k")
CHANNELS = (1, 2, 3, 4, 5, 6, 8)


def is_product(nest: Nest) -> bool:
    """Whether outputs are sums of a window, or a row, of inputs by the weights of their channel."""
    return nest.sums is not None and nest.sums.kind in (Kind.WINDOWS, Kind.MATRIX)


def write_product(nest: Nest, ask: Decisions) -> Schedule:
    """Schedule a product. Raises ScheduleError where decisions do not fit the nest."""
    schedule = Schedule(nest.func)
    is_image = len(find_param(nest.func, "w").shape) == 4
    source = _read_windows(schedule, nest, ask) if is_image else "x"
    _fold(schedule, source, ask)
    if is_image and nest.window is not None and nest.window.is_pixel:
        _flatten_pixels(schedule, ask)
    _block(schedule, ask, source)
    finish(schedule, ask)
    return schedule


def _read_windows(schedule: Schedule, nest: Nest, ask: Decisions) -> str:
    """Source of windows: the input, a copy with padding, or a window gathered at a time."""
    clipped = is_clipped(schedule.func, "acc")
    if clipped and not padding_adds_nothing(nest.dtype, nest.tables):
        return "x"
    ways = ["plain", *["padded"] * clipped, "gathered"]
    is_pixel = nest.window is not None and nest.window.is_pixel
    way = ask.choose("windows", ways[:1] if is_pixel else ways)
    if way == "padded":
        return schedule.pad_copy("acc", "x", "padded", [0, 1, 2, 3], IMAGE_AXES)
    if way == "gathered":
        if clipped:
            schedule.pad_reads("acc", "x", IMAGE_AXES)
        return schedule.gather("acc", "x", "col")
    return "x"


def _fold(schedule: Schedule, source: str, ask: Decisions) -> None:
    """Let sums start with the offset that would be added to every input."""
    if not is_integer(find_param(schedule.func, source).dtype):
        return
    if is_clipped(schedule.func, "acc") or not adds_offset(schedule.func, "acc", source):
        return
    if ask.choose("fold", [True, False]):
        schedule.fold_offset("acc", source)


def _flatten_pixels(schedule: Schedule, ask: Decisions) -> None:
    """Make one row of all pixels, where each output pixel reads the input pixel of its number."""
    known, func = loops_of(schedule.func.body), schedule.func
    if not {"out_d1", "out_d2", "acc_h", "acc_w"} <= known.keys():
        return
    names = [b.name for b in func.params if b.scope in ("arena", "scratch")]
    is_plain = set(blocks_of(func.body)) == {"acc", "out"}
    if not is_plain or any(len(find_param(func, name).shape) != 4 for name in names):
        return
    if not ask.choose("flat", [True, False]):
        return
    for name in names:
        schedule.flatten(name, 1, 2)
    schedule.fuse_axes("acc", ["h", "w"], "h_w")
    schedule.fuse_axes("out", ["d1", "d2"], "d1_d2")


def _block(schedule: Schedule, ask: Decisions, source: str) -> None:
    """Sum blocks of pixels and channels, each input and each weight read once for a block."""
    outs = [name for name in loops_of(schedule.func.body) if name.startswith("out_")]
    channel, rows = outs[-1], outs[:-1]
    channels = block_loop(schedule, ask, channel, "channels", CHANNELS)
    at_once = MOST_SUMS // channels.size
    pixels = block_pixels(schedule, ask, rows[-1], at_once) if rows else None
    order = _order(ask, rows, pixels, channels, is_gathered=source == "col")
    lanes = [block.inner for block in (pixels, channels) if block is not None]
    schedule.reorder(*order, *lanes)
    place_temporaries(schedule, order[-1])
    _place_copies(schedule, ask, source, rows, order[-2:])
    sums, steps = decompose_sums(schedule, "acc", STEPS)
    schedule.reorder(*steps, *sums)
    if channels.size > 1 and channels.is_exact and ask.choose("packed", [True, False]):
        is_image = len(find_param(schedule.func, "w").shape) == 4
        packing = "OHWI -> O/{0} H W I O%{0}" if is_image else "OI -> O/{0} I O%{0}"
        schedule.transform_layout("w", packing.format(channels.size))
    _unroll_steps(schedule, ask, steps)
    unroll_all(schedule, [*sums, *(f"{s}_init" for s in sums), *lanes])


def _order(
    ask: Decisions,
    rows: list[str],
    pixels: BlockedLoop | None,
    channels: BlockedLoop,
    *,
    is_gathered: bool,
) -> list[str]:
    """The order of blocks: a window is used for all channels, or weights for all pixels."""
    if pixels is None:
        return [channels.outer]
    # A gathered window would be gathered again for every channel.
    first = ask.choose("first", ["pixels"] if is_gathered else ["pixels", "channels"])
    if first == "pixels":
        return [*rows[:-1], pixels.outer, channels.outer]
    return [*rows[:-1][:1], channels.outer, *rows[:-1][1:], pixels.outer]


def _place_copies(
    schedule: Schedule, ask: Decisions, source: str, rows: list[str], blocks: list[str]
) -> None:
    """Gather the windows of a block of pixels before it; copy the rows that a row reads, or all."""
    if source == "col":
        schedule.compute_at(source, blocks[0], scope="scratch")
    elif source != "x" and len(rows) > 1:
        place_rows(schedule, ask, source, rows[-2])


def _unroll_steps(schedule: Schedule, ask: Decisions, steps: list[str]) -> None:
    """Write some steps of the sums as straight code, so that a loop's own instructions are few."""
    extents = {s: find_loop(schedule.func, s)[0].extent for s in steps}
    inner = [s for s in steps if extents[s] != 1]
    extent = extents[inner[-1]] if inner else None
    if extent is None:
        return
    factor = ask.choose("unroll", divisors(extent, MOST_STRAIGHT))
    if factor < extent:
        _, part = schedule.split(inner[-1], factor)
        unroll_all(schedule, [part])
        return
    schedule.unroll(inner[-1])
    _unroll_more(schedule, ask, inner[-2:-1], extent)


def _unroll_more(schedule: Schedule, ask: Decisions, above: list[str], straight: int) -> None:
    """Write the loop around straight code as straight code, too, where that is not long."""
    extents = [find_loop(schedule.func, name)[0].extent for name in above]
    is_short = all(e is not None and e * straight <= 2 * MOST_STRAIGHT for e in extents)
    if above and is_short and ask.choose("unroll_more", [False, True]):
        unroll_all(schedule, above)
