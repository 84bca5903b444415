"""What only moves elements, in rows that lie side by side: each row is one copy."""

from __future__ import annotations

from math import prod

from edgec.errors import ScheduleError
from edgec.loop.ir import Block, For, Gather, Load, Stmt, Store
from edgec.loop.move_rows import PUT, SHIFT, TAKE, kernel_for
from edgec.loop.rewrite import statements
from edgec.loop.schedule import Schedule
from edgec.targets.rule import Nest

#: Shorter rows are not worth a copy; up to the most, GCC writes it as loads and stores.
LEAST_BYTES, MOST_INLINE = 8, 64
BYTES = {"int8": 1, "int16": 2, "int32": 4, "float32": 4}


def is_copy(nest: Nest) -> bool:
    """Whether elements are stored as they are loaded, and nothing else is done."""
    stores = [each for each in statements(nest.func.body) if isinstance(each, Store)]
    return bool(stores) and all(isinstance(store.value, (Load, Gather)) for store in stores)


def schedule_copies(nest: Nest) -> list[Schedule]:
    """The longest rows that are whole on both sides as copies; empty if there are none.

    Two ways: in the second one also short rows take a call, and may overlap where they come from.

    for part_d1 in 0..16 {                          for part_d1 in 0..16 {
      for part_d2 in 0..8 {                   ->      ec_put_row_s8(x[part_d1], out[part_d1], 8)
        out[part_d1, part_d2] = x[part_d1, part_d2]
    """
    found = [made for most in (MOST_INLINE, 0) if (made := _all_copied(nest, most)) is not None]
    return list({made.func: made for made in found}.values())


def _all_copied(nest: Nest, most_inline: int) -> Schedule | None:
    schedule, changed = nest.schedule(), False
    chains = _chains(nest.func.body)
    if all(len(loops) == 1 for loops, _ in chains):  # C compilers make copies of these themselves
        return None
    for loops, store in chains:
        for first in range(len(loops)):
            made = _copied(schedule, loops[first:], store, most_inline)
            if made is not None:
                schedule, changed = made, True
                break
    return schedule if changed else None


def _copied(
    schedule: Schedule, loops: list[For], store: Store, most_inline: int
) -> Schedule | None:
    """The schedule with these loops as one copy, if their elements lie side by side."""
    dtype = store.buffer.dtype
    row = prod(loop.stop.offset for loop in loops)
    size = row * BYTES.get(dtype, 0)
    is_open = any(loop.start.offset or loop.start.parts or loop.stop.parts for loop in loops)
    if is_open or size < LEAST_BYTES:
        return None
    trial = schedule.copy()
    try:
        name = loops[0].var.name
        for loop in loops[1:]:
            name = trial.fuse(name, loop.var.name)
        trial.simplify()
        _tensorize(trial, name, store, row, PUT if size <= most_inline else SHIFT)
    except ScheduleError:
        return None
    return trial


def _tensorize(schedule: Schedule, loop: str, store: Store, row: int, kernel: str) -> None:
    """The loop as a copy, of the row that a place names where data choose it."""
    sizes, dtype = {"row": row}, store.buffer.dtype
    if isinstance(store.value, Gather):
        schedule.hold_places(loop)
        sizes["rows"], kernel = store.value.buffer.shape[0], TAKE
    schedule.tensorize(loop, kernel_for(dtype, kernel), sizes)


def _chains(body: Stmt) -> list[tuple[list[For], Store]]:
    """The loops directly around each store, outermost first."""
    found = []
    for stmt in statements(body):
        loops: list[For] = []
        while isinstance(stmt, For | Block) and not (isinstance(stmt, Block) and stmt.init):
            loops += [stmt] if isinstance(stmt, For) else []
            stmt = stmt.body
        if isinstance(stmt, Store) and loops:
            found.append((loops, stmt))
    longest = {id(store): loops for loops, store in reversed(found)}
    return [(longest[key], store) for key, store in {id(s): s for _, s in found}.items()]
