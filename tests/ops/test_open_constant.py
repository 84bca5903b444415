"""open_constant: parts of constants, and which numbers are such parts."""

from __future__ import annotations

import numpy as np
import pytest

import edgec.ops
from edgec.errors import TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.extents import open_type
from edgec.graph.interpret import interpret
from edgec.graph.types import Array
from edgec.numerics.term import Var, as_term
from edgec.numerics.term_text import read_term
from edgec.ops.add import Add, AddAttrs
from edgec.ops.open_constant import OpenConstant, PartAttrs, cut_of

edgec.ops.load()

N = Var("n", 1, 6)
TABLE = np.arange(20, dtype=np.float32).reshape(5, 4)
SIZES = [{N: 5}, {N: 3}]


@pytest.mark.parametrize("begin", [as_term(0), as_term(5) - N])
def test_the_part_at_each_size(begin: object) -> None:
    builder = GraphBuilder()
    x = builder.param("x", open_type("float32", N, 4))
    attrs = PartAttrs((begin, as_term(0)), (as_term(N), as_term(4)))  # type: ignore[arg-type]
    part = builder.op(OpenConstant, [builder.constant("table", TABLE)], attrs, name="part")
    function = builder.finish([builder.op(Add, [x, part], AddAttrs(), name="y")])
    for count in range(1, 6):
        (y,) = interpret(function, [np.ones((count, 4), np.float32)])
        rows = TABLE[:count] if begin == as_term(0) else TABLE[5 - count :]
        np.testing.assert_array_equal(y, rows + 1)


def test_a_part_beyond_the_constant_is_refused() -> None:
    builder = GraphBuilder()
    attrs = PartAttrs((as_term(1), as_term(0)), (as_term(N), as_term(4)))
    with pytest.raises(TypeMismatch, match="a part of 5 from 1 on along axis 0"):
        builder.op(OpenConstant, [builder.constant("table", TABLE)], attrs, name="part")


@pytest.mark.parametrize(
    ("arrays", "begin"),
    [
        ([TABLE, TABLE[:3]], ["0", "0"]),
        ([TABLE, TABLE[2:]], ["5 - n", "0"]),
        ([np.float32(0.2), np.float32(1 / 3)], ["n - 1"]),
        ([np.int64(10), np.int64(6)], ["n - 1"]),
    ],
)
def test_what_a_constant_is_a_part_of(arrays: list[Array], begin: list[str]) -> None:
    found = cut_of([np.asarray(array) for array in arrays], SIZES, [as_term(N)])
    assert found is not None
    table, attrs = found
    assert list(attrs.begin) == [read_term(text, {"n": N}) for text in begin]
    places = [tuple(term.evaluate({"n": size[N]}) for term in attrs.begin) for size in SIZES]
    for array, place in zip(arrays, places, strict=True):
        shape = np.shape(array) or (1,)
        part = table[tuple(slice(p, p + n) for p, n in zip(place, shape, strict=True))]
        np.testing.assert_allclose(part.reshape(np.shape(array)), array, rtol=1e-6)


def test_other_rows_are_no_part() -> None:
    assert cut_of([TABLE, TABLE[1:4]], SIZES, [as_term(N)]) is not None  # the middle
    assert cut_of([TABLE, TABLE[:3] + 1], SIZES, [as_term(N)]) is None
    assert cut_of([np.float32(1), np.float32(7)], SIZES, [as_term(N)]) is None
