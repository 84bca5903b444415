"""In which order a nest touches the rows of its buffers, step by step.

A row is everything at one index of a buffer's first dimension. The loops are executed with their
conditions; each statement accesses a run of rows. Primitives that change when rows are computed or
where they are kept check here which orders they must keep.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from edgec.errors import ScheduleError
from edgec.loop.access import Access, accesses, span
from edgec.loop.ir import Buffer, Call, For, If, Seq, Stmt, Store
from edgec.loop.rewrite import children
from edgec.numerics.term import Term, as_term

#: Statements run in one nest at most.
MOST_STEPS = 1 << 20


@dataclass(frozen=True)
class Touch:
    """Rows [first, stop) of a buffer, read or written.

    `at` has the values of the loop variables around, by name.
    """

    buffer: Buffer
    is_write: bool
    first: int
    stop: int
    at: Mapping[str, int]


def touches(stmt: Stmt, buffers: Collection[Buffer]) -> list[Touch]:
    """All touches of these buffers in the order of execution; a step's reads before its writes.

    Blocks must have been lowered. Raises ScheduleError if the nest takes too many steps.
    """
    runner = _Runner(frozenset(buffers))
    runner.run(stmt, {})
    return runner.made


class _Runner:
    def __init__(self, buffers: frozenset[Buffer]) -> None:
        self.buffers = buffers
        # Keyed by the identity of statements, which live as long as the executed one.
        self.found: dict[int, list[_Rows]] = {}
        self.touched: dict[int, bool] = {}
        self.children: dict[int, list[Stmt]] = {}
        self.made: list[Touch] = []
        self.steps = 0

    def accesses(self, stmt: Stmt) -> list[_Rows]:
        """The rows that a single statement reads and writes."""
        if id(stmt) not in self.found:
            self.found[id(stmt)] = [_rows(a) for a in accesses(stmt, of=self.buffers)]
        return self.found[id(stmt)]

    def touches(self, stmt: Stmt) -> bool:
        """Whether anything inside touches one of the buffers."""
        if id(stmt) not in self.touched:
            inside = children(stmt)
            self.touched[id(stmt)] = (
                any(self.touches(child) for child in inside)
                if inside
                else bool(self.accesses(stmt))
            )
        return self.touched[id(stmt)]

    def touching(self, seq: Seq) -> list[Stmt]:
        """The statements of a sequence that touch one of the buffers."""
        if id(seq) not in self.children:
            self.children[id(seq)] = [child for child in seq.stmts if self.touches(child)]
        return self.children[id(seq)]

    def run(self, stmt: Stmt, at: dict[str, int]) -> None:
        if isinstance(stmt, Seq):
            for child in self.touching(stmt):
                self.run(child, at)
        elif not self.touches(stmt):
            return
        elif isinstance(stmt, For):
            for value in range(stmt.start.evaluate(at), stmt.stop.evaluate(at)):
                self.run(stmt.body, {**at, stmt.var.name: value})
        elif isinstance(stmt, If):
            taken = stmt.left.evaluate(at) < stmt.right.evaluate(at)
            branch = stmt.body if taken else stmt.otherwise
            if branch is not None:
                self.run(branch, at)
        else:
            assert isinstance(stmt, (Store, Call)), "blocks are lowered"
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise ScheduleError("the nest takes too many steps to follow its rows")
            self.made += [
                Touch(buffer, is_write, low.evaluate(at), high.evaluate(at) + 1, at)
                for buffer, is_write, low, high in self.accesses(stmt)
            ]


#: The buffer, whether it is written, and the first and the last row.
_Rows = tuple[Buffer, bool, Term, Term]


def _rows(access: Access) -> _Rows:
    if access.indices is None:
        low, high = as_term(0), as_term(access.buffer.shape[0] - 1)
    else:
        low, high = span(access.indices[0], access.loops)
    return access.buffer, access.is_write, low, high
