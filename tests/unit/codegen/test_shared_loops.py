"""Which loops threads share, and in how many parts."""

from __future__ import annotations

import pytest
from c_harness import load, loop, store

from edgec.loop.ir import Buffer, For, PrimFunc
from edgec.loop.rewrite import statements
from edgec.numerics.term import Var
from edgec.targets.common.threads import FEWEST_INSTRUCTIONS, share_of, worth_threads


def copy(rows: int) -> PrimFunc:
    """A copy of rows of a thousand bytes, whose rows threads share."""
    x, out = (Buffer(name, (rows, 1000), "int8", "arena") for name in ("x", "out"))
    h, w = Var("h", 0, rows), Var("w", 0, 1000)
    body = loop(h, loop(w, store(out, (h, w), load(x, h, w))), "parallel")
    return PrimFunc("copy", (x, out), (), body)


SHORT, LONG = copy(2), copy(FEWEST_INSTRUCTIONS // 1000)


def are_shared(functions: list[PrimFunc]) -> list[bool]:
    return [
        any(isinstance(s, For) and s.kind == "parallel" for s in statements(f.body))
        for f in functions
    ]


def test_short_loops_are_shared_where_threads_run_for_a_long_one() -> None:
    assert are_shared(worth_threads([SHORT, SHORT], [{}, {}])[0]) == [False, False]
    assert are_shared(worth_threads([SHORT, LONG], [{}, {}])[0]) == [True, True]


def test_functions_that_start_their_own_threads_have_long_loops() -> None:
    functions, callees = worth_threads([SHORT, LONG], [{"a": LONG, "b": SHORT}, {}])
    assert are_shared(functions) == [False, True]
    assert are_shared(list(callees[0].values())) == [True, False]
    functions, _ = worth_threads([SHORT, LONG], [{"b": SHORT}, {}])
    assert are_shared(functions) == [True, True]


@pytest.mark.parametrize(
    ("steps", "threads", "least", "share"),
    [
        (34, 2, 1, 17), (33, 2, 1, 3), (17, 2, 1, 1), (5, 2, 1, 1), (3, 4, 1, 1), (27, 2, 8, 9),
        (7, 2, 8, 7), (8, 1, 1, 8), (12, 4, 1, 3),
    ],
)  # fmt: skip
def test_parts_are_as_large_as_even_ones_can_be(
    steps: int, threads: int, least: int, share: int
) -> None:
    assert share_of(steps, threads, least) == share
