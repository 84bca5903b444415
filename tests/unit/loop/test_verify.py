"""The contract of a PrimFunc: every broken promise is found and named."""

from dataclasses import replace

import pytest

from edgec.errors import ContractError
from edgec.loop.ir import Buffer, Cast, Const, Gather
from edgec.loop.parser import parse_func
from edgec.loop.verify import verify_func

HEAD = "func f(x: arena int8[4], y: arena int32[4], w: constant int8[4]) {"


def text(body, head=HEAD):
    return f"{head}\n{body}\n}}\n"


GOOD = """for i in 0..4 {
  for k in max(0, i - 1)..4 {
    block b(a: spatial = i, c: reduce = k) {
      init { y[a] = 0 }
      y[a] = y[a] + int32(x[c]) * int32(w[c])
    }
  }
}"""


def test_good_function():
    verify_func(parse_func(text(GOOD)))


#: 0 or 1, which intervals cannot show.
ZERO_OR_ONE = "min(i // 2 + max(h, 2) - 1, 2) - i // 2 - max(h, 2) + 2"
COUNTED = "for h in 0..4 {{ for i in 0..4 {{ for j[0..1] in {} {{ y[j] = 0 }} }} }}"

#: Reductions over windows of which the first meet nothing, as schedules leave them.
NEVER = (
    "for h in 0..2 { for k in max(0, -h + 2)..min(1, -h + 4) { y[h - 2] = 0 } }",
    "for h in 0..1 { for k in 0..(-max(0, -h + 2) + min(1, -h + 4) + 3) // 4 { y[h - 2] = 0 } }",
    "for h in 0..1 { if max(0, -h + 2) < min(1, -h + 4) { y[h - 2] = 0 } }",
    "for h in 0..2 { for k in 2..min(2, h + 1) { block b(a[0..4]: spatial = 9) { y[a] = 0 } } }",
)


@pytest.mark.parametrize("body", NEVER)
def test_what_never_runs_may_be_outside(body):
    verify_func(parse_func(text(body)))
    runs = body.replace("min(1, -h + 4)", "min(3, -h + 4)").replace("min(2, h + 1)", "h + 3")
    assert runs != body
    with pytest.raises(ContractError, match=r"outside of 4|is bound to"):
        verify_func(parse_func(text(runs)))


def test_bounds_that_intervals_cannot_show_are_counted():
    body = COUNTED.format(f"0..{ZERO_OR_ONE}")
    verify_func(parse_func(text(body)))
    for wrong in (body.replace("- 1, 2", ", 2"), body.replace("i in 0..4", "i in 0..4000")):
        with pytest.raises(ContractError, match=r"bounds 0\.\.1 do not cover"):
            verify_func(parse_func(text(wrong)))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("w[0] = 1i8", "w is constant"),
        ("x[0] = 1", "int32 is stored into int8 x"),
        ("x[4] = 1i8", "outside of 4"),
        ("for i in 0..4 { x[i + 4] = 1i8 }", "outside of 4"),
        ("x[0, 0] = 1i8", "has 1 dimensions, not 2"),
        ("x[0] = 300i8", "300 is out of int8"),
        ("x[0] = x[0] + int8(1.5f32) + 1i8\ny[0] = y[0] + x[0]", "add of int32 and int8"),
        ("y[0] = select(1, 2, 3)", "select by int32"),
        ("y[0] = select(1 < 2, 2, y[0] < 3)", "select of int32 and bool"),
        ("y[0] = int32(1.5f32 << 2.5f32)", "shl of float32"),
        ("y[0] = requantize_tflm(1, 2)", "is not its type"),
        ("y[0] = nope:int32(1)", "nope is unknown"),
        ("y[0] = int32(gather(x, x[0]))", "gathers at no int32"),
        ("for i in 0..2 { for i in 0..2 { y[i] = 0 } }", "loop i inside a loop of that name"),
        ("for x in 0..2 { y[x] = 0 }", "loop x has the name of a buffer"),
        ("for i[0..2] in 0..4 { y[i] = 0 }", "bounds 0..2 do not cover 0..4"),
        ("for i in 0..3 { unrolled for j in 0..i + 1 { y[j] = 0 } }", "extent is not constant"),
        ("block b() { y[0] = 0 }\nblock b() { y[0] = 0 }", "two blocks named b"),
        ("block b(k: reduce = 3) { y[k] = 0 }", "does not accumulate"),
        ("block b(i: spatial = 3) { init { y[i] = 0 } y[i] = 0 }", "does not reduce"),
        ("block b(i[0..2]: spatial = 3) { y[i] = 0 }", "axis i is bound to 3..3"),
        ("block b(i: spatial = 3, i: spatial = 2) { y[i] = 0 }", "two axes have one name"),
    ],
)
def test_broken_promises(body, why):
    with pytest.raises(ContractError, match=why):
        verify_func(parse_func(text(body)))


