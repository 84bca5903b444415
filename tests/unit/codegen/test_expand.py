"""Blocks, unrolled loops and decided conditions are gone; the rest is in order."""

from __future__ import annotations

from c_harness import int32, load, loop, store

from edgec.codegen.expand import expand
from edgec.loop.ir import (
    Axis,
    Binary,
    Block,
    Branch,
    Buffer,
    For,
    If,
    IndexValue,
    PrimFunc,
    Select,
    Seq,
    Stmt,
    Store,
)
from edgec.loop.rewrite import walk
from edgec.numerics.term import Var, as_term

X = Buffer("x", (8, 8), "int32", "arena")
OUT = Buffer("out", (8, 8), "int32", "arena")
ROW, COL = Var("i", 0, 8), Var("j", 0, 2)


def func(body: Stmt) -> PrimFunc:
    return PrimFunc("f", (X, OUT), (), body)


def test_unrolled_loop_is_written_out() -> None:
    body = loop(ROW, loop(COL, store(OUT, (ROW, COL), load(X, ROW, COL)), "unrolled"))
    (outer,) = expand(func(body))
    assert isinstance(outer, For) and isinstance(outer.body, Seq)
    columns = [s.indices[1].constant for s in outer.body.stmts if isinstance(s, Store)]
    assert columns == [0, 1]


def test_loop_of_one_step_disappears() -> None:
    single = Var("k", 3, 4)
    (only,) = expand(func(loop(single, store(OUT, (0, single), int32(1)))))
    assert isinstance(only, Store) and only.indices[1].constant == 3


def test_decided_conditions_are_taken() -> None:
    yes, no = store(OUT, (0, 0), int32(1)), store(OUT, (0, 1), int32(2))
    assert expand(func(If(as_term(1), as_term(2), yes, no))) == (yes,)
    assert expand(func(If(as_term(2), as_term(2), yes, no))) == (no,)
    assert expand(func(If(as_term(2), as_term(2), yes))) == ()
    (open_loop,) = expand(func(loop(ROW, If(as_term(ROW), as_term(4), yes, no))))
    assert any(isinstance(s, If) for s, _ in walk(open_loop))
    (taken,) = expand(func(loop(ROW, If(as_term(ROW), as_term(8), yes, no))))
    assert not any(isinstance(s, If) for s, _ in walk(taken))


def test_block_init_is_guarded_by_its_reduce_loops_only() -> None:
    n, k = Var("n", 0, 8), Var("k", 0, 2)
    block = Block(
        "sum",
        (Axis(n, "spatial", as_term(ROW)), Axis(k, "reduce", as_term(COL))),
        store(OUT, (n, 0), int32(0)),
        store(OUT, (n, 0), Binary("add", load(OUT, n, 0), load(X, n, k))),
    )
    (outer,) = expand(func(loop(ROW, loop(COL, block))))
    (guard,) = [s for s, _ in walk(outer) if isinstance(s, If)]
    assert str(guard.left) == "j" and str(guard.right) == "1"
    (unrolled,) = expand(func(loop(ROW, loop(COL, block, "unrolled"))))
    assert not any(isinstance(s, If) for s, _ in walk(unrolled))
    assert len([s for s, _ in walk(unrolled) if isinstance(s, Store)]) == 3


def test_unrolled_outer_loop_keeps_inner_variables_apart() -> None:
    inner = loop(ROW, store(OUT, (ROW, COL), load(X, ROW, COL)))
    first, second = expand(func(loop(COL, inner, "unrolled")))
    assert isinstance(first, For) and isinstance(second, For)
    assert first.var == second.var
    assert first.body != second.body


def test_what_the_number_of_a_step_chooses_is_chosen() -> None:
    chosen = Select(Binary("eq", IndexValue(as_term(COL)), int32(1)), int32(10), int32(20))
    stored = loop(COL, store(OUT, (0, COL), chosen), "unrolled")
    steps = expand(func(stored))
    assert steps == (store(OUT, (0, 0), int32(20)), store(OUT, (0, 1), int32(10)))
    (open_loop,) = expand(func(loop(ROW, store(OUT, (ROW, 0), Select(
        Binary("eq", IndexValue(as_term(ROW)), int32(1)), int32(10), int32(20)
    )))))  # fmt: skip
    assert isinstance(open_loop, For) and isinstance(open_loop.body, Store)
    assert isinstance(open_loop.body.value, Select)


def test_both_sides_of_what_data_decide_are_kept() -> None:
    yes, no = store(OUT, (0, 0), int32(1)), store(OUT, (0, 1), int32(2))
    condition = load(X, 0, 0)
    assert expand(func(Branch(condition, yes, no))) == (Branch(condition, yes, no),)
    assert expand(func(Branch(condition, yes))) == (Branch(condition, yes),)


def test_loops_of_open_extents_are_not_written_out() -> None:
    """One that should be becomes serial; one that threads share stays theirs."""
    many = as_term(Var("n", 1, 8))
    for kind, expected in (("unrolled", "serial"), ("parallel", "parallel")):
        (left,) = expand(func(loop(ROW, store(OUT, (ROW, 0), int32(1)), kind, stop=many)))
        assert isinstance(left, For) and left.kind == expected and left.stop == many
