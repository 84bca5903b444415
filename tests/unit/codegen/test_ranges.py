"""Intervals contain every value that can occur, and prove what they should."""

from __future__ import annotations

import pytest
from c_harness import conv_func, int32, load, loop, store
from hypothesis import given
from hypothesis import strategies as st

from edgec.codegen.expand import expand
from edgec.codegen.ranges import Ranges, accumulated_range, range_class
from edgec.loop.ir import Binary, Buffer, Cast, Const, For, PrimFunc, Seq, Store
from edgec.numerics.term import Var

OPS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}
INTERVAL = st.tuples(st.integers(-300, 300), st.integers(-300, 300)).map(sorted)


@given(st.sampled_from(sorted(OPS)), INTERVAL, INTERVAL, st.data())
def test_interval_contains_the_value(
    op: str, a: list[int], b: list[int], data: st.DataObject
) -> None:
    left, right = (Buffer(name, (1,), "int32", "constant") for name in "ab")
    ranges = Ranges({left: (a[0], a[1]), right: (b[0], b[1])})
    found = ranges.of(Binary(op, load(left, 0), load(right, 0)))
    assert found is not None
    x, y = data.draw(st.integers(*a)), data.draw(st.integers(*b))
    assert found[0] <= OPS[op](x, y) <= found[1]


def test_overflow_gives_the_whole_type() -> None:
    x = Buffer("x", (1,), "int32", "arena")
    assert Ranges().of(Binary("add", load(x, 0), int32(1))) == (-(2**31), 2**31 - 1)
    assert Ranges().exact(Binary("add", load(x, 0), int32(1))) == (-(2**31) + 1, 2**31)


def test_floats_have_no_range() -> None:
    x = Buffer("x", (1,), "float32", "arena")
    assert Ranges().of(Binary("add", load(x, 0), Const(1.0, "float32"))) is None
    assert Ranges().of(Cast("int8", load(x, 0))) == (-128, 127)


def test_accumulator_counts_every_trip() -> None:
    """A convolution window of 9 x 8 products of (int8 + 128) and int8, on a bias of 24 bits."""
    func = conv_func(unroll=4)
    ranges = Ranges({func.params[3]: (-(1 << 24), 1 << 24)})
    body = expand(func)
    while len(body) == 1:
        assert isinstance(body[0], For)
        inner = body[0].body
        body = inner.stmts if isinstance(inner, Seq) else (inner,)
    first = body[0]
    assert isinstance(first, Store)
    found = accumulated_range(ranges, (first.buffer, 0), first, body[1:])
    worst = 9 * 8 * 255 * 128
    assert found == (-(1 << 24) - worst, (1 << 24) + 9 * 8 * 255 * 127)


@pytest.mark.parametrize("op", ["mul", "xor"])
def test_other_uses_are_not_guessed(op: str) -> None:
    x = Buffer("x", (4,), "int8", "arena")
    acc = Buffer("acc", (1,), "int32", "register")
    i = Var("i", 0, 4)
    first = store(acc, (0,), int32(3))
    update = store(acc, (0,), Binary(op, load(acc, 0), Cast("int32", load(x, i))))
    func = PrimFunc("f", (x,), (acc,), Seq((first, loop(i, update))))
    body = expand(func)
    assert accumulated_range(Ranges(), (acc, 0), first, body[1:]) is None


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_classes_contain_their_range(a: int, b: int) -> None:
    low, high = min(a, b), max(a, b)
    class_low, class_high = range_class("int32", low, high)
    assert class_low <= low and high <= class_high
    assert (high < 0) == (class_high < 0) and (low > 0) == (class_low > 0)
