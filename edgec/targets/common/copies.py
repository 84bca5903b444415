"""Nests that only move elements, in contiguous rows: each row is one copy."""

from __future__ import annotations

from math import prod

from edgec.errors import ScheduleError
from edgec.loop.ir import Block, Const, Expr, For, Gather, IndexValue, Load, Select, Stmt, Store
from edgec.loop.move_rows import MOVE, PUT, SHIFT, TAKE, kernel_for
from edgec.loop.primitives.cut import turning_points
from edgec.loop.rewrite import blocks_of, loops_of, statements
from edgec.loop.schedule import Schedule
from edgec.numerics.term import as_term
from edgec.targets.rule import Nest, Rule

#: A copy of shorter rows gains nothing; up to the largest, GCC writes it as loads and stores.
LEAST_BYTES, MOST_INLINE = 4, 64
#: Shorter rows take no call, on cores that load only aligned words.
LEAST_CALLED = 16
WORD = 4
BYTES = {"int8": 1, "int16": 2, "int32": 4, "float32": 4}


def is_copy(nest: Nest) -> bool:
    """Whether all stores are of loaded elements or constants."""
    stores = [each for each in statements(nest.func.body) if isinstance(each, Store)]
    return bool(stores) and all(_is_moved(store.value) for store in stores)


def _is_moved(value: Expr) -> bool:
    if isinstance(value, Select):
        return _is_moved(value.yes) and _is_moved(value.no)
    return isinstance(value, (Load, Gather, Const))


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
    _cut_padding(schedule)
    chains = _chains(schedule.func.body)
    if all(len(loops) == 1 for loops, _ in chains):  # C compilers make copies of these themselves
        return None
    for loops, store in chains:
        for first in range(len(loops)):
            made = _copied(nest, schedule, loops[first:], store, most_inline)
            if made is not None:
                schedule, changed = made, True
                break
    return schedule if changed else None


def _copied(
    nest: Nest, schedule: Schedule, loops: list[For], store: Store, most_inline: int
) -> Schedule | None:
    """The schedule with these loops as one copy, if their elements lie side by side."""
    row = _elements(loops)
    size = row * BYTES.get(store.buffer.dtype, 0)
    if row < 2 or not size or isinstance(store.value, Const):
        return None
    trial = schedule.copy()
    try:
        name = loops[0].var.name
        for loop in loops[1:]:
            name = trial.fuse(name, loop.var.name)
        trial.simplify()
        _tensorize(trial, name, store, row, _kernel(nest, store, size, most_inline))
    except ScheduleError:
        return None
    return trial


def _elements(loops: list[For]) -> int:
    """Number of steps of loops that all start at 0; 0 if it is open."""
    is_open = any(loop.start != as_term(0) or loop.stop.parts for loop in loops)
    return 0 if is_open else prod(loop.stop.offset for loop in loops)


def _spends_code(nest: Nest) -> bool:
    """Whether to spend code on the faster copy: for time, and where values grow in place.

    On cores that cannot load words anywhere it always is.
    """
    stores = [each.value for each in statements(nest.func.body) if isinstance(each, Store)]
    grows = any(isinstance(value, (Const, Select)) for value in stores)
    return grows or nest.is_fast or not nest.core.has("unaligned")


def _kernel(nest: Nest, store: Store, size: int, most_inline: int) -> str:
    """The kernel for rows of `size` bytes. Raises ScheduleError if they are too short for any."""
    inlines = nest.core.has("unaligned") or BYTES[store.buffer.dtype] == WORD
    if size < (LEAST_BYTES if inlines else LEAST_CALLED):
        raise ScheduleError(f"a copy of rows of {size} bytes gains nothing")
    if isinstance(store.value, Gather):
        return TAKE
    return PUT if inlines and size <= most_inline else MOVE if _spends_code(nest) else SHIFT


def _cut_padding(schedule: Schedule) -> None:
    """Split padding and inner elements into separate loops, each from 0 on."""
    stores = [each for each in statements(schedule.func.body) if isinstance(each, Store)]
    if not any(isinstance(store.value, Select) for store in stores):
        return
    schedule.simplify()
    while points := _turning(schedule.func.body):
        (name, at), *_ = points
        made = schedule.cut(name, at, (), _unused_suffix(schedule, f"_{at}"))
        loop = loops_of(schedule.func.body)[made]
        schedule.split(made, (loop.stop - loop.start).offset)
        schedule.simplify()


def _unused_suffix(schedule: Schedule, suffix: str) -> str:
    """The suffix, or the first longer one that no loop or block has.

    Two axes cut at the same step would otherwise use one name twice: for the inner loop, which is
    also copied with the outer one.
    """
    body = schedule.func.body
    used = (*loops_of(body), *blocks_of(body))
    while any(name.endswith(suffix) for name in used):
        suffix += "_more"
    return suffix


def _turning(body: Stmt) -> list[tuple[str, int]]:
    """Loops whose steps are padding from some step on, or up to it, and the last such step."""
    found: dict[str, int] = {}
    stops = {name: loop.stop.offset for name, loop in loops_of(body).items()}
    for store in statements(body):
        if isinstance(store, Store) and isinstance(store.value, Select):
            for var, at in turning_points(store.value.condition):
                if 0 < at < stops[var.name]:
                    found[var.name] = max(found.get(var.name, 0), at)
    return list(found.items())


def _tensorize(schedule: Schedule, loop: str, store: Store, row: int, kernel: str) -> None:
    """The loop as a copy, of the row that a place names where data choose it."""
    sizes = {"row": row}
    if isinstance(store.value, Gather):
        schedule.hold_places(loop)
        of = store.value.buffer
        sizes["rows"] = next(
            extent for extent, index in zip(of.shape, store.value.indices, strict=True)
            if not isinstance(index, IndexValue)
        )  # fmt: skip
    schedule.tensorize(loop, kernel_for(store.buffer.dtype, kernel), sizes)


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


RULE = Rule(
    "rows copied", is_copy, schedule_copies,
    kernels=("ec_put_row_*", "ec_shift_row_*", "ec_move_row_*", "ec_take_row_*"),
)  # fmt: skip
