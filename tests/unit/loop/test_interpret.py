"""The interpreter: C's arithmetic, checks of indices and of unwritten elements."""

import numpy as np
import pytest

from edgec.errors import ContractError
from edgec.loop.interpret import interpret, to_python
from edgec.loop.parser import parse_func


def run(body, arrays=None, head="y: arena int32[4]", **options):
    return interpret(parse_func(f"func f({head}) {{\n{body}\n}}\n"), arrays or {}, **options)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2147483647 + 1", -(2**31)),
        ("-2147483648 - 1", 2**31 - 1),
        ("65536 * 65536", 0),
        ("123456789 * 1000", 123456789000 - 29 * 2**32),
        ("-7 / 2", -3),
        ("7 / -2", -3),
        ("-2147483648 / -1", -(2**31)),
        ("-7 >> 1", -4),
        ("1 << 31", -(2**31)),
        ("int32(int8(200))", -56),
        ("int32(uint8(-1))", 255),
        ("int32(4294967295u32 >> 4u32)", 2**28 - 1),
        ("int32(4000000000u32 + 500000000u32)", 4500000000 - 2**32),
        ("int32(-2.9f32)", -2),
        ("int32(16777217.0f32)", 16777216),
        ("int32(16777216.0f32 + 1.0f32 + 1.0f32)", 16777216),
        ("int32(int64(7) * 1000000000000i64 >> 20i64)", 7 * 10**12 >> 20),
        ("select(1 < 2, 10, 20)", 10),
        ("int32(1 == 1)", 1),
    ],
)
def test_arithmetic(value, expected):
    assert run(f"for i in 0..4 {{ y[i] = {value} }}")["y"].tolist() == [expected] * 4


def test_integer_to_float_rounds_once():
    # 2**60 + 2**36 + 1 lies just above the middle of two floats; through a double it would not.
    value = 2**60 + 2**36 + 1
    out = run(f"y[0] = float32({value}i64)", head="y: arena float32[1]")["y"]
    assert out[0] == np.int64(value).astype(np.float32)


def test_indices_are_checked_when_not_proven():
    with pytest.raises(
        ContractError, match=r"index \[1, 4\] is outside buffer y of shape \[2, 4\]"
    ):
        run("for i in 0..8 { y[1, i] = 0 }", head="y: arena int32[2, 4]")
    with pytest.raises(ContractError, match=r"index \[-1\] is outside buffer y"):
        run("for i in 0..4 { y[i - 1] = 0 }")
    with pytest.raises(ContractError, match=r"index \[9\] is outside buffer y"):
        run("y[0] = 9\ny[1] = gather(y, y[0])")
    assert "checked" not in to_python(
        parse_func(
            "func f(y: arena int8[9]) { for i in 0..3 { for k in i..3 { y[k*3 - i] = 0i8 } } }"
        )
    )


def test_unwritten_elements_are_found():
    with pytest.raises(ContractError, match="reads an element that nothing wrote"):
        run("alloc r: register int32[1]\ny[0] = r[0] + 1")


def test_division_by_zero_and_unfit_floats():
    with pytest.raises(ContractError, match="division by zero"):
        run("y[0] = 1 / 0")
    with pytest.raises(ContractError, match="no meaning"):
        run("y[0] = int32(inff32)")


def test_arrays_must_fit():
    with pytest.raises(ContractError, match=r"y is given int32\[3\]"):
        run("y[0] = 1", {"y": np.zeros(3, dtype=np.int32)})


def test_calls():
    def fill(values, offset, number):
        values[offset] = number

    out = run("y[0] = 0\ny[1] = 0\ny[3] = 0\ncall fill(&y[2], 5)", callees={"fill": fill})
    assert out["y"].tolist() == [0, 0, 5, 0]


def test_init_runs_at_the_first_step_only():
    body = """for i in 0..2 { for k in i..4 { for j in 0..2 {
      block b(a: spatial = i, c: reduce = k, d: reduce = j) {
        init { y[a] = 100 }
        y[a] = y[a] + index(c)
    } } } }
    y[2] = 0  y[3] = 0"""
    assert run(body)["y"].tolist() == [112, 112, 0, 0]
