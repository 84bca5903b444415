"""Index terms: every simplification keeps the value, bounds hold."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.numerics.term import (
    Var,
    as_term,
    floor_div,
    floor_mod,
    maximum,
    minimum,
    product,
)

X, Y, Z = Var("x", 0, 5), Var("y", -3, 4), Var("z", 2, 12)
POINTS = [
    {"x": x, "y": y, "z": z} for x in range(0, 5, 2) for y in range(-3, 4, 2) for z in (2, 7, 11)
]


@st.composite
def expressions(draw, depth=3):
    """A term and the function that computes it plainly."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        if draw(st.booleans()):
            value = draw(st.integers(-9, 9))
            return as_term(value), lambda p: value
        var = draw(st.sampled_from([X, Y, Z]))
        return as_term(var), lambda p: p[var.name]
    a, f = draw(expressions(depth=depth - 1))
    kind = draw(st.sampled_from(["add", "sub", "scale", "div", "mod", "min", "max"]))
    if kind in ("scale", "div", "mod"):
        k = draw(st.integers(1, 8))
        if kind == "scale":
            k -= 4
            return a * k, lambda p: f(p) * k
        if kind == "div":
            return floor_div(a, k), lambda p: f(p) // k
        return floor_mod(a, k), lambda p: f(p) % k
    b, g = draw(expressions(depth=depth - 1))
    if kind == "add":
        return a + b, lambda p: f(p) + g(p)
    if kind == "sub":
        return a - b, lambda p: f(p) - g(p)
    if kind == "min":
        return minimum(a, b), lambda p: min(f(p), g(p))
    return maximum(a, b), lambda p: max(f(p), g(p))


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(expressions(depth=4))
def test_value_and_bounds(made):
    term, plain = made
    low, high = term.bounds()
    for point in POINTS:
        value = plain(point)
        assert term.evaluate(point) == value, str(term)
        assert low <= value <= high, str(term)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(expressions(), expressions(depth=1))
def test_substitution(made, by):
    (term, plain), (new, value) = made, by
    inside = {X: floor_mod(new, 5)}
    for point in POINTS:
        changed = {**point, "x": value(point) % 5}
        assert term.substitute(inside).evaluate(point) == plain(changed), str(term)


def test_split_indices_cancel():
    outer, inner = Var("o", 0, 7), Var("i", 0, 4)
    whole = as_term(outer) * 4 + inner
    assert floor_div(whole, 4) == as_term(outer)
    assert floor_mod(whole, 4) == as_term(inner)
    fused = Var("f", 0, 35)
    assert floor_div(fused, 5) * 5 + floor_mod(fused, 5) == as_term(fused)
    assert floor_div(floor_div(fused, 5), 7) == as_term(0)
    assert floor_div(whole, 8) == floor_div(outer, 2)


