"""The text of the loop IR: what the printer does not meet in schedules, and mistakes."""

import pytest

from edgec.errors import ContractError
from edgec.loop.ir import (
    Axis,
    Binary,
    Block,
    Branch,
    Buffer,
    BufferRef,
    Call,
    Cast,
    Const,
    For,
    Gather,
    If,
    IndexValue,
    Intrinsic,
    Load,
    PrimFunc,
    Select,
    Seq,
    Store,
    While,
)
from edgec.loop.parser import parse_func, parse_term
from edgec.loop.printer import print_func
from edgec.numerics.term import Var, as_term, floor_div, floor_mod, maximum, minimum

X = Buffer("x", (4, 4), "int32", "arena")
F = Buffer("f", (4,), "float32", "scratch")
T = Buffer("t", (256,), "int32", "constant")
R = Buffer("r", (1,), "int32", "register")
H, J = Var("h", 0, 4), Var("j", -1, 9)


def const(value, dtype="int32"):
    return Const(value, dtype)


EXPRS = [
    const(-5),
    const(7, "int8"),
    const(255, "uint8"),
    const(-(2**40), "int64"),
    const(0.1, "float32"),
    const(-1e-30, "float32"),
    const(3e20, "float64"),
    const(float("inf"), "float32"),
    const(float("-inf"), "float64"),
    const(True, "bool"),
    Load(X, (as_term(H), as_term(3))),
    Gather(T, (Binary("add", const(1), Load(X, (as_term(0), as_term(H)))),)),
    IndexValue(as_term(H) * 3 - floor_div(as_term(J), 4)),
    IndexValue(floor_div(as_term(J), 2) * -1 + floor_mod(as_term(J), 3) * 5, "int64"),
    IndexValue(minimum(as_term(H), as_term(J)) * 2 - maximum(as_term(J), 3)),
    Binary("sub", const(1), Binary("sub", const(2), const(-3))),
    Binary("mul", Binary("add", const(1), const(2)), Binary("shl", const(3), const(4))),
    Binary("or", Binary("and", const(1), const(2)), Binary("xor", const(3), const(4))),
    Binary("div", const(9), Binary("mul", const(2), const(3))),
    Binary("min", const(9), Binary("max", const(2), const(3))),
    Select(Binary("lt", const(1), const(2)), const(3), const(4)),
    Select(Binary("eq", Binary("le", const(1), const(2)), const(True, "bool")), const(3), const(4)),
    Cast("int32", Cast("int8", const(300))),
    Intrinsic("requantize_tflm", (const(1), const(2), const(3)), "int32"),
    Intrinsic("not_registered", (const(1.0, "float32"),), "int32"),
    Intrinsic("requantize_onnx", (), "float64"),
]


@pytest.mark.parametrize("expr", EXPRS, ids=str)
def test_expressions_round_trip(expr):
    store = Store(X, (as_term(H), as_term(0)), expr)
    inner = For(J, as_term(-1), as_term(9), "serial", store)
    func = PrimFunc("f", (X, T), (), For(H, as_term(0), as_term(4), "serial", inner))
    assert parse_func(print_func(func)) == func


def test_statements_round_trip():
    wide = Var("k", 0, 10)
    store = Store(F, (as_term(H),), Cast("float32", const(1)))
    body = Seq(
        (
            For(wide, as_term(H), as_term(H) + 2, "unrolled", Seq(())),
            Seq((store, store)),
            Seq((store,)),
            If(as_term(H), as_term(2), store, Store(F, (as_term(0),), const(0.5, "float32"))),
            If(as_term(H), as_term(2), Seq(())),
            Call("kernel", (BufferRef(X, (as_term(H), as_term(0))), const(3))),
            Block(
                "b",
                (
                    Axis(Var("a", 0, 4), "spatial", as_term(H)),
                    Axis(Var("c", 0, 9), "reduce", as_term(2)),
                ),
                Store(F, (as_term(Var("a", 0, 4)),), const(0.0, "float32")),
                Seq((Store(F, (as_term(Var("c", 0, 9)),), const(1.0, "float32")), store)),
            ),
        )
    )
    func = PrimFunc("f", (X, F), (R,), For(H, as_term(0), as_term(4), "parallel", body))
    text = print_func(func)
    assert parse_func(text) == func
    assert "for k[0..10] in h..h + 2 {" in text
    assert "block b(a: spatial = h, c[0..9]: reduce = 2) {" in text


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("x[0] = y[0]", "expected a buffer, found 'y'"),
        ("x[0] = y(0)", "'y' is neither a buffer nor a known function"),
        ("y[0] = 1", "expected a buffer, found 'y'"),
        ("x[i] = 1", "expected a variable in scope, found 'i'"),
        ("for i in 0..4 { x[i] = 1", "expected a buffer, found 'the end'"),
        ("x[0] = 1 ? 2", "line 2: '\\?' is not understood"),
        ("x[0] = 1.5", "1.5 is not of dtype int32"),
        ("x[0] = 1q7", "is not understood"),
        ("} func", "expected the end"),
    ],
)
def test_mistakes_are_told_with_their_place(body, why):
    with pytest.raises(ContractError, match=why):
        parse_func("func f(x: arena int32[4]) {\n" + body + "\n}\n")


def test_two_buffers_of_one_name():
    with pytest.raises(ContractError, match="not taken"):
        parse_func("func f(x: arena int8[1], x: arena int8[1]) { }")


def test_what_data_decide_is_read():
    head = "func f(x: arena int32[4], y: arena int32[4]) {"
    func = parse_func(f"{head} when x[0] {{ y[0] = 1 }} else {{ y[0] = 2 }} }}")
    assert isinstance(func.body, Branch) and func.body.otherwise is not None
    func = parse_func(f"{head} at most 7 repeat {{ y[0] = 1 }} while (x[0]) {{ y[1] = 2 }} }}")
    assert isinstance(func.body, While) and func.body.limit == 7
    for text, why in [
        ("at 7 repeat { y[0] = 1 } while (x[0]) { y[1] = 2 }", "most"),
        ("call k(&x[0] reads 4)", r"\["),
        ("call k(&x[0] eats [4])", "found 'eats'"),
        ("block b(a: loud = 3) { y[a] = 1 }", "spatial or reduce"),
    ]:
        with pytest.raises(ContractError, match=why):
            parse_func(f"{head} {text} }}")


def test_pointers_with_and_without_a_box_are_read():
    head = "func f(x: arena int32[4], y: arena int32[4]) {"
    body = parse_func(f"{head} call k(&x[1] reads [2], &y[3]) }}").body
    x, y = (Buffer(name, (4,), "int32", "arena") for name in "xy")
    assert body == Call(
        "k", (BufferRef(x, (as_term(1),), "reads", (2,)), BufferRef(y, (as_term(3),)))
    )


def test_indices_of_a_function_have_bounds():
    body = "{ y[i] = 1 }"
    func = parse_func(f"func f(y: arena int32[4]) at i[0..4] {body}")
    assert [(v.name, v.start, v.stop) for v in func.indices] == [("i", 0, 4)]
    with pytest.raises(ContractError, match="bounds of the index"):
        parse_func(f"func f(y: arena int32[4]) at i {body}")


def test_a_term_is_all_of_its_text():
    assert parse_term("h*2 + 1", {"h": H}) == as_term(H) * 2 + 1
    with pytest.raises(ContractError, match="the end"):
        parse_term("h*2 h", {"h": H})
