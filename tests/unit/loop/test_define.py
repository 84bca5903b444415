"""Define-by-run: one body gives the nest and the value, and they agree."""

import numpy as np
import pytest

from edgec.errors import ContractError
from edgec.loop.define import Definition
from edgec.loop.interpret import interpret
from edgec.loop.printer import print_func
from edgec.loop.values import (
    clamp,
    float32,
    index,
    int8,
    int16,
    int32,
    int64,
    intrinsic,
    maximum,
    select,
    uint8,
)
from edgec.loop.verify import verify_func


def agree(definition, arrays, name="out"):
    func = definition.build()
    verify_func(func)
    value = definition.evaluate(arrays)[name]
    run = interpret(func, arrays)[name]
    assert value.dtype == run.dtype
    assert np.array_equal(value, run, equal_nan=value.dtype.kind == "f")
    return value


def test_nest_reads_as_written():
    b = Definition("twice")
    x = b.input("x", (2, 3), "int8")
    out = b.output("out", (2, 3), "int16")
    b.compute(out, lambda h, c: int16(x[h, c]) * 2)
    assert print_func(b.build()) == (
        "func twice(x: arena int8[2, 3], out: arena int16[2, 3]) {\n"
        "  for out_h in 0..2 {\n"
        "    for out_c in 0..3 {\n"
        "      block out(h: spatial = out_h, c: spatial = out_c) {\n"
        "        out[h, c] = int16(x[h, c]) * 2i16\n"
        "      }\n"
        "    }\n"
        "  }\n"
        "}\n"
    )


INT32 = np.array([0, 1, -1, 7, -7, 2**31 - 1, -(2**31), 12345678, -987654], dtype=np.int32)
FLOAT = np.array([0.0, -0.0, 1.5, -2.5, 1e30, -3e-30, 1 / 3, 16777217, np.inf], dtype=np.float32)

BODIES = {
    "add": lambda a, b: a + b,
    "rsub": lambda a, b: 5 - a,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / maximum(b, 3),
    "negative div": lambda a, b: a / (-maximum(b, 3)),
    "shift": lambda a, b: (a >> 3) + (b << 2),
    "bits": lambda a, b: (a & b) | (a ^ 21),
    "clamp": lambda a, b: clamp(a, -100, 100),
    "select": lambda a, b: select(a < b, a, -b),
    "compare": lambda a, b: select((a <= b), 1, b),
    "greater": lambda a, b: select(a > b, a, 0) + select((a >= 7), b, 1),
    "equal": lambda a, b: select(a.equals(b), a, 3),
    "narrow": lambda a, b: int32(int8(a)) + int32(uint8(b)) + int32(int16(a)),
    "wide": lambda a, b: int32((int64(a) * int64(b)) >> 31),
    "requantize_tflm": lambda a, b: intrinsic("requantize_tflm", a, maximum(b, 1), -3),
    "requantize_single": lambda a, b: intrinsic("requantize_single", a, maximum(b, 1), -3),
    "requantize_onnx": lambda a, b: intrinsic("requantize_onnx", a, 0.0123),
    "to float": lambda a, b: intrinsic("round_half_even_f32", float32(a) * 0.5),
}


@pytest.mark.parametrize("name", BODIES)
def test_int32_arithmetic(name):
    b = Definition("f")
    x = b.input("x", (9,), "int32")
    y = b.input("y", (9,), "int32")
    out = b.output("out", (9, 9), "int32")
    b.compute(out, lambda i, j: BODIES[name](x[i], y[j]))
    agree(b, {"x": INT32, "y": INT32[::-1].copy()})


@pytest.mark.parametrize("name", ["add", "rsub", "mul", "clamp", "select"])
def test_float32_arithmetic_rounds_every_operation(name):
    b = Definition("f")
    x = b.input("x", (9,), "float32")
    y = b.input("y", (9,), "float32")
    out = b.output("out", (9, 9), "float32")
    b.compute(out, lambda i, j: BODIES[name](x[i], y[j]) * 0.1 + y[j])
    with np.errstate(all="ignore"):
        agree(b, {"x": FLOAT, "y": FLOAT[::-1].copy()})


