"""Convolutions and dense of int8 in blocks of pixels and channels, on cores without vectors, or
whose compiler makes them.

for out_p in 0..125 {                         for out_p_o in 0..62 {
  for out_c in 0..64 {                          for out_c_o in 0..16 {
    acc = bias[out_c]                             call ec_sums_2x4_s8(acc, &x[...], stream)
    for acc_k in 0..64 {               ->         for out_p_i in 0..2 {
      acc = acc + x[out_p, acc_k] * ...             for out_c_i in 0..4 {
    }                                                 out[...] = rescaled acc[...]
    out[out_p, out_c] = rescaled acc              } } }
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.errors import ScheduleError
from edgec.loop.primitives.int4 import fits_int4
from edgec.loop.primitives.loops import Tail
from edgec.loop.primitives.shifts import find_shifts
from edgec.loop.primitives.whole_windows import is_clipped
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule
from edgec.targets.common.described import find_offset
from edgec.targets.common.gathered import IMAGE_AXES, fold_offsets
from edgec.targets.common.kernels.sum_blocks import BLOCKS, ONE_PIXEL, ROOM, SUM_BITS, Block
from edgec.targets.common.nests import find_param
from edgec.targets.common.sums import Kind
from edgec.targets.common.weights import finish
from edgec.targets.rule import Nest, Rule

#: The suffix of the loops over the remaining pixels.
END = "_end"
#: Results in straight code.
STRAIGHT = 4
#: The fewest channels for which windows are gathered.
FEWEST_CHANNELS = 8
#: Least number of inputs of a sum: a call costs as many instructions as several inputs.
FEWEST_INPUTS = 8


def is_product(nest: Nest) -> bool:
    """Sums of products of int8 by constant weights, whatever they become, where time is all.

    Blocks need more stack than loops, and some models more code.
    """
    is_for_time = nest.is_fast and not nest.options.prices.least_gain
    if nest.sums is None or nest.dtype != "int8" or not is_for_time:
        return False
    return nest.sums.kind in (Kind.MATRIX, Kind.WINDOWS)


def _is_for_vectors(nest: Nest) -> bool:
    if nest.sums is None or nest.dtype != "int8" or nest.is_small:
        return False
    return nest.sums.kind in (Kind.MATRIX, Kind.WINDOWS)


def _are_bytes(weights: npt.NDArray[Any]) -> bool:
    """Whether these are int8 weights that are not stored in fewer bits."""
    return weights.dtype == "int8" and not fits_int4(weights) and not find_shifts(weights)


def schedules(nest: Nest) -> list[Schedule]:
    """Blocks on the kernels of the core; none where other loops do better."""
    weights, window = nest.tables.get("w"), nest.window
    if weights is None or not _are_bytes(weights):
        return []
    is_gathered = window is not None and not window.is_pixel
    channels, depth = len(weights), weights[0].size
    if depth < FEWEST_INPUTS or channels < is_gathered * FEWEST_CHANNELS:
        return []
    pixels = find_param(nest.func, "out").elements // channels
    for block in _blocks(nest, pixels, channels):
        with suppress(ScheduleError):
            in_blocks = _packed if block.is_packed else _in_blocks
            return [in_blocks(nest, block, depth, is_gathered)]
    return []


def _packed(nest: Nest, block: Block, depth: int, is_gathered: bool) -> Schedule:
    """Four pixels at a time, whose inputs are packed; the last block overlaps the one before."""
    schedule = Schedule(nest.func)
    as_matrix(schedule, is_gathered)
    pixels = find_param(schedule.func, "out").shape[0]
    schedule.gather("acc", "col" if is_gathered else "x", "packed", ["k", "p"], "int8")
    _place(schedule, block, "", ("packed", "col"), tail="shift")
    schedule.simplify()
    schedule.storage_align("packed", -1, ROOM)
    sizes = {"depth": depth, "step": depth}
    schedule.tensorize("acc_p", block.kernel, sizes)
    schedule.tensorize("packed_k", "ec_pack_fours_s8", sizes)
    if is_gathered:
        _gather(nest, schedule, "", f"min(out_p_o*4, {pixels - 4})" if pixels > 4 else "0")
    return finish(nest, schedule)


def _in_blocks(nest: Nest, block: Block, depth: int, is_gathered: bool) -> Schedule:
    schedule = Schedule(nest.func)
    parts = _parts(schedule, block, is_gathered)
    for each, end, _ in parts:
        _place(schedule, each, end)
    schedule.simplify()
    for each, end, first in parts:
        loop = f"acc_p{end}" if each.pixels > 1 else f"acc_c{end}"
        schedule.tensorize(loop, each.kernel, {"depth": depth, "step": depth})
        if is_gathered:
            outer = f"out_p{end}_o"
            at = f"{outer}*{each.pixels} + " if outer in loops_of(schedule.func.body) else ""
            _gather(nest, schedule, end, f"{at}{first}")
    return finish(nest, schedule)


def _blocks(nest: Nest, pixels: int, channels: int) -> Iterator[Block]:
    """The core's blocks that these pixels and channels fill, the best first."""
    key = next((key for key in BLOCKS if key in nest.core.features), "")
    for block in BLOCKS[key]:
        if block.pixels > pixels or channels % block.channels:
            continue
        if not block.is_packed or (channels >= FEWEST_CHANNELS and _has_small_sums(nest)):
            yield block


