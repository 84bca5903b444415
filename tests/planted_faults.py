"""Faults planted in kernels: a barrier less, an index off by one, shared memory too small."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from edgec.loop.ir import Buffer, Load, PrimFunc, Seq, Stmt, Store, Sync
from edgec.loop.rewrite import Rewriter
from edgec.numerics.term import Term


class _Fault(Rewriter):
    """Plants one fault of a kind: in the statement of this number."""

    def __init__(self, kind: str, number: int) -> None:
        self.kind, self.number = kind, number

    def stmt(self, stmt: Stmt) -> Stmt:
        is_kind = isinstance(stmt, Sync if self.kind == "no barrier" else Store)
        if is_kind:
            self.number -= 1
        if not is_kind or self.number != -1:
            return super().stmt(stmt)
        if not isinstance(stmt, Store):
            return Seq(())
        if self.kind == "store":
            return replace(stmt, indices=_shifted(stmt.indices, 1))
        return replace(stmt, value=_Shift(self.kind).expr(stmt.value))


class _Shift(Rewriter):
    """Every load reads the element before or after."""

    def __init__(self, kind: str) -> None:
        self.by = 1 if kind == "load after" else -1

    def load(self, load: Load) -> Load:
        return replace(load, indices=_shifted(load.indices, self.by))


def _shifted(indices: tuple[Term, ...], by: int) -> tuple[Term, ...]:
    """The element after or before; a scalar has none."""
    return (*indices[:-1], indices[-1] + by) if indices else ()


def faulty(func: PrimFunc) -> Iterator[PrimFunc]:
    """The function with each fault: a barrier less, an index off by one, memory too small."""
    for kind in ("no barrier", "store", "load before", "load after"):
        for number in range(20):
            body = _Fault(kind, number).stmt(func.body)
            if body != func.body:
                yield replace(func, body=body)
    for buffer in func.allocs:
        if buffer.scope == "shared":
            *first, last = buffer.shape
            small = replace(buffer, shape=(*first, last - 1))
            yield _Resized(buffer, small).function(func)


class _Resized(Rewriter):
    def __init__(self, old: Buffer, new: Buffer) -> None:
        self.old, self.new = old, new

    def buffer(self, buffer: Buffer) -> Buffer:
        return self.new if buffer == self.old else buffer

    def function(self, func: PrimFunc) -> PrimFunc:
        allocs = tuple(map(self.buffer, func.allocs))
        return replace(func, allocs=allocs, body=self.stmt(func.body))
