"""Functions that first reduce rows (softmax), and functions without temporaries."""

from __future__ import annotations

from edgec.loop.access import accesses, region
from edgec.loop.intrinsics import get_intrinsic
from edgec.loop.ir import Block, For, Intrinsic, Load, PrimFunc, Store
from edgec.loop.primitives.lookup import find_loop, loops_on
from edgec.loop.rewrite import loops_of, statements, subexpressions
from edgec.loop.schedule import Schedule
from edgec.targets.common.nests import decompose, find_param, largest_divisor, output_loops

#: Elements in straight code, so that the loop's own instructions are shared.
UNROLLED_ELEMENTS = 4
#: The same for elements that are only moved: each takes a load and a store.
MOVED_ELEMENTS = 8
#: The fewest elements to unroll, if several statements compute one element.
FEWEST_ELEMENTS = 100
#: The name of partial sums, which are added up to a row's total.
PART = "part"
#: From this many instructions of a function on, unrolling saves too little time for its bytes.
LONG_FUNCTION = 30


def schedule_elements(schedule: Schedule, straight: int) -> None:
    """One stage without temporaries: `straight` elements at a time; a sum stays a plain loop."""
    loops = output_loops(schedule.func, "out", "out")
    if not loops or loops[-1] not in loops_of(schedule.func.body):
        return
    factor = largest_divisor(find_param(schedule.func, "out").shape[-1], straight)
    if factor > 1:
        _, inner = schedule.split(loops[-1], factor)
        schedule.unroll(inner)


def schedule_moves(schedule: Schedule) -> None:
    """Elements that are only moved; where constants choose columns, each place is loaded once.

    for d0 in 0..16 {                            for d1 in 0..32 {
      for d1 in 0..32 {                   ->       for d0_o in 0..2 { unrolled for d0_i in 0..8 {
        out[d0, d1] = x[d0, at[d1]]                  out[d0_o*8 + d0_i, d1] = x[.., at[d1]]
    """
    loops = output_loops(schedule.func, "out", "out")
    is_one_nest = len(loops) > 1 and loops_of(schedule.func.body).keys() >= {*loops}
    if is_one_nest and _chooses_columns(schedule.func):
        *_, outer, inner = loops
        factor = largest_divisor(find_param(schedule.func, "out").shape[-2], MOVED_ELEMENTS)
        if factor >= UNROLLED_ELEMENTS:
            schedule.reorder(inner, outer)
            schedule.unroll(schedule.split(outer, factor)[1])
            return
    schedule_elements(schedule, MOVED_ELEMENTS)


def _chooses_columns(func: PrimFunc) -> bool:
    """Whether constants indexed only by the last index decide which elements are moved there."""
    stores = [stmt for stmt in statements(func.body) if isinstance(stmt, Store)]
    found = [
        {var for index in part.indices for var in index.variables()}
        == set(store.indices[-1].variables())
        for store in stores
        for part in subexpressions(store.value)
        if isinstance(part, Load) and part.buffer.scope == "constant"
    ]
    return bool(found) and all(found)


def schedule_rows(schedule: Schedule, straight: int) -> None:
    """Temporaries of one element per row (softmax) become registers; others stay in scratch.

    So do temporaries with one element for each output element. Pairs, such as complex numbers, and
    the elements of short rows are straight code.
    """
    _gather_elements(schedule)
    func = schedule.func
    rank = len(find_param(func, "out").shape)
    names = [b for b in func.params if b.scope == "scratch"]
    if not names:
        is_few = find_param(func, "out").elements < FEWEST_ELEMENTS
        schedule_elements(schedule, 1 if is_few or _is_long(func) else straight)
    elif f"out_d{rank - 2}" in loops_of(func.body) and all(
        len(b.shape) == rank - 1 or b.name == PART for b in names
    ):
        for buffer in reversed(names):
            at = "total_part" if buffer.name == PART else f"out_d{rank - 2}"
            schedule.compute_at(buffer.name, at)
            loops = {s.var.name for s in statements(schedule.func.body) if isinstance(s, For)}
            if {f"{buffer.name}_k", f"{buffer.name}_part"} & loops:
                decompose(schedule, buffer.name)
        if not _is_long(schedule.func):
            _unroll_pairs(schedule)
    elif straight > 1:
        _unroll_pairs(schedule)


def _unroll_pairs(schedule: Schedule) -> None:
    """Straight code for innermost loops of two steps."""
    for name, loop in loops_of(schedule.func.body).items():
        if loop.extent == 2 and isinstance(loop.body, Block):
            schedule.unroll(name)


def _gather_elements(schedule: Schedule) -> None:
    """Compute temporaries where they are used, the last one first, while each is used once.

    The next one back may then be one of these.
    """
    func = schedule.func
    loops = output_loops(func, "out", "out")
    if not loops or loops[-1] not in loops_of(func.body):
        return
    for name in reversed([b.name for b in func.params if b.scope == "scratch"]):
        if not _is_used_once(schedule.func, name, loops[-1]):
            return
        schedule.compute_at(name, loops[-1])
        decompose(schedule, name)


def _is_long(func: PrimFunc) -> bool:
    """Whether an element's function has so much code that its loop's own hardly counts."""
    return any(
        get_intrinsic(part.name).instructions >= LONG_FUNCTION
        for stmt in statements(func.body)
        if isinstance(stmt, Store)
        for part in subexpressions(stmt.value)
        if isinstance(part, Intrinsic)
    )


def _is_used_once(func: PrimFunc, name: str, innermost: str) -> bool:
    """Whether each element of the output reads one element of a temporary, and no two the same."""
    buffer = find_param(func, name)
    loop, above = find_loop(func, innermost)
    box = region(buffer, loop.body, outer=loops_on(*above, loop), only="reads")
    if box is None or any(extent.constant != 1 for extent in box.extents()):
        return False
    inside, all_reads = (
        sum(not access.is_write for access in accesses(stmt, of=(buffer,)))
        for stmt in (loop.body, func.body)
    )
    return inside == all_reads and buffer.elements >= find_param(func, "out").elements
