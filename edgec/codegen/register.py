"""Declarations of register buffers in C: scalars or arrays, and in which statement list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import copy

from edgec.loop.access import flat_term
from edgec.loop.ir import Buffer, BufferRef, Call, Expr, Gather, Load, Stmt, Store
from edgec.loop.rewrite import children, expressions, subexpressions
from edgec.numerics.term import Term

# A register buffer's element as a scalar (flat index), or the whole buffer as an array (None).
Element = tuple[Buffer, int | None]


class Registers:
    """Declarations of the register buffers of one expanded function."""

    def __init__(self, allocs: Sequence[Buffer], body: Sequence[Stmt]) -> None:
        self._arrays: set[Buffer] = set()
        self._allocs = set(allocs)
        self._uses: dict[int, Counter[Element]] = {}
        self._keep: list[Stmt] = []  # identities in _uses stay valid while these live
        for stmt in body:
            self._find_arrays(stmt)
        self._total: Counter[Element] = Counter()
        for stmt in body:
            self._total.update(self.uses(stmt))
        self._declared: set[Element] = set()

    def scalar(self, buffer: Buffer, indices: tuple[Term, ...]) -> Element | None:
        """The scalar that an access means, None if the buffer is memory or a local array."""
        if buffer not in self._allocs or buffer in self._arrays:
            return None
        return buffer, flat_term(indices, buffer.shape).offset

    def is_array(self, buffer: Buffer) -> bool:
        """Whether a register buffer is a local array."""
        return buffer in self._arrays

    def undeclared(self) -> Registers:
        """A copy that knows the same declarations, to write a statement twice."""
        other = copy(self)
        other._declared = set(self._declared)
        return other

    def uses(self, stmt: Stmt) -> Counter[Element]:
        """Number of a statement's accesses to each element."""
        if id(stmt) in self._uses:
            return self._uses[id(stmt)]
        found: Counter[Element] = Counter()
        if isinstance(stmt, Store):
            self._count(found, stmt.buffer, stmt.indices)
        for part in stmt.args if isinstance(stmt, Call) else expressions(stmt):
            if isinstance(part, BufferRef):
                self._count(found, part.buffer, part.indices)
            else:
                self._count_expr(found, part)
        for child in children(stmt):
            found.update(self.uses(child))
        self._uses[id(stmt)] = found
        self._keep.append(stmt)
        return found

    def declared_in(self, stmts: Sequence[Stmt]) -> list[Element]:
        """The elements whose smallest enclosing statement list is this one, each named once."""
        here: Counter[Element] = Counter()
        for stmt in stmts:
            here.update(self.uses(stmt))
        result = []
        for element, count in here.items():
            if element in self._declared or count != self._total[element]:
                continue
            users = [s for s in stmts if self.uses(s)[element]]
            if len(users) == 1 and not isinstance(users[0], (Store, Call)):
                continue
            self._declared.add(element)
            result.append(element)
        return result

    def first_store(self, element: Element, stmts: Sequence[Stmt]) -> int | None:
        """Position of the store that can declare the element, None if there is none."""
        if element[1] is None:
            return None
        for position, stmt in enumerate(stmts):
            count = self.uses(stmt)[element]
            if not count:
                continue
            if isinstance(stmt, Store) and count == 1 and stmt.buffer == element[0]:
                stored = self.scalar(stmt.buffer, stmt.indices)
                return position if stored == element else None
            return None
        return None

    def _count(self, found: Counter[Element], buffer: Buffer, indices: tuple[Term, ...]) -> None:
        if buffer in self._allocs:
            found[self.scalar(buffer, indices) or (buffer, None)] += 1

    def _count_expr(self, found: Counter[Element], expr: Expr) -> None:
        for part in subexpressions(expr):
            if isinstance(part, Load):
                self._count(found, part.buffer, part.indices)
            elif isinstance(part, Gather) and part.buffer in self._allocs:
                found[part.buffer, None] += 1

    def _find_arrays(self, stmt: Stmt) -> None:
        if isinstance(stmt, Store):
            self._classify(stmt.buffer, stmt.indices)
        elif isinstance(stmt, Call):
            self._arrays |= {arg.buffer for arg in stmt.args if isinstance(arg, BufferRef)}
        for part in (part for expr in expressions(stmt) for part in subexpressions(expr)):
            if isinstance(part, Load):
                self._classify(part.buffer, part.indices)
            elif isinstance(part, Gather):
                self._arrays.add(part.buffer)
        for child in children(stmt):
            self._find_arrays(child)

    def _classify(self, buffer: Buffer, indices: tuple[Term, ...]) -> None:
        if any(index.constant is None for index in indices):
            self._arrays.add(buffer)
