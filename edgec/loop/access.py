"""The reads and writes of a statement, and the box of a buffer that a subtree accesses.

Indices are terms of loop variables: a block's axes are replaced by their bindings. A box has term
bounds over the variables of the loops *outside* the subtree; it may be larger than the accessed
part, never smaller.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from edgec.loop.ir import (
    Block,
    Buffer,
    BufferRef,
    Call,
    Expr,
    For,
    Gather,
    Load,
    Seq,
    Stmt,
    Store,
    While,
)
from edgec.loop.rewrite import children, expressions, subexpressions
from edgec.numerics.term import (
    Atom,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Product,
    Term,
    Var,
    as_term,
    floor_div,
    floor_mod,
    maximum,
    minimum,
)


@dataclass(frozen=True)
class Access:
    """One place that reads or writes a buffer.

    `indices` is None where they are not known (a table look-up, a pointer given to a call): any
    element. `loops` are the loops around it inside the statement asked about, outermost first.
    """

    buffer: Buffer
    indices: tuple[Term, ...] | None
    loops: tuple[For, ...]
    is_write: bool


@dataclass(frozen=True)
class Region:
    """A box of a buffer: dimension i spans [starts[i], stops[i])."""

    starts: tuple[Term, ...]
    stops: tuple[Term, ...]

    def extents(self) -> tuple[Term, ...]:
        """The size of each dimension."""
        return tuple(b - a for a, b in zip(self.starts, self.stops, strict=True))

    def largest_extents(self) -> tuple[int, ...]:
        """The size of each dimension that is enough for any outer iteration."""
        return tuple(max(e.bounds()[1], 1) for e in self.extents())


def accesses(
    stmt: Stmt, loops: tuple[For, ...] = (), *, of: Collection[Buffer] | None = None
) -> list[Access]:
    """Every read and write inside, in textual order; of a store, the reads come first.

    of: the buffers asked about, all if None.
    """
    found: list[Access] = []
    _collect(stmt, loops, of, {}, found)
    return found


def _collect(
    stmt: Stmt,
    loops: tuple[For, ...],
    of: Collection[Buffer] | None,
    values: Mapping[Var, Term],
    found: list[Access],
) -> None:
    """Add the accesses, with the axes of the blocks around replaced by their `values`."""
    if not _is_touched(stmt, of):
        return
    if isinstance(stmt, (Store, Call)):
        _collect_own(stmt, loops, of, values, found)
        return
    if isinstance(stmt, For):
        loops = (*loops, _with_values(stmt, values))
    elif isinstance(stmt, Block):
        values = {**values, **{a.var: a.binding.substitute(values) for a in stmt.axes}}
    inside = children(stmt)
    before = int(isinstance(stmt, While))  # its head runs before its condition
    for child in inside[:before]:
        _collect(child, loops, of, values, found)
    for condition in expressions(stmt):
        found += _reads(condition, loops, of, values)
    for child in inside[before:]:
        _collect(child, loops, of, values, found)


def _collect_own(
    stmt: Store | Call,
    loops: tuple[For, ...],
    of: Collection[Buffer] | None,
    values: Mapping[Var, Term],
    found: list[Access],
) -> None:
    for value in expressions(stmt):
        found += _reads(value, loops, of, values)
    if isinstance(stmt, Store):
        if _is_asked(stmt.buffer, of):
            found.append(Access(stmt.buffer, _substituted(stmt.indices, values), loops, True))
        return
    for argument in stmt.args:
        if isinstance(argument, BufferRef) and _is_asked(argument.buffer, of):
            found += _pointer(argument, loops, values)


def _with_values(loop: For, values: Mapping[Var, Term]) -> For:
    if not values:
        return loop
    start, stop = loop.start.substitute(values), loop.stop.substitute(values)
    return For(loop.var, start, stop, loop.kind, loop.body)


def _substituted(indices: tuple[Term, ...], values: Mapping[Var, Term]) -> tuple[Term, ...]:
    return tuple(index.substitute(values) for index in indices) if values else indices


def _pointer(
    ref: BufferRef, loops: tuple[For, ...], values: Mapping[Var, Term]
) -> Iterator[Access]:
    """The accesses of a callee through a pointer: with the pointer's box, if it is known."""
    indices: tuple[Term, ...] | None = None
    if ref.use:
        steps = [Var(f"box{d}", 0, extent) for d, extent in enumerate(ref.box)]
        nothing = Seq(())
        boxes = (For(v, as_term(0), as_term(v.stop), "serial", nothing) for v in steps)
        loops = (*loops, *boxes)
        starts = _substituted(ref.indices, values)
        indices = tuple(i + v for i, v in zip(starts, steps, strict=True))
    if ref.use != "writes":
        yield Access(ref.buffer, indices, loops, False)
    if ref.use != "reads" and ref.buffer.scope != "constant":
        yield Access(ref.buffer, indices, loops, True)


