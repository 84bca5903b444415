"""Index terms read well in C and keep their value."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgec.codegen.c_term import flat_index, flat_term, term_text
from edgec.numerics.term import Term, Var, as_term, floor_div, floor_mod, maximum, minimum

A, B, C = Var("a", 0, 7), Var("b", -3, 5), Var("c", 0, 40)


def value(text: str, env: dict[str, int]) -> int:
    """Evaluate the C text: its division truncates, as Python's does for operands >= 0."""
    text = re.sub(r"(?<!/)/(?!/)", "//", text)
    names: dict[str, object] = {
        **env,
        "ec_min_s32": min,
        "ec_max_s32": max,
        "ec_floor_div_s32": lambda x, y: x // y,
        "ec_floor_mod_s32": lambda x, y: x % y,
    }
    return int(eval(text, {"__builtins__": {}}, names))


def terms() -> st.SearchStrategy[Term]:
    leaf = st.one_of(st.sampled_from([A, B, C]).map(as_term), st.integers(-9, 9).map(as_term))

    def grow(inner: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
        return st.one_of(
            st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
            st.tuples(inner, inner).map(lambda p: p[0] - p[1]),
            st.tuples(inner, st.integers(-5, 5)).map(lambda p: p[0] * p[1]),
            st.tuples(inner, st.integers(1, 6)).map(lambda p: floor_div(*p)),
            st.tuples(inner, st.integers(1, 6)).map(lambda p: floor_mod(*p)),
            st.tuples(inner, inner).map(lambda p: minimum(*p)),
            st.tuples(inner, inner).map(lambda p: maximum(*p)),
        )

    return st.recursive(leaf, grow, max_leaves=6)


ENV = st.fixed_dictionaries(
    {"a": st.integers(0, 6), "b": st.integers(-3, 4), "c": st.integers(0, 39)}
)


@given(terms(), ENV)
def test_text_has_the_terms_value(term: Term, env: dict[str, int]) -> None:
    assert value(term_text(term, lambda v: v.name).text, env) == term.evaluate(env)


@given(st.lists(st.tuples(terms(), st.integers(1, 9)), min_size=1, max_size=4), ENV)
def test_flat_index_is_row_major(dims: list[tuple[Term, int]], env: dict[str, int]) -> None:
    indices, shape = [d[0] for d in dims], [d[1] for d in dims]
    expected = 0
    for index, extent in dims:
        expected = expected * extent + index.evaluate(env)
    assert flat_term(indices, shape).evaluate(env) == expected
    assert value(flat_index(indices, shape, lambda v: v.name).text, env) == expected


@pytest.mark.parametrize(
    ("indices", "shape", "text"),
    [
        ([A, B, C], (25, 5, 64), "(a * 5 + b) * 64 + c"),
        ([0, as_term(A) + 2, C], (1, 9, 4), "(a + 2) * 4 + c"),
        ([A, 0, 0], (7, 3, 3), "a * 9"),
        ([0, 0], (4, 4), "0"),
        ([as_term(5) - A, as_term(C) - 1], (6, 8), "(5 - a) * 8 + c - 1"),
    ],
)
def test_spelling(indices: list[Term], shape: tuple[int, ...], text: str) -> None:
    assert flat_index([as_term(i) for i in indices], shape, lambda v: v.name).text == text