def test_a_block_speaks_only_of_its_axes():
    func = parse_func(text("for i in 0..4 { block b(a: spatial = i) { y[a + i] = 0 } }"))
    with pytest.raises(ContractError, match="i of a \\+ i is not in scope"):
        verify_func(func)


def test_scopes():
    with pytest.raises(ContractError, match="parameter r is a register"):
        verify_func(parse_func("func f(r: register int8[1]) { r[0] = 1i8 }"))
    with pytest.raises(ContractError, match="alloc a is arena"):
        verify_func(parse_func("func f() {\n alloc a: arena int8[1]\n a[0] = 1i8 }"))


#: What is right, though a checker with one word wrong would refuse it.
RIGHT = (
    # A loop that an outer guard keeps within its bounds, twice.
    "for i in 0..4 { if i < 2 { for j[0..2] in 0..i + 1 { y[j] = 0 } } }\n"
    "for k in 0..4 { if k < 2 { for l[0..2] in 0..k + 1 { y[l] = 0 } } }",
    # Bounds that intervals show, where counting takes too long.
    "for i in 0..20000 { for j in 0..4 { y[j] = 0 } }",
    "for i in 0..2 { unrolled for j in i..i + 2 { y[j] = 0 } }",
    "if 2 < 2 { y[9] = 0 }",
    "x[0] = -128i8",
    "y[0] = 1 << 2",
    "y[0] = int32(1.5f32 + 3000000000.0f32)",
    "call g(1 + y[0], &y[0])",
    "for i in 0..4 { y[i] = 0 }\nfor i in 0..4 { y[i] = 1 }",
    # Empty wherever the interval's start and end are far outside.
    COUNTED.format("5 - 5 * (EMPTY)..5 - 4 * (EMPTY)".replace("EMPTY", ZERO_OR_ONE)),
)


@pytest.mark.parametrize("body", RIGHT)
def test_kept_promises(body):
    verify_func(parse_func(text(body)))


def test_barriers_and_sizes_of_a_run():
    verify_func(parse_func(
        "func f(y: arena int32[8]) { thread_x for i in 0..8 { y[i] = 0 }\nsync block\n"
        "thread_x for j in 0..8 { y[j] = 1 } }"
    ))  # fmt: skip
    head = "func f(y: arena int32[4]) at n[0..9] {"
    verify_func(parse_func(text("for j[0..1] in max(n, 3)..3 { y[j] = 0 }", head)))


