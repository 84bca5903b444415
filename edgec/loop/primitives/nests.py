"""A block's own loop nest, and the same nest for a part of its elements."""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgec.errors import ScheduleError
from edgec.loop.access import Access, Region, accesses, count_writes
from edgec.loop.ir import Block, Buffer, For, If, PrimFunc, Stmt, Store
from edgec.loop.primitives.lookup import blocks_inside, find_block
from edgec.loop.rewrite import statements
from edgec.numerics.term import Term, TermLike, Var, as_term


@dataclass(frozen=True)
class Nest:
    """A block with the loops and guards that contain only this block, outermost first."""

    root: Stmt
    around: tuple[For | If, ...]
    block: Block


def own_nest(func: PrimFunc, name: str) -> Nest:
    """The largest chain of loops and guards that runs only this block."""
    block, path = find_block(func, name)
    around: list[For | If] = []
    for stmt in reversed(path):
        if isinstance(stmt, For) or (isinstance(stmt, If) and stmt.otherwise is None):
            around.insert(0, stmt)
        else:
            break
    return Nest(around[0] if around else block, tuple(around), block)


def writers(func: PrimFunc, buffer: Buffer) -> list[Block]:
    """The blocks that write the buffer, in order; ScheduleError if a bare statement does."""
    counts = [(block, count_writes(block, buffer)) for block in blocks_inside(func.body)]
    if count_writes(func.body, buffer) != sum(count for _, count in counts):
        raise ScheduleError(f"buffer {buffer.name} is also written outside of blocks")
    return [block for block, count in counts if count]


def written_buffer(block: Block) -> Buffer:
    """The one buffer that the block writes."""
    found = {a.buffer for a in accesses(block) if a.is_write}
    if len(found) != 1:
        names = ", ".join(sorted(b.name for b in found))
        raise ScheduleError(f"block {block.name} writes several buffers: {names}")
    return found.pop()


def plain_axis(index: Term) -> tuple[Var, int] | None:
    """(axis, offset) of an index `axis + offset`, else None."""
    if len(index.parts) == 1:
        atom, coefficient = index.parts[0]
        if isinstance(atom, Var) and coefficient == 1:
            return atom, index.offset
    return None


def axis_positions(
    block: Block, indices: tuple[Term, ...], buffer: Buffer
) -> dict[Var, tuple[int, int]]:
    """Return for each axis that indexes the buffer its dimension and the offset added to it."""
    found: dict[Var, tuple[int, int]] = {}
    for dimension, index in enumerate(indices):
        if index.constant is not None:
            continue
        plain = plain_axis(index)
        if plain is None:
            raise ScheduleError(
                f"block {block.name} accesses {buffer.name} at {index}, which is not an axis"
            )
        found[plain[0]] = (dimension, plain[1])
    return found


def store_indices(block: Block, buffer: Buffer) -> tuple[Term, ...]:
    """Indices of the block's stores into the buffer, in terms of its axes; all must be the same."""
    stores = [s for s in statements(block) if isinstance(s, Store) and s.buffer == buffer]
    if len({s.indices for s in stores}) != 1:
        raise ScheduleError(f"block {block.name} stores into several places of {buffer.name}")
    return stores[0].indices


def _require_closed(nest: Nest) -> None:
    """ScheduleError if the block depends on a loop that also runs something else."""
    own: frozenset[Var] = frozenset(s.var for s in nest.around if isinstance(s, For))
    used: frozenset[Var] = frozenset()
    for stmt in nest.around:
        terms = (stmt.start, stmt.stop) if isinstance(stmt, For) else (stmt.left, stmt.right)
        used |= terms[0].variables() | terms[1].variables()
    for axis in nest.block.axes:
        used |= axis.binding.variables()
    if used - own:
        name = min(v.name for v in used - own)
        raise ScheduleError(
            f"loop {name} of block {nest.block.name} also runs something else",
            hint="move the block before its reduction is decomposed or its input cached",
        )


def restrict(nest: Nest, ranges: dict[Var, tuple[Term, Term]]) -> Stmt:
    """The nest for a part of the block's elements.

    ranges: start and stop of block axes, in variables visible where the nest will stand. Each such
    axis must be bound to one loop, which is replaced by a loop over its range (of the same name),
    or by nothing where the range is a single value.
    """
    _require_closed(nest)
    by_loop: dict[Var, tuple[Term, Term]] = {}
    for axis in nest.block.axes:
        if axis.var not in ranges or axis.binding.constant is not None:
            continue
        plain = plain_axis(axis.binding)
        if plain is None or plain[1]:
            raise ScheduleError(
                f"axis {axis.var.name} of block {nest.block.name} is bound to {axis.binding}, "
                "not to one loop",
                hint="move the block before its loops are split or fused",
            )
        by_loop[plain[0]] = ranges[axis.var]
    values: dict[Var, TermLike] = {}
    around: list[For | If] = []
    for stmt in nest.around:
        if isinstance(stmt, If):
            left, right = stmt.left.substitute(values), stmt.right.substitute(values)
            around.append(If(left, right, stmt.body))
        elif stmt.var in by_loop:
            start, stop = by_loop[stmt.var]
            if (stop - start).constant == 1:
                values[stmt.var] = start
                continue
            var = Var(stmt.var.name, 0, max((stop - start).bounds()[1], 1))
            fixed = (stop - start).constant is not None
            kind = "serial" if stmt.kind in ("unrolled", "vectorized") and not fixed else stmt.kind
            around.append(For(var, as_term(0), stop - start, kind, stmt.body))
            values[stmt.var] = start + as_term(var)
        else:
            start, stop = stmt.start.substitute(values), stmt.stop.substitute(values)
            var = stmt.var
            low, high = start.bounds()[0], stop.bounds()[1]
            if low < var.start or high > var.stop:  # the new terms say less about the range
                var = Var(var.name, min(low, var.start), max(high, var.stop))
                values[stmt.var] = as_term(var)
            around.append(replace(stmt, var=var, start=start, stop=stop))
    axes = tuple(replace(a, binding=a.binding.substitute(values)) for a in nest.block.axes)
    stmt_new: Stmt = replace(nest.block, axes=axes)
    for level in reversed(around):
        stmt_new = replace(level, body=stmt_new)
    return stmt_new


def ranges_of(positions: dict[Var, tuple[int, int]], box: Region) -> dict[Var, tuple[Term, Term]]:
    """The range of each axis whose index (axis + offset) stays in the box."""
    return {
        axis: (box.starts[d] - offset, box.stops[d] - offset)
        for axis, (d, offset) in positions.items()
    }


def require_box(access: Access) -> None:
    """ScheduleError unless the stores fill a box: then nothing unready is consumed."""
    used: set[Var] = set()
    for index in access.indices or ():
        size = 1
        steps = []
        for loop in access.loops:
            part = dict(index.parts).get(loop.var)
            if part is None:
                continue
            extent = loop.extent
            if loop.var in used or (extent is None and part != 1):
                raise ScheduleError(f"{access.buffer.name}[{index}] does not fill a box")
            used.add(loop.var)
            steps.append((part, extent or 1))
        for part, extent in sorted(steps):
            if part != size:
                raise ScheduleError(f"{access.buffer.name}[{index}] does not fill a box")
            size *= extent