def _reads(
    expr: Expr,
    loops: tuple[For, ...] = (),
    of: Collection[Buffer] | None = None,
    values: Mapping[Var, Term] = MappingProxyType({}),
) -> Iterator[Access]:
    for part in subexpressions(expr):
        if isinstance(part, (Load, Gather)) and (of is None or part.buffer in of):
            indices = _substituted(part.indices, values) if isinstance(part, Load) else None
            yield Access(part.buffer, indices, loops, False)


def flat_address(buffer: Buffer, indices: tuple[Term, ...]) -> Term:
    """The position of an element in memory."""
    return flat_term(indices, buffer.shape)


def flat_term(indices: Sequence[Term], shape: Sequence[int]) -> Term:
    """The position of an element in an array of this shape."""
    total = as_term(0)
    for index, extent in zip(indices, shape, strict=True):
        total = total * extent + index
    return total


def reads(stmt: Stmt) -> frozenset[Buffer]:
    """The buffers read inside."""
    return frozenset(_touched(stmt)[0])


def writes(stmt: Stmt) -> frozenset[Buffer]:
    """The buffers written inside."""
    return frozenset(_touched(stmt)[1])


def count_uses(stmt: Stmt, buffer: Buffer) -> int:
    """Number of reads and writes of the buffer in the statement."""
    return sum(found.get(buffer, 0) for found in _touched(stmt))


def count_writes(stmt: Stmt, buffer: Buffer) -> int:
    """Number of writes of the buffer in the statement."""
    return _touched(stmt)[1].get(buffer, 0)


def _is_asked(buffer: Buffer, of: Collection[Buffer] | None) -> bool:
    return of is None or buffer in of


def _is_touched(stmt: Stmt, of: Collection[Buffer] | None) -> bool:
    return of is None or not all(found.keys().isdisjoint(of) for found in _touched(stmt))


#: How many accesses of each buffer there are.
_Counts = dict[Buffer, int]


def _touched(stmt: Stmt) -> tuple[_Counts, _Counts]:
    """Reads and writes inside; remembered with the statement, which never changes."""
    known: tuple[_Counts, _Counts] | None = stmt.__dict__.get("_touched")
    if known is None:
        inside, conditions = children(stmt), expressions(stmt)
        if len(inside) == 1 and not conditions:
            known = _touched(inside[0])
        else:
            is_leaf = isinstance(stmt, (Store, Call))
            own = accesses(stmt) if is_leaf else [a for e in conditions for a in _reads(e)]
            known = _counted(own, [_touched(child) for child in inside])
        stmt.__dict__["_touched"] = known
    return known


def _counted(
    own: Sequence[Access], inside: Sequence[tuple[_Counts, _Counts]]
) -> tuple[_Counts, _Counts]:
    """Numbers of reads and of writes, by buffer: these accesses and the statements inside."""
    total: tuple[_Counts, _Counts] = ({}, {})
    for access in own:
        counts = total[access.is_write]
        counts[access.buffer] = counts.get(access.buffer, 0) + 1
    for pair in inside:
        for counts, more in zip(total, pair, strict=True):
            for buffer, count in more.items():
                counts[buffer] = counts.get(buffer, 0) + count
    return total


