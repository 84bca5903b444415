"""Kernels that take several pixels at a time, where a run may have fewer.

    for o in 0..(time + 2) // 3 { call product_3(&out[min(o*3, time - 3), 0], ...) }

The last block begins so that it ends with the last pixel. With fewer pixels than a block has, the
kernel runs once, on copies of a whole block:

    if time < 3 { call product_3(&few_out[0, 0], ...)   for p in 0..time { out[p] = few_out[p] } }
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from edgec.errors import ScheduleError
from edgec.loop.ir import (
    Buffer,
    BufferRef,
    Call,
    Expr,
    For,
    If,
    IndexValue,
    Load,
    PrimFunc,
    Seq,
    Stmt,
    Store,
)
from edgec.loop.microkernel import written_by
from edgec.loop.rewrite import Rewriter, statements
from edgec.numerics.term import Min, Term, Var, as_term, minimum


def with_few_pixels(function: PrimFunc) -> PrimFunc:
    """The function with a way of its own for fewer pixels than a kernel takes.

    Raises ScheduleError where its blocks are of several kinds, or its rows are not buffers' first
    indices.
    """
    blocks = {block for block in _blocks(function) if block[0].bounds()[0] < 0}
    if not blocks:
        return function
    if len(blocks) > 1:
        raise ScheduleError("its kernels take pixels in several ways")
    ((last, at_once),) = blocks
    calls = (stmt for stmt in statements(function.body) if isinstance(stmt, Call))
    few = _Few(last, at_once, frozenset().union(*map(written_by, calls)))
    once = few.stmt(function.body)
    before = [few.copied(buffer) for buffer in few.copies if buffer not in few.written]
    after = [few.copied(buffer) for buffer in few.copies if buffer in few.written]
    body = If(last, as_term(0), Seq((*before, once, *after)), function.body)
    return replace(function, params=(*function.params, *few.copies.values()), body=body)


def _blocks(function: PrimFunc) -> Iterator[tuple[Term, int]]:
    """Start of the last block of each call, a term over sizes, and its number of pixels."""
    for stmt in statements(function.body):
        for term in _terms(stmt.args) if isinstance(stmt, Call) else ():
            for atom, _ in term.parts:
                if isinstance(atom, Min):
                    first, last = atom.left, atom.right
                    if last.variables() <= set(function.indices) and len(first.parts) == 1:
                        yield last, first.parts[0][1]


def _terms(args: Sequence[object]) -> Iterator[Term]:
    for arg in args:
        if isinstance(arg, BufferRef):
            yield from arg.indices
        elif isinstance(arg, IndexValue):
            yield arg.term


class _Few(Rewriter):
    """The body as one block; copies: the replacements of the buffers whose blocks it takes."""

    def __init__(self, last: Term, at_once: int, written: Collection[Buffer]) -> None:
        self.last, self.at_once, self.written = last, at_once, written
        self.copies: dict[Buffer, Buffer] = {}

    def begins(self, term: Term) -> bool:
        """Whether a term is where a block begins."""
        atoms = [atom for atom, _ in term.parts if isinstance(atom, Min)]
        return any(self.last == atom.right for atom in atoms)

    def loop(self, loop: For) -> Stmt:
        """The loop over blocks has one step."""
        inside = [s for s in statements(loop.body) if isinstance(s, Call)]
        is_over = any(loop.var in t.variables() and self.begins(t)
                      for call in inside for t in _terms(call.args))  # fmt: skip
        return self.stmt(loop.body) if is_over else super().loop(loop)

    def term(self, term: Term) -> Term:
        """The first block begins at 0."""
        return as_term(0) if self.begins(term) else term

    def argument(self, argument: BufferRef | Expr) -> BufferRef | Expr:
        """The rows of a block as rows of its copy."""
        if not isinstance(argument, BufferRef) or not any(map(self.begins, argument.indices)):
            return super().argument(argument)
        if any(index.constant != 0 for index in argument.indices[1:]):
            raise ScheduleError("the rows of a block are not a buffer's first indices")
        large = argument.buffer
        shape = (self.at_once, *large.shape[1:])
        self.copies[large] = Buffer(f"few_{large.name}", shape, large.dtype, "scratch")
        return replace(argument, buffer=self.copies[large], indices=self.terms(argument.indices))

    def copied(self, large: Buffer) -> Stmt:
        """A loop that copies the existing rows out, or in; the last row stands for missing ones."""
        small, rows = self.copies[large], self.last + self.at_once
        steps = [Var(f"few_{axis}", 0, extent) for axis, extent in enumerate(small.shape)]
        at = tuple(map(as_term, steps))
        if large in self.written:
            stops = [rows, *map(as_term, small.shape[1:])]
            body: Stmt = Store(large, at, Load(small, at))
        else:
            stops = [as_term(extent) for extent in small.shape]
            body = Store(small, at, Load(large, (minimum(at[0], rows - 1), *at[1:])))
        for var, stop in zip(reversed(steps), reversed(stops), strict=True):
            body = For(var, as_term(0), stop, "serial", body)
        return body
