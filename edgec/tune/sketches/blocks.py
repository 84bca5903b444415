"""Shared by the sketches: blocks of loops, sums in registers, straight code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from edgec.loop.ir import For
from edgec.loop.primitives.lookup import find_block, find_loop, reduce_vars
from edgec.loop.primitives.whole_windows import is_clipped
from edgec.loop.rewrite import buffers_of, loops_of
from edgec.loop.schedule import Schedule
from edgec.tune.decisions import Decisions

#: Copies of inputs.
COPIES = ("col", "padded", "plane")
#: Sizes of blocks of pixels.
PIXELS = (1, 2, 3, 4, 5, 6, 8)


@dataclass(frozen=True)
class BlockedLoop:
    """A loop in blocks of `size` steps; is_exact: the size divides the loop's extent."""

    outer: str
    inner: str
    size: int
    is_exact: bool


def block_loop(
    schedule: Schedule, ask: Decisions, loop: str, name: str, sizes: Sequence[int]
) -> BlockedLoop:
    """Split a loop into blocks of one of these sizes. Where it does not divide the extent, the last
    block does some elements again.
    """
    extent = find_loop(schedule.func, loop)[0].extent or 1
    size = ask.choose(name, [n for n in sizes if n <= extent])
    is_exact = extent % size == 0
    outer, inner = schedule.split(loop, size, tail="exact" if is_exact else "shift")
    return BlockedLoop(outer, inner, size, is_exact)


def block_pixels(schedule: Schedule, ask: Decisions, loop: str, most: int) -> BlockedLoop:
    """Split a loop over pixels into blocks of at most `most`."""
    if is_clipped(schedule.func, "acc"):
        most = 1  # pixels side by side have windows of different sizes
    return block_loop(schedule, ask, loop, "pixels", [n for n in PIXELS if n <= most])


def decompose_sums(
    schedule: Schedule, block: str, names: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Start a block's sums in a separate nest. Returns its loops over elements, and its loops over
    steps, from `names`.
    """
    found, path = find_block(schedule.func, block)
    around = [stmt.var.name for stmt in path if isinstance(stmt, For)]
    around = [name for name in around if name.startswith(f"{block}_")]
    sums = [name for name in around if name not in names]
    if reduce_vars(found) and found.init is not None:
        schedule.decompose_reduction(block, sums[0] if sums else None)
    return sums, [name for name in around if name in names]


def place_temporaries(schedule: Schedule, loop: str) -> None:
    """Make all temporaries but copies of inputs in the innermost block, in registers."""
    names = [b.name for b in schedule.func.params if b.scope == "scratch"]
    for name in reversed(names):
        if name not in COPIES:
            schedule.compute_at(name, loop, scope="register")
    unroll_all(schedule, [n for n in loops_of(schedule.func.body) if n.startswith("element_")])


def place_rows(schedule: Schedule, ask: Decisions, copy: str, loop: str) -> None:
    """Copy only the inputs of a row of outputs, once for each row, or all together."""
    if ask.choose("copied", ["rows", "whole"]) == "rows":
        schedule.compute_at(copy, loop, scope="scratch")


def divisors(extent: int, most: int) -> list[int]:
    return [n for n in range(1, most + 1) if extent % n == 0]


def unroll_all(schedule: Schedule, loops: Iterable[str]) -> None:
    """Unroll these loops, if they exist."""
    known = loops_of(schedule.func.body)
    for name in loops:
        if name in known and find_loop(schedule.func, name)[0].extent is not None:
            schedule.unroll(name)


def finish(schedule: Schedule, ask: Decisions) -> None:
    """Decide whether constants hold shifts to the right, or their complements."""
    if "shift" in buffers_of(schedule.func) and ask.choose("complement", [True, False]):
        schedule.complement("shift")