def region(
    buffer: Buffer,
    stmt: Stmt,
    *,
    outer: Sequence[For] = (),
    only: str = "both",
    shape: Sequence[int] | None = None,
) -> Region | None:
    """The box of the buffer touched inside the statement, or None if it is not touched.

    `only` is "reads", "writes" or "both". The box is clipped to `shape`, the buffer's if none is
    given, where the loops around the statement, `outer`, do not show that it stays inside.
    """
    box: Region | None = None
    for access in accesses(stmt, of=(buffer,)):
        if only == ("reads" if access.is_write else "writes"):
            continue
        one = _box(access)
        if box is not None:
            one = Region(
                tuple(minimum(a, b) for a, b in zip(box.starts, one.starts, strict=True)),
                tuple(maximum(a, b) for a, b in zip(box.stops, one.stops, strict=True)),
            )
        box = one
    if box is None:
        return None
    starts = tuple(a if term_range(a, outer)[0] >= 0 else maximum(a, 0) for a in box.starts)
    stops = tuple(
        b if term_range(b, outer)[1] <= e else minimum(b, e)
        for b, e in zip(box.stops, buffer.shape if shape is None else shape, strict=True)
    )
    return Region(starts, stops)


def _box(access: Access) -> Region:
    if access.indices is None:
        shape = access.buffer.shape
        return Region(tuple(as_term(0) for _ in shape), tuple(as_term(e) for e in shape))
    spans = [span(index, access.loops) for index in access.indices]
    return Region(tuple(low for low, _ in spans), tuple(high + 1 for _, high in spans))


def span(term: Term, loops: Sequence[For]) -> tuple[Term, Term]:
    """Smallest and largest value (inclusive) while the loops run, in terms of outer variables.

    The loops are given outermost first; a loop's range may depend on loops before it.
    """
    low = high = term
    for loop in reversed(loops):
        if loop.var not in low.variables() and loop.var not in high.variables():
            continue
        last = loop.stop - 1
        low = _extreme(low, loop.var, loop.start, last, want_low=True)
        high = _extreme(high, loop.var, loop.start, last, want_low=False)
    return low, high


def _extreme(term: Term, var: Var, first: Term, last: Term, *, want_low: bool) -> Term:
    if var not in term.variables():
        return term
    total = as_term(term.offset)
    for atom, coefficient in term.parts:
        low = want_low == (coefficient > 0)
        total = total + _extreme_atom(atom, var, first, last, want_low=low) * coefficient
    return total


def _extreme_atom(atom: Atom, var: Var, first: Term, last: Term, *, want_low: bool) -> Term:
    if isinstance(atom, Var):
        if atom != var:
            return as_term(atom)
        return first if want_low else last
    if isinstance(atom, Product):  # sizes know nothing of loops
        return Term(((atom, 1),), 0)
    if isinstance(atom, (Min, Max)):
        left = _extreme(atom.left, var, first, last, want_low=want_low)
        right = _extreme(atom.right, var, first, last, want_low=want_low)
        return minimum(left, right) if isinstance(atom, Min) else maximum(left, right)
    if var not in atom.dividend.variables():
        return Term(((atom, 1),), 0)
    low = _extreme(atom.dividend, var, first, last, want_low=True)
    high = _extreme(atom.dividend, var, first, last, want_low=False)
    if isinstance(atom, FloorDiv):
        return floor_div(low if want_low else high, atom.divisor)
    assert isinstance(atom, FloorMod)
    if floor_div(low, atom.divisor) == floor_div(high, atom.divisor):
        return floor_mod(low if want_low else high, atom.divisor)
    return as_term(0 if want_low else atom.divisor - 1)


def term_range(term: Term, loops: Sequence[For]) -> tuple[int, int]:
    """Smallest and largest value (inclusive) while the loops run, as numbers."""
    low, high = term, term
    least, most = term.bounds()
    # Removing one more variable loses its relation to others: every stage is a valid bound.
    for loop in reversed(loops):
        if loop.var not in low.variables() and loop.var not in high.variables():
            continue
        low, high = span(low, [loop])[0], span(high, [loop])[1]
        least = max(least, low.bounds()[0])
        most = min(most, high.bounds()[1])
    return least, most