IN_A_BLOCK = "for i in 0..4 {{ block b(a: spatial = 0) {{ {} }} }}"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("when 1.5f32 { y[0] = 0 }", "a condition is float32"),
        ("when 1 < 2 { y[9] = 0 }", "outside of 4"),
        ("when 1 < 2 { y[0] = 0 } else { y[9] = 0 }", "outside of 4"),
        ("when 1 < y[9] { y[0] = 0 }", "outside of 4"),
        ("repeat { y[9] = 0 } while y[0] < 2 { y[0] = 1 }", "outside of 4"),
        ("repeat { y[0] = 0 } while 1.5f32 { y[0] = 1 }", "a condition is float32"),
        ("repeat { y[0] = 0 } while y[0] < 2 { y[9] = 1 }", "outside of 4"),
        ("if 1 < 2 { y[0] = 0 } else { y[9] = 0 }", "outside of 4"),
        ("y[0] = y[4]", "outside of 4"),
        ("call g(&y[9])", "outside of 4"),
        ("call g(y[9])", "outside of 4"),
        ("parallel for i in 0..4 { y[0] = 0 }", "parallel, but"),
        ("thread_x for i in 0..4 { if i < 2 { sync block } }", "^f: "),
        ("block b(a[0..4]: spatial = 4) { y[a] = 0 }", "axis a is bound to 4..4"),
        ("block b(k: reduce = 3) { init { y[9] = 0 } y[k] = y[k] + 1 }", "outside of 4"),
        ("for i in 0..2 { block b(a: spatial = i) { y[a] = 0 } }\n"
         "for i in 0..2 { block c(a: spatial = i) { y[a] = 0 } }", "two loops named i"),
        ("for i in 0..4 { for j[2..4] in i..4 { y[j] = 0 } }", "bounds 2..4 do not cover 0..4"),
        # After what never runs, or is guarded, all counts again.
        ("for h in 0..1 { for k in 1..0 { y[9] = 0 } }\ny[9] = 0", r"^f: y\[.. 9"),
        ("if 3 < 2 { y[9] = 0 }\ny[9] = 0", r"^f: y\[.. 9"),
        ("if 1 < 2 { y[0] = 0 }\nfor i in 0..4 { for j[0..2] in 0..i + 1 { y[j] = 0 } }",
         "do not cover"),
        ("block b() { y[0] = 0 }\ny[9] = 0", r"^f: y\[.. 9"),
        ("block b() { y[9] = 0 }", r"^f > block b: y\[.. 9"),
        (IN_A_BLOCK.format("for k in i..4 { y[a] = 0 }"), "i of i is not in scope"),
        (IN_A_BLOCK.format("for k in 0..i { y[a] = 0 }"), "i of i is not in scope"),
        (IN_A_BLOCK.format("if i < 2 { y[a] = 0 }"), "i of i is not in scope"),
        (IN_A_BLOCK.format("if 2 < i { y[a] = 0 }"), "i of i is not in scope"),
        (IN_A_BLOCK.format("y[a] = index(i)"), "i of i is not in scope"),
        (IN_A_BLOCK.format("block c(d: spatial = i) { y[d] = 0 }"), "i of i is not in scope"),
    ],
)  # fmt: skip
def test_broken_promises_inside(body, why):
    with pytest.raises(ContractError, match=why):
        verify_func(parse_func(text(body)))


def test_counting_has_a_limit(monkeypatch):
    """One step, 4 of the first loop, 16 of the second."""
    func = parse_func(text(COUNTED.format(f"0..{ZERO_OR_ONE}")))
    monkeypatch.setattr("edgec.loop.verify.MOST_STEPS", 21)
    verify_func(func)
    monkeypatch.setattr("edgec.loop.verify.MOST_STEPS", 20)
    with pytest.raises(ContractError, match="do not cover"):
        verify_func(func)


def test_sizes_of_a_run_are_not_counted_through():
    stop = ZERO_OR_ONE.replace("h", "n")
    head = "func f(y: arena int32[4]) at n[0..4] {"
    body = f"for i in 0..4 {{ for j[0..1] in 0..{stop} {{ y[j] = 0 }} }}"
    with pytest.raises(ContractError, match=r"bounds 0\.\.1 do not cover"):
        verify_func(parse_func(text(body, head)))


def made(**parts):
    """`y[0] = 0` with other parts, which no text can say."""
    func = parse_func(text("y[0] = 0"))
    if "value" in parts:
        parts["body"] = replace(func.body, value=parts.pop("value"))
    return replace(func, **parts)


Y = Buffer("y", (4,), "int32", "arena")
Z = Const(0, "int32")


@pytest.mark.parametrize(
    ("func", "why"),
    [
        (made(params=(Y, Y)), "two buffers named y"),
        (made(params=(replace(Y, dtype="int7"),)), "y has dtype int7"),
        (made(params=(replace(Y, shape=(0,)),)), "y has no elements"),
        (made(params=(replace(Y, shape=(5,)),)), "y is not declared so"),
        (made(value=Const(1, "int7")), "literal of dtype int7"),
        (made(value=Cast("int7", Z)), "a cast to int7"),
        (made(value=Gather(replace(Y, shape=(5,)), (Z,))), "gathers elsewhere"),
        (made(value=Gather(Y, (Z, Z))), "gathers at a wrong rank"),
    ],
)
def test_what_no_text_says(func, why):
    with pytest.raises(ContractError, match=why):
        verify_func(func)