def test_window_without_any_element_keeps_its_initial_value():
    b = Definition("f")
    x = b.input("x", (3,), "int32")
    out = b.output("out", (5,), "int32")
    b.reduce(
        out,
        [("k", lambda i: maximum(0, 2 - i), lambda i: maximum(1, 3 - i))],
        init=lambda i: 42,
        update=lambda acc, i, k: acc + x[k],
    )
    assert "block out_init" not in print_func(b.build())
    x_value = np.array([1, 2, 3], dtype=np.int32)
    assert agree(b, {"x": x_value}).tolist() == [45, 44, 43, 43, 43]
    b = Definition("g")
    x = b.input("x", (3,), "int32")
    out = b.output("out", (5,), "int32")
    b.reduce(out, [("k", lambda i: i, 3)], init=lambda i: 42, update=lambda acc, i, k: acc + x[k])
    assert "block out_init" in print_func(b.build())
    assert agree(b, {"x": x_value}).tolist() == [48, 47, 45, 42, 42]


def test_stages_that_cover_parts_of_a_target():
    b = Definition("concat")
    x = b.input("x", (2, 3), "int8")
    out = b.output("out", (2, 5), "int8")
    b.compute(out, lambda h, c: x[h, c], shape=(2, 3), name="left")
    b.compute(out, lambda h, c: 7, shape=(2, 2), at=lambda h, c: (h, c + 3), name="right")
    value = agree(b, {"x": np.arange(6, dtype=np.int8).reshape(2, 3)})
    assert value.tolist() == [[0, 1, 2, 7, 7], [3, 4, 5, 7, 7]]


def test_table_is_read_at_a_value():
    b = Definition("table")
    x = b.input("x", (4,), "int8")
    table = b.constant("table", (256,), "int8")
    out = b.output("out", (4,), "int8")
    b.compute(out, lambda i: table[int32(x[i]) + 128])
    values = np.arange(256).astype(np.uint8).view(np.int8)
    x_value = np.array([-128, -1, 0, 127], dtype=np.int8)
    assert agree(b, {"x": x_value, "table": values}).tolist() == [0, 127, -128, -1]
    assert "gather(table, int32(x[i]) + 128)" in print_func(b.build())


def test_index_as_a_value():
    b = Definition("ramp")
    out = b.output("out", (3, 4), "int32")
    b.compute(out, lambda h, c: index(h * 10 + c))
    assert agree(b, {})[2].tolist() == [20, 21, 22, 23]


def outside(b, x, out):
    b.compute(out, lambda i: x[i + 1])


def mixed(b, x, out):
    b.compute(out, lambda i: x[i] + int32(x[i]))


def wrong_dtype(b, x, out):
    b.compute(out, lambda i: int32(x[i]))


def twice(b, x, out):
    b.compute(out, lambda i: x[i])
    b.compute(out, lambda i: x[i])


def wrong_rank(b, x, out):
    b.compute(out, lambda i: x[i, 0])


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (mixed, "mixes int8 and int32"),
        (wrong_dtype, "computes int32, but out is int8"),
        (twice, "two stages named 'out'"),
        (wrong_rank, "has 1 dimensions, 2 indices"),
    ],
)
def test_faults_are_named(fault, why):
    b = Definition("f")
    x = b.input("x", (3,), "int8")
    out = b.output("out", (3,), "int8")
    with pytest.raises(ContractError, match=why):
        fault(b, x, out)
        b.build()


def test_a_reduction_without_steps_is_its_initial_value():
    """A window that lies in the padding is such a reduction."""
    b = Definition("f")
    x = b.input("x", (3,), "int8")
    out = b.output("out", (3,), "int8")
    b.reduce(out, [("k", lambda i: 2, 2)], init=lambda i: x[i], update=lambda acc, i, k: acc + acc)
    func = b.build()
    assert "reduce" not in print_func(func)
    arrays = {"x": np.arange(3, dtype=np.int8)}
    for found in (interpret(func, arrays), b.evaluate(arrays)):
        assert found["out"].tolist() == [0, 1, 2]


def test_index_outside_is_found_by_both_readings():
    b = Definition("f")
    x = b.input("x", (3,), "int8")
    out = b.output("out", (3,), "int8")
    outside(b, x, out)
    arrays = {"x": np.zeros(3, dtype=np.int8)}
    with pytest.raises(ContractError, match="index 0 of x leaves"):
        b.evaluate(arrays)
    with pytest.raises(ContractError, match=r"index \[3\] is outside buffer x"):
        interpret(b.build(), arrays)


def test_wrong_array_is_refused():
    b = Definition("f")
    b.input("x", (3,), "int8")
    with pytest.raises(ContractError, match="x is int16"):
        b.evaluate({"x": np.zeros(3, dtype=np.int16)})
