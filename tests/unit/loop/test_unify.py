"""Functions of open sizes from functions at several sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgec.errors import ScheduleError
from edgec.loop.define import Definition
from edgec.loop.interpret import interpret
from edgec.loop.ir import PrimFunc
from edgec.loop.printer import print_func
from edgec.loop.simplify import simplify
from edgec.loop.unify import Unifier, closed_at
from edgec.loop.values import cast, index, maximum, minimum
from edgec.numerics.term import Var, as_term, floor_div

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
