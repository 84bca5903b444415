"""The contract of a PrimFunc: every broken promise is found and named."""

import pytest

from edgec.errors import ContractError
from edgec.loop.parser import parse_func
from edgec.loop.verify import unproven_indices, verify_func

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
    stop = "min(i // 2 + max(h, 2) - 1, 2) - i // 2 - max(h, 2) + 2"
    body = f"for h in 0..4 {{ for i in 0..4 {{ for j[0..1] in 0..{stop} {{ y[j] = 0 }} }} }}"
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
        ("x[0] = 300i8", "300 is no int8"),
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


def test_unproven_indices():
    guarded = parse_func(text("for i in 0..8 { if i < 4 { y[i] = 0 } }"))
    assert unproven_indices(guarded) == ["y: i is in 0..7 of 4"]
    assert unproven_indices(parse_func(text(GOOD))) == []
