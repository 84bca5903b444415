"""A part of a flat buffer: where a function that calls others finds a whole value, or a slice."""

from __future__ import annotations

from dataclasses import dataclass

from edgec.loop.ir import Buffer, BufferRef, Load, Use
from edgec.numerics.term import Term, TermLike, as_term

#: The first element.
START = as_term(0)


@dataclass(frozen=True)
class Spot:
    """A count of elements of a one-dimensional buffer, from an offset on."""

    buffer: Buffer
    elements: int
    offset: Term = START

    def slice(self, index: TermLike, steps: int) -> Spot:
        """One of this many equal parts."""
        size = self.elements // steps
        return Spot(self.buffer, size, self.offset + as_term(index) * size)

    def ref(self, use: Use) -> BufferRef:
        """A pointer to it."""
        return BufferRef(self.buffer, (self.offset,), use, (self.elements,))

    def element(self, index: TermLike = 0) -> Load:
        return Load(self.buffer, (self.offset + index,))
