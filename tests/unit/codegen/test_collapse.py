"""Collapsed loops visit the same elements in the same order."""

from __future__ import annotations

import numpy as np
from c_harness import conv_func, load, loop, store
from hypothesis import given
from hypothesis import strategies as st

from edgec.codegen.collapse import collapse
from edgec.codegen.expand import expand
from edgec.loop.interpret import interpret
from edgec.loop.ir import (
    Binary,
    Buffer,
    BufferRef,
    Call,
    For,
    IndexValue,
    PrimFunc,
    Seq,
    Stmt,
)
from edgec.loop.rewrite import walk
from edgec.numerics.term import Term, Var, as_term, minimum


def loops(stmt: Stmt) -> list[str]:
    return [s.var.name for s, _ in walk(stmt) if isinstance(s, For)]


def nest(index: Term, size: int, *variables: Var) -> PrimFunc:
    x = Buffer("x", (size,), "int32", "arena")
    out = Buffer("out", (size,), "int32", "arena")
    body: Stmt = store(out, (index,), Binary("add", load(out, index), load(x, index)))
    for var in reversed(variables):
        body = loop(var, body)
    return PrimFunc("f", (x, out), (), body)


def test_elementwise_becomes_flat() -> None:
    h, w, c = Var("out_d1", 0, 4), Var("out_d2", 0, 5), Var("out_d3", 0, 6)
    index = (as_term(h) * 5 + w) * 6 + c
    flat = collapse(nest(index, 120, h, w, c).body)
    assert loops(flat) == ["out_d1_d2_d3"]
    assert isinstance(flat, For) and flat.stop.constant == 120


def test_transposed_walk_stays() -> None:
    h, w = Var("h", 0, 4), Var("w", 0, 5)
    assert loops(collapse(nest(as_term(w) * 4 + h, 20, h, w).body)) == ["h", "w"]


def test_padded_rows_stay() -> None:
    h, w = Var("h", 0, 4), Var("w", 0, 5)
    assert loops(collapse(nest(as_term(h) * 6 + w, 24, h, w).body)) == ["h", "w"]


def test_condition_on_one_of_them_keeps_both() -> None:
    h, w = Var("h", 0, 4), Var("w", 0, 5)
    index = minimum(as_term(h) * 5 + w, 7)
    assert loops(collapse(nest(index, 20, h, w).body)) == ["h", "w"]


def test_window_row_and_channels_of_a_convolution() -> None:
    body = expand(conv_func(unroll=4))
    names = loops(Seq(body))
    assert "kw_ic_o" in names and "kh" in names


@given(
    st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)),
    st.permutations([0, 1, 2]),
    st.integers(0, 2),
)
def test_meaning_is_kept(extents: tuple[int, int, int], order: list[int], padding: int) -> None:
    variables = [Var(f"v{i}", 0, extent) for i, extent in enumerate(extents)]
    strides = [extents[1] * extents[2] + padding, extents[2], 1]
    index = as_term(0)
    for var, stride in zip(variables, strides, strict=True):
        index = index + as_term(var) * stride
    size = extents[0] * strides[0] + 1
    func = nest(index, size, *(variables[i] for i in order))
    arrays = {
        "x": np.arange(size, dtype=np.int32),
        "out": np.zeros(size, np.int32),
    }
    expected = interpret(func, arrays)["out"]
    changed = PrimFunc("f", func.params, (), collapse(func.body))
    np.testing.assert_array_equal(interpret(changed, arrays)["out"], expected)


H, W = Var("h", 0, 4), Var("w", 0, 5)


def pair(*index: Term, extents: tuple[Term, ...] | None) -> Stmt:
    x = Buffer("x", (8, 64), "int32", "arena", extents)
    return loop(H, loop(W, store(x, index, load(x, *index))))


def test_rows_of_an_open_width_stay() -> None:
    """Elements lie as far apart as the width of the run says, not as the largest one."""
    rows, width = as_term(Var("rows", 1, 8)), as_term(Var("width", 1, 64))
    row, column, even = as_term(H), as_term(W), as_term(H) * 5 + W
    x = Buffer("x", (8, 5), "int32", "arena", (rows, as_term(Var("width", 1, 5))))
    walk_over = loop(H, loop(W, store(x, (row, column), load(x, row, column))))
    assert loops(collapse(walk_over)) == ["h", "w"]
    closed = Buffer("x", (8, 5), "int32", "arena")
    walk_over = loop(H, loop(W, store(closed, (row, column), load(closed, row, column))))
    assert loops(collapse(walk_over)) == ["h_w"]
    within = (as_term(0), even)
    assert loops(collapse(pair(*within, extents=(rows, width)))) == ["h_w"]
    assert loops(collapse(pair(as_term(0), as_term(H) * 7 + W, extents=(rows, width)))) == [
        "h", "w"
    ]  # fmt: skip
    # Only the first extent is open, which says nothing about where elements lie.
    assert loops(collapse(pair(*within, extents=(rows, as_term(64))))) == ["h_w"]


def test_where_a_call_points_to_counts() -> None:
    x = Buffer("x", (64,), "int32", "arena")

    def calls(index: Term) -> Stmt:
        return loop(H, loop(W, Call("kernel", (BufferRef(x, (index,)), IndexValue(as_term(3))))))

    assert loops(collapse(calls(as_term(H) * 5 + W))) == ["h_w"]
    assert loops(collapse(calls(as_term(W) * 4 + H))) == ["h", "w"]
    odd = loop(H, loop(W, Call("kernel", (IndexValue(as_term(W)),))))
    assert loops(collapse(odd)) == ["h", "w"]


def test_names_say_what_was_joined_once() -> None:
    def name(outer: str, inner: str) -> str:
        h, w = Var(outer, 0, 4), Var(inner, 0, 5)
        (only,) = loops(collapse(nest(as_term(h) * 5 + w, 20, h, w).body))
        return only

    assert name("acc", "acc_ic_o") == "acc_ic_o"
    assert name("acc_kw", "acc_ic_o") == "acc_kw_ic_o"
    assert name("out_d1", "out_d2") == "out_d1_d2"
    assert name("h", "w") == "h_w"
