"""Index terms read well in C and keep their value."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgec.codegen.c_term import element_index, flat_index, term_text
from edgec.loop.access import flat_term
from edgec.loop.ir import Buffer
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


def text(term: Term) -> str:
    return term_text(term, lambda v: v.name).text


def test_terms_read_well() -> None:
    a, b, c = as_term(A), as_term(B), as_term(C)
    for term, expected in [
        (as_term(0), "0"), (as_term(-7), "-7"), (a, "a"), (-a, "-a"), (a + 3, "a + 3"),
        (a - 3, "a - 3"), (3 - a, "3 - a"), (-3 - a, "-a - 3"), (c - a, "c - a"),
        (a * -2, "-(a * 2)"), (1 - a * 2 + c, "c - a * 2 + 1"), (a * 2 + c * 3, "a * 2 + c * 3"),
        (floor_div(c, 3), "c / 3"), (floor_mod(c, 3) * 2, "c % 3 * 2"),
        (floor_div(c + 1, 3), "(c + 1) / 3"), (floor_div(b, 2), "ec_floor_div_s32(b, 2)"),
        (floor_mod(b, 2), "ec_floor_mod_s32(b, 2)"), (minimum(a, b), "ec_min_s32(a, b)"),
        (maximum(a + 1, b), "ec_max_s32(a + 1, b)"), (-floor_div(c, 3), "-(c / 3)"),
        (floor_div(c * 3 + a + 6, 4), "(a + c * 3 + 2) / 4 + 1"),
    ]:  # fmt: skip
        assert text(term) == expected


def index(shape: tuple[Term | int, ...], *indices: Term | Var | int) -> str:
    terms = tuple(map(as_term, shape))
    most = tuple(term.bounds()[1] for term in terms)
    extents = terms if any(term.parts for term in terms) else None
    buffer = Buffer("x", most, "int8", "arena", extents)
    return element_index(buffer, [as_term(i) for i in indices], lambda v: v.name).text


def test_elements_of_open_sizes() -> None:
    h, w = as_term(Var("h", 1, 9)), as_term(Var("w", 1, 9))
    a, b, c = as_term(A), as_term(B), as_term(C)
    for shape, indices, expected in [
        ((h, w, 4), (a, b, c), "(a * w + b) * 4 + c"), ((h, 1, 4), (a, 0, c), "a * 4 + c"),
        ((h, w, 4), (0, 0, 0), "0"), ((h, w, 4), (0, 0, c), "c"), ((h, w, 4), (0, b, 0), "b * 4"),
        ((h, w, 4), (a, 0, 0), "a * w * 4"), ((h, w + 1, 2), (a, b, 0), "(a * (w + 1) + b) * 2"),
        ((h, w), (a, 1), "a * w + 1"), ((h, w), (a, 2 - c), "a * w + 2 - c"),
        ((h, w), (a, -c), "a * w - c"), ((1, w), (0, b), "b"), ((2, w), (1, b), "1 * w + b"),
        ((2, w), (0, 1), "1"), ((8, 8), (a, b), "a * 8 + b"), ((1, 2), (0, 1), "1"),
    ]:  # fmt: skip
        assert index(shape, *indices) == expected


def test_flat_indices_read_well() -> None:
    a, b = as_term(A), as_term(B)
    for indices, shape, expected in [
        ((a, -b), (7, 8), "a * 8 - b"), ((as_term(2), a), (3, 7), "14 + a"),
        ((a, 3), (7, 1), "a + 3"),
        ((as_term(1), as_term(1)), (2, 5), "5 + 1"), ((a, 0, b), (7, 2, 3), "a * 6 + b"),
        ((a,), (1,), "a"), ((a * 2 + 1, 0), (9, 3), "(a * 2 + 1) * 3"),
    ]:  # fmt: skip
        assert flat_index([as_term(i) for i in indices], shape, lambda v: v.name).text == expected


def test_each_dimension_has_an_index() -> None:
    for indices in ((as_term(A),), (as_term(A),) * 3):
        with pytest.raises(ValueError, match="zip"):
            flat_index(indices, (4, 4), lambda v: v.name)
