"""How far an output may reach into an input: known nests, random nests, and microkernels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_bytes import run_shared, watched_distances

from edgec.loop import microkernel, overlap
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel
from edgec.loop.overlap import overlap_distance, overlap_distances
from edgec.loop.parser import parse_func
from edgec.loop.printer import print_func
from edgec.loop.unify import closed_at


def nest(body: str, x: str = "int8[16]", out: str = "int8[16]", more: str = "") -> PrimFunc:
    return parse_func(f"func f(x: arena {x}, out: arena {out}{more}) {{\n{body}\n}}\n")


def distance(func: PrimFunc) -> int | None:
    return overlap_distance(func, func.params[0], func.params[1])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for i in 0..16 { out[i] = x[i] }", 0),
        ("for i in 0..8 { out[i] = x[i*2] + x[i*2 + 1] }", -1),
        ("for i in 0..4 { out[i*4] = x[i*2] }", 3),  # the last step reads 6, 9 bytes are written
        ("for i in 0..15 { out[i + 1] = x[i] }", 1),
        ("for i in 0..15 { out[i] = x[i + 1] }", -1),
        ("for i in 0..16 { out[15 - i] = x[i] }", 15),  # backwards: the end comes first
        ("for i in 0..16 { out[i] = x[15 - i] }", 15),
        ("for i in 0..4 { for j in 0..4 { out[i + j*4] = x[i*4 + j] } }", 9),
        ("for i in 0..16 { if i < 4 { out[i] = x[i] } else { out[i] = x[i] } }", 0),
        ("for i in 0..16 { out[i] = 1i8 }", -16),
        ("alloc r: register int8[1]\nr[0] = x[0]\nfor i in 0..16 { out[i] = r[0] }", -16),
        ("for i in 0..16 { out[i] = gather(x, int32(x[i])) }", 15),
        ("parallel for i in 0..8 { out[i] = x[i + 8] }", 0),
        ("for i in 0..8 { out[i] = x[i + 8] }", -8),
    ],
)
def test_known_nests(body: str, expected: int) -> None:
    assert distance(nest(body)) == expected


def test_no_use_is_none() -> None:
    # Backwards it would be right exactly in place, but not lower; nothing has asked for that yet.
    assert distance(nest("for i in 0..16 { out[15 - i] = x[15 - i] }")) is None
    assert distance(nest("for i in 0..16 { out[i] = 0i8 }\nout[0] = x[0]")) is None
    assert distance(nest("for i in 0..16 { out[i] = x[15 - i] }\nout[0] = x[0]")) is None


def test_of_many_inputs_none_is_looked_at() -> None:
    """A concatenation of 2,000 took minutes: each input costs a walk past all the others."""

    def joined(count: int) -> PrimFunc:
        params = "".join(f", x{n}: arena int8[1]" for n in range(count))
        body = "\n".join(f"out[{n}] = x{n}[0]" for n in range(count))
        return parse_func(f"func f(out: arena int8[{count}]{params}) {{\n{body}\n}}\n")

    most = overlap.MOST_INPUTS
    assert len(overlap_distances(joined(most - 1))) == most - 1
    assert overlap_distances(joined(most)) == {}


def test_wider_elements_count_in_bytes() -> None:
    widen = "for i in 0..8 { out[i] = int32(x[i]) }"
    # Step 7 reads byte 7 after 28 bytes are written.
    assert distance(nest(widen, "int8[8]", "int32[8]")) == 21
    narrow = "for i in 0..8 { out[i] = int8(x[i]) }"
    assert distance(nest(narrow, "int32[8]", "int8[8]")) == -3  # read 4 when 1 is written


def test_c_types_that_may_not_alias_never_overlap() -> None:
    body = "for i in 0..8 { out[i] = float32(x[i]) }"
    assert distance(nest(body, "int32[8]", "float32[8]")) is None
    assert distance(nest(body, "int16[8]", "float32[8]")) is None


@pytest.mark.parametrize(
    "body",
    [
        "for i in 0..h { for j in 0..4 { out[i, j] = x[i, j] } }",
        "for i in 0..h { for j in 0..4 { out[h - 1 - i, j] = x[i, j] } }",
        "for j in 0..4 { for i in 0..h { out[i, j] = x[min(i + 1, h - 1), j] } }",
    ],
)
def test_at_open_sizes_it_is_the_largest_of_all(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    func = parse_func(
        "func f(x: arena int8[6, 4], out: arena int8[6, 4]) at h[2..7]"
        f" sizes x[h, 4] sizes out[h, 4] {{ {body} }}"
    )
    sizes = [closed_at(func, {func.indices[0]: h}) for h in range(2, 7)]
    arrays = [{"x": np.ones(each.params[0].shape, np.int8)} for each in sizes]
    needed = [watched_distances(f, a, "out")[1]["x"] for f, a in zip(sizes, arrays, strict=True)]
    assert distance(func) == max(each for each in needed if each is not None)
    monkeypatch.setattr(overlap, "MOST_SIZES", 4)
    assert distance(parse_func(print_func(func).replace("func f", "func g"))) is None


def test_padded_window_reads_a_row_above() -> None:
    body = (
        "for h in 0..4 { for w in 0..4 { out[h*4 + w] = 0i8\n"
        "for k in max(0, -h + 1)..min(3, -h + 5) {"
        " out[h*4 + w] = out[h*4 + w] + x[h*4 + k*4 + w - 4] } } }"
    )
    # Pixel (h, w) reads row h - 1 from w on when all up to (h, w) is begun.
    assert distance(nest(body)) == 5


def test_each_input_has_its_own_distance() -> None:
    func = nest("for i in 0..16 { out[i] = x[i] + y[i // 4] }", more=", y: arena int8[4]")
    x, _, y = func.params
    # y[3] is read when 15 bytes are written: nothing is gained by sharing 16 bytes with 4.
    assert overlap_distances(func) == {x: 0, y: 12}


def test_larger_batches_and_limits_keep_it_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    func = nest("for i in 0..4 { for j in 0..4 { out[i*4 + j] = x[i*4 + j] + x[i*4] } }")
    exact = overlap_distance.__wrapped__(func, *func.params[:2])
    assert exact == 3
    monkeypatch.setattr(overlap, "BATCH", 3)
    assert overlap_distance.__wrapped__(func, *func.params[:2]) == exact
    monkeypatch.setattr(overlap, "MOST_ITERATIONS", 4)  # rows in order, a row as a whole
    assert overlap_distance.__wrapped__(func, *func.params[:2]) == 4
    monkeypatch.setattr(overlap, "MOST_ITERATIONS", 3)
    assert overlap_distance.__wrapped__(func, *func.params[:2]) is None


def test_outputs_and_loops_that_are_not_alone() -> None:
    two = "func f(x: arena int8[8], a: arena int8[8], b: arena int8[8]) { for i in 0..8 {"
    assert overlap_distances(parse_func(f"{two} a[i] = x[i] b[i] = x[i] }} }}")) == {}
    one = parse_func(f"{two} a[i] = x[i] }} }}")
    assert {b.name: d for b, d in overlap_distances(one).items()} == {"x": 0, "b": -8}
    for body, expected in [
        # a loop that never runs, one whose bounds are only roughly known, one from a number on
        ("for i in 0..16 { out[i] = x[i] }\nfor i in 5..5 { out[i] = x[0] }", 0),
        ("for i in 4..16 { out[i] = x[i - 4] }", 4),
        ("for i in 4..16 { out[i - 4] = x[i] }", -4),
        ("for i in 0..4 { for j in i..4 { out[j] = x[j] } }", 3),
        ("for i in 0..4 { for j in max(0, i - 1)..i { out[j] = x[j + 1] } }", -1),
        # remainders inside one period and beyond it
        ("for i in 0..4 { out[i] = x[(i + 8) % 16] }", -8),
        ("for i in 0..16 { out[i] = x[(i + 4) % 16] }", 12),
        ("for i in 0..4 { for j in 0..4 { out[i*4 + j] = x[(i*4 + j) // 4 * 4] } }", 3),
        ("parallel for i in 4..8 { out[i] = x[(i + 1) % 8 + 8] }", 0),
        ("parallel for i in 4..6 { out[i - 4] = x[(i + 2) % 8 + 8] }", -12),
        ("parallel for i in 4..8 { out[i - 4] = x[(i + 2) % 8 + 8] }", -4),
        ("parallel for i in 0..8 { out[i] = x[min(i + 2, 6) + 4] }", 2),
        ("parallel for i in 0..8 { out[i] = x[max(i - 2, 3) + 4] }", 1),
        # boxes of a callee, in any order in one call
        ("for i in 0..4 { call k(&x[i*4] reads [4], &out[i*4] writes [4]) }", 4),
        ("for i in 0..2 { call k(&x[i*4 + 8] reads [4], &out[i*4] writes [4]) }", -4),
    ]:
        assert distance(nest(body)) == expected, body


# microkernels ---------------------------------------------------------------------------------


def copy4(start: int = 0) -> PrimFunc:
    return parse_func(
        f"func copy4(to: arena int8[4], x: arena int8[8]) {{\n"
        f"for i in 0..4 {{ to[i] = x[i + {start}] }}\n}}\n"
    )


def odd4() -> PrimFunc:
    return parse_func(
        "func odd4(to: arena int8[4], x: arena int8[8]) {\nfor i in 0..4 { to[i] = x[2*i] }\n}\n"
    )


def late4() -> PrimFunc:
    return parse_func(
        "func late4(to: arena int8[4], x: arena int8[8]) {\n"
        "for i in 1..5 { to[i - 1] = x[i - 1] }\n}\n"
    )


def pairs4() -> PrimFunc:
    return parse_func(
        "func pairs4(to: arena int8[8], x: arena int8[8]) {\n"
        "for i in 0..4 { for c in 0..2 { to[2*i + c] = x[2*i + c] } }\n}\n"
    )


KERNELS = (
    Microkernel("test_pairs4_by_1", pairs4, in_order=("i", 1)),
    Microkernel("test_pairs4_by_1_in_order", pairs4, in_order=("i", 1), inner="c"),
    Microkernel("test_pairs4_by_3_in_order", pairs4, in_order=("i", 3), inner="c"),
    Microkernel("test_pairs4_of_another_loop", pairs4, in_order=("i", 1), inner="d"),
    Microkernel("test_copy4", copy4),
    Microkernel("test_copy4_from", copy4, sizes=("start",)),
    Microkernel("test_copy4_reads_first", copy4, reads_first=True),
    Microkernel("test_copy4_by_1", copy4, in_order=("i", 1)),
    Microkernel("test_copy4_by_3", copy4, in_order=("i", 3)),
    Microkernel("test_copy4_by_3_reads_first", copy4, in_order=("i", 3), reads_first=True),
    Microkernel("test_odd4_by_3", odd4, in_order=("i", 3)),
    Microkernel("test_odd4_by_1_and_3", odd4, in_order=("i", 3), starts=lambda **_: (0, 1)),
    Microkernel("test_copy4_late_by_1", late4, in_order=("i", 1)),
    Microkernel("test_copy4_of_another_loop", copy4, in_order=("j", 1)),
)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("call test_copy4(&out[i*4], &x[i*4])", 4),  # its order of reads and writes is not promised
        ("call test_copy4_reads_first(&out[i*4], &x[i*4])", 0),
        ("call test_copy4_by_1(&out[i*4], &x[i*4])", 1),
        ("call test_copy4_late_by_1(&out[i*4], &x[i*4])", 1),
        ("call test_copy4_by_3(&out[i*4], &x[i*4])", 3),
        ("call test_odd4_by_3(&out[i*4], &x[i*8])", 3),
        ("call test_odd4_by_1_and_3(&out[i*4], &x[i*8])", 2),
        ("call test_copy4_by_3_reads_first(&out[i*4], &x[i*4])", 0),
        ("call test_pairs4_by_1(&out[i*8], &x[i*8])", 2),
        ("call test_pairs4_by_1_in_order(&out[i*8], &x[i*8])", 0),
        ("call test_pairs4_by_3_in_order(&out[i*8], &x[i*8])", 4),
        ("call test_pairs4_of_another_loop(&out[i*8], &x[i*8])", 2),
        ("call test_copy4_of_another_loop(&out[i*4], &x[i*4])", 4),
        ("call test_copy4_from(&out[i*4], &x[i*4], 3)", 1),
        ("call test_copy4(&out[i*4], &x[0])", None),
        ("call test_unknown(&out[i*4], &x[i*4])", None),
    ],
)
def test_calls(call: str, expected: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for kernel in KERNELS:
        monkeypatch.setitem(microkernel._REGISTRY, kernel.name, kernel)
    assert distance(nest(f"for i in 0..4 {{ {call} }}", "int8[32]")) == expected


# random nests ---------------------------------------------------------------------------------


@st.composite
def terms(draw: st.DrawFn, variables: list[str], below: int) -> str:
    """An index into a dimension of this extent."""
    parts = [f"{v}*{draw(st.integers(-3, 5))}" for v in variables if draw(st.booleans())]
    text = " + ".join([*parts, str(draw(st.integers(0, below - 1)))])
    kind = draw(st.sampled_from(["mod", "div", "clip", "pick"]))
    if kind == "div":
        text = f"({text}) // {draw(st.integers(2, 3))}"
    elif kind == "pick" and len(variables) > 1:
        text = f"min({text}, {variables[0]} + {variables[-1]})"
    return f"({text}) % {below}" if kind == "mod" else f"max(0, min({text}, {below - 1}))"


@st.composite
def stores(draw: st.DrawFn, variables: list[str]) -> str:
    target = draw(st.sampled_from(["out", "out", "r"]))
    into = "0" if target == "r" else draw(terms(variables, 12))
    reads = [
        f"x[{draw(terms(variables, 10))}]" for _ in range(draw(st.integers(target == "out", 2)))
    ]
    return f"{target}[{into}] = {' + '.join([*reads, 'r[0]'])}"


@st.composite
def bodies(draw: st.DrawFn, variables: list[str], depth: int) -> str:
    statements = []
    for _ in range(draw(st.integers(1, 2))):
        kind = draw(st.sampled_from(["for", "for", "if", "store"])) if depth else "store"
        if kind == "store":
            statements.append(draw(stores(variables)))
        elif kind == "if":
            left, right = draw(terms(variables, 5)), draw(terms(variables, 5))
            inner = draw(bodies(variables, depth - 1))
            statements.append(f"if {left} < {right} {{ {inner} }}")
        else:
            var = f"i{len(variables)}"
            inner = draw(bodies([*variables, var], depth - 1))
            low = draw(terms(variables, 3))
            high = draw(st.integers(1, 5))
            statements.append(f"for {var} in {low}..{high} {{ {inner} }}")
    return "\n".join(statements)


@settings(max_examples=200, deadline=None)
@given(body=bodies([], 3), seed=st.integers(0, 2**16))
def test_random_nests(body: str, seed: int) -> None:
    """Never less than what a run needs, and a run in shared memory gives the same."""
    func = nest(f"alloc r: register int8[1]\nr[0] = 1i8\n{body}", "int8[10]", "int8[12]")
    x, out = func.params
    arrays = {"x": np.random.default_rng(seed).integers(-128, 128, 10).astype(np.int8)}
    found = overlap_distance(func, x, out)
    expected, needed = watched_distances(func, arrays, "out")
    if found is None:
        return
    assert found >= max(-10, needed["x"] if needed["x"] is not None else -10)
    for farther in (0, 1, 3):
        got = run_shared(func, arrays, "x", "out", found + farther)
        # Elements that the nest does not write keep what was there.
        written = expected != 0
        assert got[written].tolist() == expected[written].tolist()


def test_blocks_of_a_gpu_have_no_order() -> None:
    """One block may write its second part before another one has read its first."""
    text = """
func joined(x: arena int8[4], y: arena int8[4], out: arena int8[8]) {{
  {kind} for i in 0..4 {{ out[i] = x[i] }}
  sync {scope}
  {kind} for j in 0..4 {{ out[j + 4] = y[j] }}
}}
"""
    for kind, scope, distances in (
        ("block_x", "block", {}),
        ("thread_x", "warp", {}),
        ("thread_x", "block", {"x": 4}),  # the only block, whose threads wait
        ("block_x", "grid", {"x": 4}),
    ):
        found = overlap_distances(parse_func(text.format(kind=kind, scope=scope)))
        assert {x.name: distance for x, distance in found.items()} == distances
