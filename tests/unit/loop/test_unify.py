"""Functions of open sizes from functions at several sizes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from edgec.errors import ScheduleError
from edgec.loop.define import Definition
from edgec.loop.interpret import interpret
from edgec.loop.ir import Binary, Buffer, Cast, Const, Expr, IndexValue, PrimFunc
from edgec.loop.printer import print_func
from edgec.loop.simplify import simplify
from edgec.loop.unify import Unifier, closed_at
from edgec.loop.values import cast, index, maximum, minimum
from edgec.numerics import term as terms
from edgec.numerics.term import Term, Var, as_term, floor_div

H = Var("h", 2, 17)


def at(make: Any) -> PrimFunc:
    sizes = [{H: size} for size in range(16, 21)]
    half = floor_div(as_term(H), 2)
    versions = [simplify(make(each[H])) for each in sizes]
    return Unifier(tuple(sizes), (as_term(H), half)).function(versions)


def window(size: int) -> PrimFunc:
    """The mean of three neighbours, every second one, of those that exist."""
    b = Definition("window")
    x, out = b.input("x", (size, 2), "float32"), b.output("out", (size // 2, 2), "float32")
    b.reduce(
        "acc",
        [("k", lambda i, c: maximum(0, 1 - 2 * i), lambda i, c: minimum(3, size + 1 - 2 * i))],
        init=lambda i, c: 0.0, update=lambda acc, i, c, k: acc + x[2 * i + k - 1, c],
        shape=(size // 2, 2), dtype="float32",
    )  # fmt: skip
    acc = b.tensors["acc"]
    b.compute(out, lambda i, c: acc[i, c] / cast(index(as_term(size)), "float32"))
    return b.build()


@pytest.mark.parametrize("size", [2, 3, 9, 16])
def test_the_function_means_what_that_of_the_size_does(size: int) -> None:
    func = at(window)
    x = np.random.default_rng(size).normal(size=(size, 2)).astype(np.float32)
    found = interpret(closed_at(func, {H: size}), {"x": x})["out"]
    np.testing.assert_array_equal(found, interpret(window(size), {"x": x})["out"])


def test_buffers_of_the_arena_are_compact() -> None:
    text = print_func(at(window))
    assert "sizes x[h, 2] sizes out[(h) // 2, 2]" in text


def reversed_rows(size: int) -> PrimFunc:
    b = Definition("reversed")
    x, out = b.input("x", (size, size), "float32"), b.output("out", (size, size), "float32")
    flat = b.compute("flat", lambda i: x[i // size, i % size], shape=(size * size,),
                     dtype="float32")  # fmt: skip
    b.compute(out, lambda i, j: flat[i * size + j])
    return b.build()


def test_strides_that_follow_from_a_size_have_no_open_form() -> None:
    with pytest.raises(ScheduleError):
        at(reversed_rows)


# Terms: the open form is what each version is, wherever the loop stands ---------------------------

N, K = Var("n", 2, 31), Var("k", 0, 10)
#: Sizes that are seen, the largest first.
SEEN = (30, 24, 23, 20, 19, 5, 2)
UNIFIER = Unifier(tuple({N: size} for size in SEEN), (as_term(N),))


@pytest.mark.parametrize(
    "make",
    [
        lambda n: as_term(K) * 3 + n - 1,
        lambda n: terms.minimum(as_term(K) * 2, n + 3),  # 15 or more decide which it is
        lambda n: terms.minimum(n + 3, as_term(K) * 2),
        lambda n: terms.maximum(as_term(K) * 2, n + 3),
        lambda n: terms.maximum(n + 3, as_term(K) * 2),
        lambda n: floor_div(as_term(K) + n, 2),  # multiples of 2 are taken out, others at each size
        lambda n: floor_div(as_term(K) + n, 2) * 3 + 6,
        lambda n: floor_div(as_term(K) * 3, 4) + n,
    ],
)
def test_an_open_term_is_that_of_each_size(make: Callable[[int], Term]) -> None:
    found = UNIFIER.term([make(size) for size in SEEN])
    for size, k in product(range(2, 31), range(10)):
        assert found.evaluate({"n": size, "k": k}) == make(size).evaluate({"k": k})


@pytest.mark.parametrize(
    "make",
    [
        lambda n: as_term(K) * (n % 5),  # a stride
        lambda n: as_term(n * n),
        lambda n: as_term(K if n > 20 else Var("j", 0, 10)),
        lambda n: floor_div(as_term(K) * 3, 4 if n > 20 else 5),
        lambda n: as_term(K) if n > 20 else floor_div(K, 2),  # no minimum that sizes decide
        lambda n: terms.minimum(K, n - 25) if n > 20 else terms.maximum(K, 10 - n),
        lambda n: terms.minimum(as_term(K) * 2, n + 3) + 1,
        lambda n: terms.minimum(as_term(K) * 2, n + 3) * 2,
    ],
)
def test_terms_that_differ_in_more_than_numbers_have_no_open_form(
    make: Callable[[int], Term],
) -> None:
    with pytest.raises(ScheduleError):
        UNIFIER.term([make(size) for size in SEEN])


# Other parts --------------------------------------------------------------------------------------


def test_a_buffer_is_as_large_as_the_largest() -> None:
    found = UNIFIER.buffer([Buffer("x", (size, 4), "int8", "arena") for size in SEEN])
    assert found.shape == (30, 4) and found.extents == (as_term(N), as_term(4))
    same = [Buffer("x", (3, 4), "int8", "arena")] * len(SEEN)
    assert UNIFIER.buffer(same) == same[0]


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("int32", lambda n: n + 1, IndexValue(as_term(N) + 1)),
        ("float32", float, Cast("float32", IndexValue(as_term(N)))),
        ("float32", lambda n: float(np.float32(1 / n)),
         Binary("div", Const(1.0, "float32"), Cast("float32", IndexValue(as_term(N))))),
        ("float32", lambda n: 0.3, Const(0.3, "float32")),
    ],
)  # fmt: skip
def test_a_constant_is_a_number_of_elements_or_one_divided_by_it(
    dtype: str, value: Callable[[int], float], expected: Expr
) -> None:
    assert UNIFIER.const([Const(value(size), dtype) for size in SEEN]) == expected


@pytest.mark.parametrize(
    "versions",
    [
        [Const(0.3 + 0.01 * size, "float32") for size in SEEN],  # no number of elements
        [Const(1 / (size + 0.3), "float32") for size in SEEN],
        [Const(size * size, "int32") for size in SEEN],
        [Const(size, "int32" if size > 20 else "int64") for size in SEEN],
        [Const(1, "int32") if size > 20 else IndexValue(as_term(1)) for size in SEEN],
        [Binary("add" if size > 20 else "sub", *[Const(1, "int32")] * 2) for size in SEEN],
        [(Const(1, "int32"),) * (1 if size > 20 else 2) for size in SEEN],
        [Buffer("x" if size > 20 else "y", (3,), "int8", "arena") for size in SEEN],
    ],
)
def test_what_differs_in_more_than_integers_has_no_open_form(versions: list[Any]) -> None:
    with pytest.raises(ScheduleError):
        UNIFIER.part(versions)
