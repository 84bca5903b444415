"""Functions that all threads run: which parts one of them does, and where they wait."""

from __future__ import annotations

from c_harness import load, loop, store

from edgec.codegen.c_function import emit_function
from edgec.loop.ir import Buffer, PrimFunc, Seq, Stmt
from edgec.numerics.term import Var, as_term

X, OUT = (Buffer(name, (6, 8), "int8", "arena") for name in ("x", "out"))
PADDED = Buffer("padded", (8, 8), "int8", "scratch")


def copied(to: Buffer, of: Buffer | None, first: int, rows: int, kind: str = "serial") -> Stmt:
    """Rows from `first` on, of the rows of another buffer from 0 on, or as they are."""
    h, w = Var("h", 0, rows), Var("w", 0, 8)
    place = as_term(h) + first, w
    value = load(of, h, w) if of else load(to, *place)
    return loop(h, loop(w, store(to, place, value)), kind)


def order_of(*stmts: Stmt, is_apart: bool = True, in_team: bool = True) -> list[str]:
    """What the C has in order: loops that are shared, what one thread does, and where all wait."""
    func = PrimFunc("f", (X, OUT, PADDED), (), Seq(stmts))
    emitted = emit_function(func, "f", in_team=in_team, is_apart=is_apart)
    words = [line.split()[2] for line in emitted.lines if line.startswith("#pragma omp")]
    assert emitted.is_shared == ("for" in words)
    return words


FIRST, LAST = copied(PADDED, None, 0, 1), copied(PADDED, None, 7, 1)
COPY = copied(PADDED, X, 1, 6, "parallel")
SUMS = copied(OUT, PADDED, 0, 6, "parallel")


def test_edges_of_a_copy_wait_for_nobody() -> None:
    assert order_of(FIRST, COPY, LAST, SUMS) == ["single", "for", "single", "barrier", "for"]


def test_what_may_lie_over_what_is_still_read_waits() -> None:
    """The last row may take the place of the input; the first was written before it in any case."""
    found = order_of(FIRST, COPY, LAST, SUMS, is_apart=False)
    assert found == ["single", "for", "barrier", "single", "barrier", "for"]


def test_rows_that_both_write_wait() -> None:
    """Nobody reads the rows 6 and 7: the sums wait for the copy alone, which has ended."""
    over = copied(PADDED, None, 6, 2)
    assert order_of(COPY, over, SUMS) == ["for", "barrier", "single", "for"]


def test_serial_functions_and_steps_alone_are_as_ever() -> None:
    assert order_of(FIRST, LAST) == []
    assert order_of(FIRST, COPY, SUMS, in_team=False) == ["parallel", "parallel"]
    assert order_of(SUMS) == ["for"]
