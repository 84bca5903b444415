"""One function of open sizes from functions of the same nest at several sizes.

    for h in 0..16 { y[h] = x[min(h + 1, 15)] }        at height = 16
    for h in 0..17 { y[h] = x[min(h + 1, 16)] }        at height = 17
    for h in 0..height { y[h] = x[min(h + 1, height - 1)] }

The nests are walked side by side. Integers that differ become terms over the sizes; other
differences have no open form. Buffers of the arena are row-major at a run's sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np

from edgec.errors import ScheduleError
from edgec.loop.dtype import is_float
from edgec.loop.ir import Binary, Buffer, Cast, Const, Expr, For, IndexValue, PrimFunc, Stmt
from edgec.loop.rewrite import Rewriter
from edgec.numerics.fit_term import Sizes, fit_term, value_at
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
    product,
)


@dataclass(frozen=True)
class Unifier:
    """sizes: of each version, the largest that a run may have first. bases: terms that integers
    are likely to be made of. loops: by name the variable of the loop around.
    """

    sizes: tuple[Sizes, ...]
    bases: tuple[Term, ...]
    loops: dict[str, Var] = field(default_factory=dict)

    def function(self, versions: Sequence[PrimFunc]) -> PrimFunc:
        """Raises ScheduleError where the versions differ in more than integers."""
        found = self.part(versions)
        if not isinstance(found, PrimFunc):
            raise ScheduleError("its versions are not functions")
        symbols = tuple(sorted({v for each in self.sizes for v in each}, key=lambda v: v.name))
        return replace(found, indices=symbols)

    def part(self, versions: Sequence[Any]) -> Any:
        """Any part of a function."""
        first = versions[0]
        if any(type(each) is not type(first) for each in versions):
            raise ScheduleError(f"it is {type(first).__name__} at some sizes only")
        known: dict[type, Callable[[Any], Any]] = {
            Term: self.term, Var: self.variable, Buffer: self.buffer, Const: self.const,
            tuple: self.parts,
        }  # fmt: skip
        if type(first) in known:
            return known[type(first)](versions)
        if is_dataclass(first):
            return self.node(versions)
        return _same(versions)

    def parts(self, versions: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        """Join the parts one by one; all versions must have the same number of them."""
        _same([len(each) for each in versions])
        return tuple(self.part(each) for each in zip(*versions, strict=True))

    def node(self, versions: Sequence[Any]) -> Any:
        """A node of the loop IR, field by field."""
        names = [part.name for part in fields(versions[0]) if part.init]
        found = {name: self.part([getattr(each, name) for each in versions]) for name in names}
        return type(versions[0])(**found)

    def variable(self, versions: Sequence[Var]) -> Var:
        """The variable of a loop, with the bounds that it has at the largest sizes."""
        _same([(each.name, each.start) for each in versions])
        self.loops[versions[0].name] = versions[0]
        return versions[0]

    def buffer(self, versions: Sequence[Buffer]) -> Buffer:
        """A buffer as large as the largest version; in the arena it is compact at every size."""
        first = versions[0]
        _same([(b.name, b.dtype, b.scope, len(b.shape)) for b in versions])
        terms = tuple(self.number(each) for each in zip(*(b.shape for b in versions), strict=True))
        is_open = first.scope == "arena" and any(term.constant is None for term in terms)
        return replace(first, extents=terms) if is_open else first

    def number(self, values: Sequence[int]) -> Term:
        """An integer as a term."""
        found = fit_term(values, self.sizes, self.bases)
        if found is None:
            raise ScheduleError(f"{values[0]} is not a term over the sizes")
        return found

    def term(self, versions: Sequence[Term]) -> Term:
        """Equal atoms with equal factors, and an offset."""
        versions = [_unreduced(each) for each in versions]
        kinds = {tuple(type(atom) for atom, _ in each.parts) for each in versions}
        if len(kinds) > 1:
            return self.decided(versions)
        total = self.number([each.offset for each in versions])
        for parts in zip(*(each.parts for each in versions), strict=True):
            _same([factor for _, factor in parts])
            total = total + self.atom([atom for atom, _ in parts]) * parts[0][1]
        return total

    def decided(self, versions: Sequence[Term]) -> Term:
        """A minimum or maximum; versions whose sizes decide it have one side alone."""
        known = {at: limit for at, term in enumerate(versions) if (limit := _limit(term))}
        if not known:
            raise ScheduleError(f"{versions[0]} is {versions[-1]} at other sizes")
        join = _same([minimum if isinstance(limit, Min) else maximum for limit in known.values()])
        some = replace(self, sizes=tuple(self.sizes[at] for at in known))
        lefts = [known[at].left if at in known else term for at, term in enumerate(versions)]
        rights = [known[at].right if at in known else term for at, term in enumerate(versions)]
        try:
            found: Term = join(
                self.term(lefts), some.term([limit.right for limit in known.values()])
            )
        except ScheduleError:
            found = join(some.term([limit.left for limit in known.values()]), self.term(rights))
        return found

    def atom(self, versions: Sequence[Atom]) -> Term:
        """A variable, or an operation on terms."""
        first = versions[0]
        _same([type(each) for each in versions])
        if isinstance(first, Var):
            _same([each.name for each in versions])  # type: ignore[union-attr]
            return Term(((self.loops.get(first.name, first), 1),), 0)
        if isinstance(first, (FloorDiv, FloorMod)):
            dividend = self.term([each.dividend for each in versions])  # type: ignore[union-attr]
            divisor = self.part([each.divisor for each in versions])  # type: ignore[union-attr]
            divide = floor_div if isinstance(first, FloorDiv) else floor_mod
            return divide(dividend, divisor)
        left = self.term([each.left for each in versions])  # type: ignore[union-attr]
        right = self.term([each.right for each in versions])  # type: ignore[union-attr]
        join = {Min: minimum, Max: maximum, Product: product}[type(first)]
        return join(left, right)

    def const(self, versions: Sequence[Const]) -> Expr:
        """A constant of all versions, a number of elements, or a reciprocal of one."""
        first = versions[0]
        if all(each == first for each in versions):
            return first
        if len({each.dtype for each in versions}) > 1:
            raise ScheduleError("a constant has another dtype")
        values = np.array([each.value for each in versions], np.float64)
        if is_float(first.dtype) and not np.all(values == np.round(values)):
            one = np.dtype(first.dtype).type(1)
            counts = np.round(1 / values)
            if np.any(one / counts.astype(first.dtype) != values.astype(first.dtype)):
                raise ScheduleError(f"{first.value} is not a number of elements at other sizes")
            return Binary("div", Const(1.0, first.dtype), self.count(counts, first.dtype))
        return self.count(values, first.dtype)

    def count(self, values: Any, dtype: str) -> Expr:
        """A number of elements."""
        term = IndexValue(self.number([int(value) for value in values]))
        return term if dtype == "int32" else Cast(dtype, term)


def _same(versions: Sequence[Any]) -> Any:
    """The one value of all versions. Raises ScheduleError if they differ."""
    if any(each != versions[0] for each in versions):
        raise ScheduleError(f"{versions[0]} is {versions[-1]} at other sizes")
    return versions[0]


def _limit(term: Term) -> Min | Max | None:
    """The minimum or maximum that a term is."""
    if term.offset or len(term.parts) != 1 or term.parts[0][1] != 1:
        return None
    atom = term.parts[0][0]
    return atom if isinstance(atom, (Min, Max)) else None


def _unreduced(term: Term) -> Term:
    """The offset as a part of the first dividend: (x + 1) // 2 + 3 is (x + 7) // 2.

    Terms take multiples out of dividends, others at each size.
    """
    for position, (atom, factor) in enumerate(term.parts):
        if isinstance(atom, FloorDiv) and term.offset % factor == 0:
            moved = Term(
                atom.dividend.parts, atom.dividend.offset + term.offset // factor * atom.divisor
            )
            parts = list(term.parts)
            parts[position] = FloorDiv(moved, atom.divisor), factor
            return Term(tuple(parts), 0)
    return term


def closed_at(func: PrimFunc, sizes: Sizes) -> PrimFunc:
    """The function where its sizes have these values."""
    return _Closed(sizes).function(func)


class _Closed(Rewriter):
    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.values: dict[Var, Term] = {var: as_term(value) for var, value in sizes.items()}
        self.loops: dict[Var, Var] = {}

    def function(self, func: PrimFunc) -> PrimFunc:
        params = tuple(map(self.buffer, func.params))
        return replace(func, params=params, body=self.stmt(func.body), indices=())

    def buffer(self, buffer: Buffer) -> Buffer:
        """Return the buffer with a shape in terms of the sizes."""
        if buffer.extents is None:
            return buffer
        shape = tuple(value_at(term, self.sizes) for term in buffer.extents)
        return replace(buffer, shape=shape, extents=None)

    def term(self, term: Term) -> Term:
        """The term without sizes."""
        return term.substitute(self.values)

    def loop(self, loop: For) -> Stmt:
        """The loop, its variable with the bounds that it then has."""
        start, stop = self.term(loop.start), self.term(loop.stop)
        low, high = start.bounds()[0], max(stop.bounds()[1], start.bounds()[0] + 1)
        var = Var(loop.var.name, low, high)
        self.values[loop.var] = Term(((var, 1),), 0)
        return replace(loop, var=var, start=start, stop=stop, body=self.stmt(loop.body))