def _has_small_sums(nest: Nest) -> bool:
    """Whether every sum has `SUM_BITS`, for any inputs."""
    offset = find_offset(nest)
    if offset is None:
        return False
    w = nest.tables["w"].reshape(len(nest.tables["w"]), -1).astype(np.int64)
    bias, low, high = nest.tables["bias"].astype(np.int64), offset - 128, offset + 127
    ends = (np.minimum(low * w, high * w), np.maximum(low * w, high * w))
    least, most = (bias + end.sum(axis=1) for end in ends)
    limit = 1 << (SUM_BITS - 1)
    return bool(least.min() >= -limit and most.max() < limit)


def _parts(schedule: Schedule, block: Block, is_gathered: bool) -> list[tuple[Block, str, int]]:
    """Make out[p, c], sums over k, in blocks and remaining single pixels: for each, the end of its
    names and its first pixel.
    """
    as_matrix(schedule, is_gathered)
    pixels = find_param(schedule.func, "out").shape[0]
    left = pixels % block.pixels
    if not left:
        return [(block, "", 0)]
    copies = ("col", "acc") if is_gathered else ("acc",)
    schedule.cut("out_p", pixels - left, copies, END)
    return [(block, "", 0), (ONE_PIXEL[block.channels], END, pixels - left)]


def as_matrix(schedule: Schedule, is_gathered: bool) -> None:
    """out[p, c] of the sums over k; with inputs gathered where windows are more than pixels."""
    weights = find_param(schedule.func, "w")
    if is_clipped(schedule.func, "acc"):
        schedule.pad_reads("acc", "x", IMAGE_AXES)
    fold_offsets(schedule)
    flatten_sums(schedule)
    if is_gathered:
        schedule.gather("acc", "x", "col", ["p", "k"])
    elif len(weights.shape) == 4:
        schedule.flatten("x", 0, 2)


def flatten_sums(schedule: Schedule) -> None:
    """acc[p, c] over k and out[p, c]: pixels are one axis, and so is a window."""
    weights = find_param(schedule.func, "w")
    if len(weights.shape) == 4:
        schedule.fuse_axes("acc", ["n", "h", "w"], "p")
        schedule.fuse_axes("acc", ["kh", "kw", "ic"], "k")
        schedule.fuse_axes("out", ["d0", "d1", "d2"], "p")
        for buffer, first, last in (("acc", 0, 2), ("out", 0, 2), ("w", 1, 3)):
            schedule.flatten(buffer, first, last)
    else:
        schedule.fuse_axes("acc", ["n"], "p")
        schedule.fuse_axes("out", ["d0"], "p")
    schedule.fuse_axes("out", [f"d{len(weights.shape) - 1}"], "c")


def _place(
    schedule: Schedule, block: Block, end: str, copies: Sequence[str] = ("col",),
    tail: Tail = "exact",
) -> None:  # fmt: skip
    """Split pixels and channels into blocks, and sum a block before it is rescaled.

    copies: of inputs, if there are such, the last one first.
    """
    pixels, pixel = schedule.split(f"out_p{end}", block.pixels, tail=tail)
    channels, channel = schedule.split(f"out_c{end}", block.channels, tail="exact")
    schedule.reorder(pixels, channels, pixel, channel)
    schedule.compute_at(f"acc{end}", channels, scope="register")
    for copy in copies:
        if f"{copy}{end}" in {param.name for param in schedule.func.params}:
            schedule.compute_at(f"{copy}{end}", pixels, scope="scratch")
    schedule.decompose_reduction(f"acc{end}", f"acc_k{end}")
    schedule.unroll(schedule.split(channel, min(STRAIGHT, block.channels), tail="exact")[1])
    if not end:
        schedule.transform_layout("w", f"OK -> O/{block.channels} K O%{block.channels}")


def _gather(nest: Nest, schedule: Schedule, end: str, first: str) -> None:
    """Gather windows with a kernel, pixel by pixel; first: the block's first pixel."""
    window = nest.window
    assert window is not None
    pixel = f"col_p{end} + {first}" if f"col_p{end}" in loops_of(schedule.func.body) else first
    window = replace(window, is_padded=is_clipped(nest.func, "acc"))
    sizes = window.over(find_param(nest.func, "x").shape[0]).sizes
    schedule.tensorize(f"col_k{end}", "ec_gather_pixel_s8", sizes, {"pixel": pixel})


def on_vectors(feature: str) -> Rule:
    """The rule of blocks whose channels are vectors of a core with this feature."""
    return Rule(
        "blocks of sums on vectors", _is_for_vectors, schedules,
        needs=frozenset({feature}), for_size=False, ends_menu=_is_known_faster,
        kernels=("ec_sums_*", "ec_gather_pixel_s8"),
    )  # fmt: skip


def _is_known_faster(nest: Nest, found: list[Schedule]) -> bool:
    """Whether loops need not be offered: estimates of these are for Armv7-M, and far too low for
    cores with less. Rows of one layer would else keep its weights in two orders.
    """
    return nest.in_rows or not nest.core.has("thumb2")


RULES = (
    Rule(
        "blocks of sums", is_product, schedules,
        lacks=frozenset({"dsp"}), for_size=False, ends_menu=_is_known_faster,
        kernels=("ec_sums_*", "ec_pack_fours_s8", "ec_gather_pixel_s8"),
    ),
)  # fmt: skip