def test_bounds_see_what_cancels_in_a_rounded_quotient():
    """The first tap inside the input of a window that is dilated by 5, padded by 5."""
    h = Var("h", 0, 30)
    first = maximum(0, (9 - as_term(h)) // 5)
    assert (first * 5 + h - 5).bounds() == (0, 24)
    assert (h - (as_term(h) // 4) * 4 + 1).bounds() == (1, 4)


def test_bounds_see_what_cancels_in_a_maximum():
    h = Var("h", 0, 25)
    assert (as_term(h) * 2 - 1 + maximum(0, 1 - as_term(h) * 2)).bounds()[0] == 0


def test_products_of_variables_are_refused():
    with pytest.raises(ValueError, match="not linear"):
        as_term(X) * as_term(Y)


def test_a_product_of_sizes_is_bounded_and_closed() -> None:
    height = floor_div(as_term(Z) + 1, 2)
    pixels = product(height, Z)
    assert pixels.bounds() == (1 * 2, 6 * 11)
    assert pixels.evaluate({"z": 7}) == 28 and (pixels * 3 - 1).substitute({Z: 5}).constant == 44
    assert product(X, 3) == as_term(X) * 3
    with pytest.raises(ValueError, match="not both sizes"):
        product(X, Y)


def test_pickling_leaves_cached_values_behind():
    term = as_term(X) * 3 + Y
    hash(term), term.bounds()
    copy = pickle.loads(pickle.dumps(term))
    assert copy == term
    assert "_hash" not in copy.__dict__


def test_mixed_radix_becomes_the_number_again() -> None:
    x = as_term(Var("x", 0, 240))
    digits = x // 60 * 60 + x // 20 % 3 * 20 + x // 5 % 4 * 5 + x % 5
    assert digits == x
    assert x // 5 % 4 * 5 + x % 5 == x % 20
    assert x // 5 % 4 * 4 + x % 5 != x % 20


def test_terms_as_text() -> None:
    x, y = as_term(X), as_term(Y)
    half, rest = floor_div(x, 2), floor_mod(x, 3)
    for term, text in [
        (as_term(0), "0"), (as_term(-4), "-4"), (x, "x"), (-x, "-x"), (x - 1, "x - 1"),
        (x + 1, "x + 1"), (x * 2 - y * 3 + 5, "x*2 - y*3 + 5"), (y - x, "-x + y"),
        (half, "(x) // 2"), (half * 3, "((x) // 2)*3"), (-half, "-((x) // 2)"),
        (half * -2 + 7, "-((x) // 2)*2 + 7"), (rest - y, "(x) % 3 - y"), (-rest, "-((x) % 3)"),
        (y - half, "-((x) // 2) + y"), (y * 2 + half, "(x) // 2 + y*2"),
        (minimum(x, y), "min(x, y)"), (maximum(x, y) * -2, "-max(x, y)*2"),
        (floor_div(x * 3 + 1, 2), "(x*3 + 1) // 2"),
    ]:  # fmt: skip
        assert str(term) == text


def test_sums_are_in_one_order_and_products_go_both_ways() -> None:
    x, y, z = as_term(X), as_term(Y), as_term(Z)
    assert z + y + x == x + y + z and str(z + y + x) == "x + y + z"
    assert (z + x).parts == ((X, 1), (Z, 1))
    assert as_term(3) * x == x * 3 and as_term(3) * x * 0 == as_term(0)
    assert (x * 1) is x and (x + 0) is x and (as_term(0) + x) is x
    assert 5 - x == -x + 5 and (5 - x).evaluate({"x": 2}) == 3
    assert as_term(Var("one", 4, 5)) == as_term(4)
    assert as_term(Var("two", 4, 6)).parts


def test_multiples_are_taken_out_of_remainders() -> None:
    """(4 x + r) mod 12 is (x mod 3) 4 + r where 0 <= r < 4: the remainder is added again."""
    wide, rest = as_term(Var("w", 0, 50)), as_term(Var("r", 0, 4))
    assert floor_mod(wide * 4 + rest, 12) == floor_mod(wide, 3) * 4 + rest
    assert floor_div(wide * 4 + rest, 12) == floor_div(wide, 3)
    assert floor_mod(wide * 4 + 3, 12) == floor_mod(wide, 3) * 4 + 3
    more = as_term(Var("m", 0, 5))
    for point in range(50):
        for m in range(5):
            env = {"w": point, "m": m}
            assert floor_mod(wide * 4 + more, 12).evaluate(env) == (4 * point + m) % 12
    assert floor_div(floor_div(wide, 3), 5) == floor_div(wide, 15)
    assert floor_mod(wide, 1) == as_term(0) and floor_div(wide, 1) == wide
    for function in (floor_div, floor_mod):
        with pytest.raises(ValueError, match="divisor 0 is not positive"):
            function(wide, 0)


def test_bounds_are_reached() -> None:
    x, y, wide = as_term(X), as_term(Y), as_term(Var("w", 0, 50))
    for term, bounds in [
        (x, (0, 4)), (y, (-3, 3)), (x * -2 + 1, (-7, 1)), (floor_div(wide, 7), (0, 7)),
        (floor_mod(wide, 7), (0, 6)), (floor_mod(wide, 7) * -1, (-6, 0)), (minimum(x, y), (-3, 3)),
        (maximum(x, y), (0, 4)), (maximum(x, y) - y, (0, 7)), (x - minimum(x, y), (0, 7)),
        (wide - floor_div(wide, 7) * 7, (0, 6)), (floor_div(wide, 7) * 7 - wide, (-6, 0)),
    ]:  # fmt: skip
        assert term.bounds() == bounds, str(term)
    assert minimum(x, x + 1) == x and maximum(x, x + 1) == x + 1
    assert minimum(x + 1, x) == x and maximum(x + 1, x) == x + 1
    assert minimum(x, 4) == x and maximum(x, 0) == x
    assert minimum(x, 3) != x and maximum(x, 1) != x
    assert minimum(x, 0) == as_term(0) and maximum(x, 4) == as_term(4)


def test_variables_and_constants() -> None:
    x, y = as_term(X), as_term(Y)
    inside = minimum(floor_div(x, 2), floor_mod(y, 2)) + Z
    assert inside.variables() == {X, Y, Z} and inside.constant is None
    assert as_term(7).constant == 7 and as_term(7).variables() == frozenset()
    assert x.substitute({Y: 3}) is x
    assert inside.substitute({X: 4, Y: 1, Z: 5}).constant == 6
    assert maximum(x, y).substitute({X: 1, Y: 2}) == as_term(2)
    assert (x * 2 + y).substitute({X: y}) == y * 3
    assert (x * 2 + y).substitute({X: y, Y: x}) == y * 2 + x


def test_offsets_of_multiples_are_divided_too() -> None:
    a = Var("a", 0, 7)
    term = floor_div(as_term(a) * 4 + 6, 8)  # (a + 1) // 2
    assert [term.evaluate({"a": n}) for n in range(7)] == [(4 * n + 6) // 8 for n in range(7)]
