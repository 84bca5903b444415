"""Intervals contain every value that can occur, and prove what they should."""

from __future__ import annotations

import pytest
from c_harness import conv_func, int32, load, loop, store
from hypothesis import given
from hypothesis import strategies as st

from edgec.codegen.expand import expand
from edgec.codegen.ranges import (
    REQUANTIZE_TFLM,
    Range,
    Ranges,
    accumulated_range,
    range_class,
)
from edgec.loop.ir import Binary, Buffer, Cast, Const, For, Intrinsic, PrimFunc, Seq, Store
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


X = Buffer("x", (4,), "int8", "arena")
ACC = Buffer("acc", (2,), "int32", "register")
WHOLE = (-(2**31), 2**31 - 1)


def test_a_register_that_feeds_itself_is_not_guessed() -> None:
    """3 - acc, again and again, is 3 - acc of any earlier round."""
    turned = store(ACC, (0,), Binary("sub", int32(3), load(ACC, 0)))
    first = store(ACC, (0,), int32(3))
    again = loop(Var("i", 0, 9), turned)
    assert accumulated_range(Ranges(), (ACC, 0), first, [again]) is None


@pytest.mark.parametrize(("op", "holds"), [("min", (-128, 5)), ("max", (3, 127))])
def test_limits_of_a_register_cover_all_that_it_was(op: str, holds: tuple[int, int]) -> None:
    start = Buffer("start", (1,), "int32", "constant")
    first = store(ACC, (0,), load(start, 0))
    update = store(ACC, (0,), Binary(op, load(ACC, 0), Cast("int32", load(X, 0))))
    found = accumulated_range(Ranges({start: (3, 5)}), (ACC, 0), first, [update])
    assert found is not None
    assert -128 <= found[0] <= holds[0] and holds[1] <= found[1] <= 127


@pytest.mark.parametrize("name", REQUANTIZE_TFLM)
def test_a_right_shift_leaves_few_bits(name: str) -> None:
    """acc * multiplier * 2**(shift - 31), of 32 bits each, with the multiplier below 1."""
    acc = Buffer("a", (1,), "int32", "arena")

    def of(intrinsic: str, shift: int) -> Range | None:
        args = (load(acc, 0), int32(2**31 - 1), int32(shift))
        return Ranges().exact(Intrinsic(intrinsic, args, "int32"))

    assert of(name, -8) == (-(2**23), 2**23)
    assert of(name, -31) == (-1, 1)
    assert of(name, 0) == WHOLE and of("clamp", -8) == WHOLE


def test_bits_of_numbers_that_are_not_negative_are_as_few() -> None:
    a, b = (Buffer(name, (1,), "int32", "constant") for name in "ab")
    both = Binary("and", load(a, 0), load(b, 0))
    assert Ranges({a: (0, 10), b: (0, 12)}).exact(both) == (0, 10)
    assert Ranges({a: (-1, 10), b: (0, 12)}).exact(both) == WHOLE
    assert Ranges({a: (0, 10), b: (-1, 12)}).exact(both) == WHOLE


def test_shifts_that_c_leaves_open_are_not_guessed() -> None:
    def shifted(op: str, by: int) -> Range | None:
        return Ranges().exact(Binary(op, Cast("int32", load(X, 0)), int32(by)))

    assert shifted("shr", 63) == (-1, 0) and shifted("shr", 2) == (-32, 31)
    assert shifted("shl", 3) == (-1024, 1016)
    for by in (64, -1):
        assert shifted("shr", by) == WHOLE and shifted("shl", by) is None


def test_what_is_known_of_one_element_is_not_said_of_others() -> None:
    ranges = Ranges()
    ranges.elements[ACC, 0] = (1, 2)
    assert ranges.of(load(ACC, 0)) == (1, 2)
    assert ranges.of(load(ACC, 1)) == WHOLE
    assert ranges.of(load(ACC, Var("i", 0, 2))) == WHOLE


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 0, (0, 0)), (-5, -1, (-(2**24), -1)), (1, 5, (1, 2**24)), (-5, 0, (-(2**24), 0)),
     (0, 1, (0, 2**24)), (-(2**24) - 1, 2**24 + 1, (-(2**29), 2**29)),
     (-(2**29) - 1, 2**29 + 1, WHOLE)],
)  # fmt: skip
def test_classes_keep_the_sign_and_few_sizes(
    low: int, high: int, expected: tuple[int, int]
) -> None:
    assert range_class("int32", low, high) == expected


@pytest.mark.parametrize(
    ("op", "expected"),
    [("add", (3, 15)), ("sub", (-9, 3)), ("mul", (2, 50)), ("min", (1, 5)), ("max", (2, 10)),
     ("div", (0, 5))],
)  # fmt: skip
def test_intervals_are_as_small_as_can_be(op: str, expected: tuple[int, int]) -> None:
    a, b = (Buffer(name, (1,), "int32", "constant") for name in "ab")
    ranges = Ranges({a: (1, 5), b: (2, 10)})
    assert ranges.exact(Binary(op, load(a, 0), load(b, 0))) == expected
