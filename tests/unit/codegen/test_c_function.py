"""Emitted functions give what the loop interpreter gives, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from c_harness import conv_constants, conv_func, int32, load, loop, run_emitted, store

from edgec.codegen.c_function import emit_function
from edgec.codegen.c_text import wrapped
from edgec.errors import ContractError
from edgec.loop.interpret import interpret
from edgec.loop.ir import (
    Axis,
    Binary,
    Block,
    Buffer,
    BufferRef,
    Call,
    Cast,
    Const,
    Expr,
    Gather,
    If,
    IndexValue,
    Intrinsic,
    PrimFunc,
    Select,
    Seq,
)
from edgec.numerics.term import Var, as_term

EDGES = {
    "int8": [-128, -127, -1, 0, 1, 2, 126, 127],
    "uint8": [0, 1, 2, 127, 128, 254, 255, 3],
    "int16": [-32768, -32767, -1, 0, 1, 7, 32766, 32767],
    "uint16": [0, 1, 2, 32767, 32768, 65534, 65535, 3],
    "int32": [-(2**31), -(2**31) + 1, -1, 0, 1, 3, 2**31 - 2, 2**31 - 1],
    "uint32": [0, 1, 2, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1, 3],
    "int64": [-(2**63), -(2**63) + 1, -1, 0, 1, 2**40, 2**63 - 2, 2**63 - 1],
    "uint64": [0, 1, 2, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1, 5],
}


def check(func: PrimFunc, arrays: dict[str, np.ndarray], folder: Path, **options: object) -> None:
    expected = interpret(func, arrays)
    given = run_emitted(func, arrays, folder, **options)  # type: ignore[arg-type]
    for name, array in expected.items():
        np.testing.assert_array_equal(given[name].view(array.dtype), array, err_msg=name)


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    edge = np.array(EDGES[dtype], dtype)
    return np.repeat(edge, edge.size), np.tile(edge, edge.size)


def pointwise(dtype: str, result: str, value: Expr, a: Buffer, b: Buffer, i: Var) -> PrimFunc:
    out = Buffer("out", a.shape, result, "arena")
    return PrimFunc("pointwise", (a, b, out), (), loop(i, store(out, (i,), value)))


@pytest.mark.parametrize("op", ["add", "sub", "mul", "min", "max", "and", "or", "xor"])
def test_integer_operators_wrap_at_every_width(op: str, tmp_path: Path) -> None:
    for dtype in EDGES:
        a, b = (Buffer(name, (64,), dtype, "arena") for name in "ab")
        i = Var("i", 0, 64)
        func = pointwise(dtype, dtype, Binary(op, load(a, i), load(b, i)), a, b, i)
        left, right = pairs(dtype)
        folder = tmp_path / dtype
        folder.mkdir()
        check(func, {"a": left, "b": right}, folder)


@pytest.mark.parametrize("op", ["lt", "le", "eq"])
def test_comparisons_give_bool(op: str, tmp_path: Path) -> None:
    for dtype in ("int8", "uint32", "int64"):
        a, b = (Buffer(name, (64,), dtype, "arena") for name in "ab")
        i = Var("i", 0, 64)
        value = Select(Binary(op, load(a, i), load(b, i)), int32(1), int32(0))
        left, right = pairs(dtype)
        folder = tmp_path / dtype
        folder.mkdir()
        check(pointwise(dtype, "int32", value, a, b, i), {"a": left, "b": right}, folder)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64"])
def test_shifts_and_division(dtype: str, tmp_path: Path) -> None:
    a, b = (Buffer(name, (64,), dtype, "arena") for name in "ab")
    i = Var("i", 0, 64)
    three = Const(3, dtype)
    nonzero = Binary("or", Binary("and", load(b, i), Const(7, dtype)), Const(1, dtype))
    value: Expr = Binary("shl", load(a, i), three)
    value = Binary("xor", value, Binary("shr", load(a, i), three))
    value = Binary("add", value, Binary("div", load(a, i), nonzero))
    left, right = pairs(dtype)
    check(pointwise(dtype, dtype, value, a, b, i), {"a": left, "b": right}, tmp_path)


@pytest.mark.parametrize("source", ["int8", "uint16", "int32", "int64"])
def test_casts_wrap(source: str, tmp_path: Path) -> None:
    for target in EDGES:
        a, b = (Buffer(name, (64,), source, "arena") for name in "ab")
        i = Var("i", 0, 64)
        value = Cast(target, Binary("add", load(a, i), load(b, i)))
        left, right = pairs(source)
        folder = tmp_path / target
        folder.mkdir()
        check(pointwise(source, target, value, a, b, i), {"a": left, "b": right}, folder)


def test_float_operators(tmp_path: Path) -> None:
    for dtype in ("float32", "float64"):
        a, b = (Buffer(name, (64,), dtype, "arena") for name in "ab")
        i = Var("i", 0, 64)
        third = Const(1 / 3, dtype)
        value: Expr = Binary("mul", load(a, i), load(b, i))
        value = Binary("add", value, Binary("max", load(a, i), third))
        value = Binary("sub", value, Binary("div", load(b, i), Const(7, dtype)))
        value = Binary("add", value, Cast(dtype, IndexValue(as_term(i) * 3)))
        left = np.random.default_rng(3).standard_normal(64).astype(dtype)
        right = np.random.default_rng(4).standard_normal(64).astype(dtype) * 1e9
        folder = tmp_path / dtype
        folder.mkdir()
        func = pointwise(dtype, dtype, value, a, b, i)
        check(func, {"a": left, "b": right.astype(dtype)}, folder)


def test_boolean_logic(tmp_path: Path) -> None:
    a, b = (Buffer(name, (64,), "int8", "arena") for name in "ab")
    i = Var("i", 0, 64)
    zero = Const(0, "int8")
    low = Binary("lt", load(a, i), zero)
    same = Binary("eq", load(a, i), load(b, i))
    value = Select(
        Binary("or", Binary("and", low, same), Binary("xor", low, Cast("bool", load(b, i)))),
        Const(5, "int8"),
        Const(-5, "int8"),
    )
    left, right = pairs("int8")
    check(pointwise("int8", "int8", value, a, b, i), {"a": left, "b": right}, tmp_path)


@pytest.mark.parametrize(
    ("dtype", "up", "multiplier", "down", "is_shift"),
    [
        ("int16", 15, 1 << 30, 0, True), ("int8", 20, 1 << 30, -3, True),
        ("int8", 3, 1 << 30, -2, True), ("int8", 3, 1 << 30, -3, False),
        ("int16", 16, 1 << 30, 0, False), ("int16", 15, (1 << 30) + 1, 0, False),
        ("int8", 3, 1 << 30, 1, False), ("int32", 1, 1 << 30, 0, False),
    ],
)  # fmt: skip
def test_exact_parts_are_shifts(dtype, up, multiplier, down, is_shift, tmp_path: Path) -> None:
    a, b = (Buffer(name, (64,), dtype, "arena") for name in "ab")
    i = Var("i", 0, 64)
    acc = Binary("shl", Cast("int32", load(a, i)), int32(up))
    value = Intrinsic("requantize_tflm", (acc, int32(multiplier), int32(down)), "int32")
    func = pointwise(dtype, "int32", value, a, b, i)
    left, right = pairs(dtype)
    check(func, {"a": left, "b": right}, tmp_path)
    assert ("requantize" not in emit_function(func, "f").text) == is_shift


@pytest.mark.parametrize("unroll", [1, 2, 8])
@pytest.mark.parametrize("known", [False, True])
def test_convolution(unroll: int, known: bool, tmp_path: Path) -> None:
    func = conv_func(unroll=unroll)
    arrays = conv_constants(func)
    arrays["x"] = np.random.default_rng(7).integers(-128, 128, (6, 6, 8)).astype(np.int8)
    ranges = {"shift": (-31, -1), "bias": (-(1 << 24), 1 << 24)} if known else None
    check(func, arrays, tmp_path, known=ranges)
    text = emit_function(func, "f", known=ranges).text
    assert ("ec_requantize_tflm_relu_s8" in text) == known
    assert ("acc0 += " in text) == known


def test_accumulators_that_may_overflow_wrap(tmp_path: Path) -> None:
    func = conv_func(size=3, channels=4, unroll=2)
    arrays = conv_constants(func)
    arrays["bias"] = np.array([2**31 - 1, -(2**31), 2**30, -(2**30)], np.int32)
    arrays["x"] = np.random.default_rng(8).integers(-128, 128, (3, 3, 4)).astype(np.int8)
    check(func, arrays, tmp_path, known={"shift": (-31, -1)})


def test_first_step_of_reduction_initializes(tmp_path: Path) -> None:
    x = Buffer("x", (4, 6), "int8", "arena")
    out = Buffer("out", (4,), "int32", "arena")
    i, k0, k1 = Var("i", 0, 4), Var("k0", 0, 3), Var("k1", 0, 2)
    n, k = Var("n", 0, 4), Var("k", 0, 6)
    block = Block(
        "sum",
        (Axis(n, "spatial", as_term(i)), Axis(k, "reduce", as_term(k0) * 2 + k1)),
        store(out, (n,), int32(5)),
        store(out, (n,), Binary("add", load(out, n), Cast("int32", load(x, n, k)))),
    )
    for kind in ("serial", "unrolled"):
        func = PrimFunc("sum", (x, out), (), loop(i, loop(k0, loop(k1, block, kind))))
        folder = tmp_path / kind
        folder.mkdir()
        array = np.arange(24, dtype=np.int8).reshape(4, 6)
        given = run_emitted(func, {"x": array}, folder)
        np.testing.assert_array_equal(given["out"], array.astype(np.int32).sum(axis=1) + 5)


def test_conditions_and_negative_index_arithmetic(tmp_path: Path) -> None:
    x = Buffer("x", (10,), "int8", "arena")
    out = Buffer("out", (10,), "int8", "arena")
    i = Var("i", 0, 10)
    t = as_term(i)
    value = Cast("int8", Binary("add", IndexValue((t - 7) // 3), IndexValue((t - 7) % 3)))
    body = Seq(
        (
            If(t * 2, as_term(9), store(out, (i,), load(x, 9 - t)), store(out, (i,), value)),
            If(as_term(8), t, store(out, (i,), Const(77, "int8"))),
            If(as_term(0), t + 1, Seq(()), store(out, (i,), Const(1, "int8"))),
        )
    )
    func = PrimFunc("select", (x, out), (), loop(i, body))
    check(func, {"x": np.arange(10, dtype=np.int8)}, tmp_path)
    assert "77" in emit_function(func, "f").text


def test_register_array_and_table_lookup(tmp_path: Path) -> None:
    x = Buffer("x", (16,), "int8", "arena")
    table = Buffer("table", (256,), "int16", "constant")
    out = Buffer("out", (16,), "int16", "arena")
    line = Buffer("line", (16,), "int16", "register")
    i, j = Var("i", 0, 16), Var("i", 0, 16)
    index = Binary("add", Cast("int32", load(x, i)), int32(128))
    body = Seq(
        (
            loop(i, store(line, (i,), Gather(table, (index,)))),
            loop(j, store(out, (j,), load(line, 15 - as_term(j)))),
        )
    )
    func = PrimFunc("lookup", (x, table, out), (line,), body)
    rng = np.random.default_rng(5)
    arrays = {
        "x": rng.integers(-128, 128, 16).astype(np.int8),
        "table": rng.integers(-32768, 32767, 256).astype(np.int16),
    }
    check(func, arrays, tmp_path)


def test_in_place_order_is_kept(tmp_path: Path) -> None:
    """Loads are not moved over stores: x and out may be the same memory."""
    x = Buffer("x", (8,), "int8", "arena")
    out = Buffer("out", (8,), "int8", "arena")
    i = Var("i", 0, 4)
    t = as_term(i) * 2
    one = Const(1, "int8")
    body = Seq(
        (
            store(out, (t,), Binary("add", load(x, t + 1), one)),
            store(out, (t + 1,), Binary("add", load(x, t + 1), one)),
        )
    )
    text = emit_function(PrimFunc("pair", (x, out), (), loop(i, body)), "f").text
    assert text.count("x_at[") + text.count("x[") == 2
    assert "restrict" not in text


def test_constants_are_restrict_and_unused_parameters_silent(tmp_path: Path) -> None:
    x = Buffer("x", (8,), "int8", "arena")
    spare = Buffer("spare", (4,), "int32", "scratch")
    w = Buffer("w", (8,), "int8", "constant")
    out = Buffer("out", (8,), "int8", "arena")
    i = Var("i", 0, 8)
    func = PrimFunc(
        "f",
        (x, spare, w, out),
        (),
        loop(i, store(out, (i,), Binary("xor", load(x, i), load(w, i)))),
    )
    arrays = {"x": np.arange(8, dtype=np.int8), "w": np.arange(8, dtype=np.int8)}
    given = run_emitted(func, arrays, tmp_path)
    np.testing.assert_array_equal(given["out"], np.zeros(8))
    signature = emit_function(func, "f").signature
    assert "const int8_t *restrict w" in signature
    assert "const int8_t *x" in signature


def test_hostile_local_names(tmp_path: Path) -> None:
    x = Buffer("while", (3, 4), "int8", "arena")
    out = Buffer("int32_t", (3, 4), "int8", "arena")
    local = Buffer("schleife/äöü", (1,), "int8", "register")
    i, j = Var("for", 0, 3), Var("ec_add_s32", 0, 4)
    body = Seq(
        (
            store(local, (0,), load(x, i, j)),
            store(out, (i, j), Binary("add", load(local, 0), load(local, 0))),
        )
    )
    func = PrimFunc("if", (x, out), (local,), loop(i, loop(j, body)))
    array = np.arange(12, dtype=np.int8).reshape(3, 4) * 11
    given = run_emitted(func, {"while": array}, tmp_path)
    np.testing.assert_array_equal(given["int32_t"], (array.astype(np.int32) * 2).astype(np.int8))


def test_calls_pass_element_pointers(tmp_path: Path) -> None:
    x = Buffer("x", (4, 8), "int8", "arena")
    out = Buffer("out", (4, 8), "int8", "arena")
    i = Var("i", 0, 4)
    refs = (
        BufferRef(x, (as_term(i), as_term(0))),
        BufferRef(out, (as_term(3) - i, as_term(2))),
        IndexValue(as_term(i)),
    )
    func = PrimFunc("driver", (x, out), (), loop(i, Call("row", refs)))
    text = emit_function(func, "f", callees={"row": "model_row"}).text
    assert "model_row(&x[i * 8], &out[(3 - i) * 8 + 2], i);" in text


def test_onnx_rounding(tmp_path: Path) -> None:
    x = Buffer("x", (1000,), "int32", "arena")
    out = Buffer("out", (1000,), "int32", "arena")
    i = Var("i", 0, 1000)
    value = Intrinsic("requantize_onnx", (load(x, i), Const(0.01171875, "float32")), "int32")
    func = PrimFunc("q", (x, out), (), loop(i, store(out, (i,), value)))
    rng = np.random.default_rng(6)
    array = rng.integers(-(2**31), 2**31, 1000).astype(np.int32)
    array[:500] >>= 16
    check(func, {"x": array}, tmp_path)


def test_shared_memory_is_refused() -> None:
    x = Buffer("x", (4,), "int8", "shared")
    with pytest.raises(ContractError, match="shared"):
        emit_function(PrimFunc("f", (x,), (), Seq(())), "f")


def test_long_lines_break_inside_100_columns() -> None:
    line = "    total = " + " + ".join(f"value_number_{i}" for i in range(30)) + ";"
    broken = wrapped(line)
    assert all(len(part) <= 100 for part in broken)
    assert " ".join(part.strip() for part in broken) == line.strip()


@pytest.mark.parametrize("op", ["sub", "div"])
def test_what_is_taken_off_keeps_its_parentheses(op: str, tmp_path: Path) -> None:
    """a - (b - c) is not a - b - c; floats have no casts that would keep them apart."""
    first, second = (np.array([1.5, -4, 9, 0.25], np.float32) + n for n in (0, 3))
    a, b = (Buffer(name, (4,), "float32", "arena") for name in "ab")
    i = Var("i", 0, 4)
    inner = Binary(op, load(b, i), load(a, i))
    for name, value in (("right", Binary(op, load(a, i), inner)),
                        ("left", Binary(op, inner, load(b, i)))):  # fmt: skip
        (tmp_path / name).mkdir()
        func = pointwise("float32", "float32", value, a, b, i)
        check(func, {"a": first, "b": second, "out": np.zeros(4, np.float32)}, tmp_path / name)
