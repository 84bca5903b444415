"""Loops bound to blocks and threads: meaning, contract, races, and where barriers are placed."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from bound_kernels import GRID, REVERSED, ROUNDS, WARP, barriers, without

from edgec.errors import ContractError, ScheduleError
from edgec.loop.bound import (
    BOUND,
    Launch,
    does_wait,
    group_bytes,
    in_warps,
    kernel_parts,
    launch_of,
    shared_bytes,
    shared_places,
    why_not_bound,
)
from edgec.loop.interpret import interpret
from edgec.loop.ir import PrimFunc
from edgec.loop.parser import parse_func
from edgec.loop.primitives.barriers import place_barriers
from edgec.loop.printer import print_func
from edgec.loop.schedule import Schedule, replay
from edgec.loop.simplify import simplify
from edgec.loop.verify import verify_func

#: Tried here on random stages; `bind` is `set_kind`.
BINDING = ("place_barriers", "run_once")


def inputs(func: PrimFunc) -> dict[str, np.ndarray]:
    x = next(b for b in func.params if b.name == "x")
    return {"x": np.random.default_rng(1).integers(-99, 99, x.shape).astype(x.dtype)}


@pytest.mark.parametrize("text", [REVERSED, ROUNDS, WARP, GRID])
def test_text_contract_and_meaning(text: str) -> None:
    func = parse_func(text)
    assert parse_func(print_func(func)) == func
    verify_func(func)
    given = inputs(func)
    x = given["x"]
    expected = {"reversed": x[:, ::-1] + 1, "rounds": x[:, ::-1], "turned": 2 * x[::-1]}
    np.testing.assert_array_equal(interpret(func, given)["y"], expected[func.name])


@pytest.mark.parametrize("text", [REVERSED, ROUNDS, WARP, GRID])
def test_each_missing_barrier_is_found(text: str) -> None:
    func = parse_func(text)
    assert barriers(func)
    for barrier in barriers(func):
        with pytest.raises(ContractError, match=r"race: element|that nothing wrote"):
            interpret(without(func, barrier), inputs(func))


def test_too_narrow_a_barrier_is_a_race() -> None:
    func = parse_func(REVERSED.replace("sync block", "sync warp"))
    with pytest.raises(ContractError, match=r"that nothing wrote|race"):
        interpret(func, inputs(func))
    func = parse_func(GRID.replace("sync grid", "sync block"))
    # Blocks run one after the other here, so that elements exist: the race alone shows it.
    with pytest.raises(ContractError, match=r"race: element .* of block|that nothing wrote"):
        interpret(func, inputs(func))


def test_a_race_names_both_threads() -> None:
    func = parse_func("""
func sums(x: arena int32[4], y: arena int32[1]) {
  thread_x for i in 0..4 { y[i // 4] = x[i] }
}
""")
    message = "race: element 0 of y is written by thread 0 of block 0 and written by thread 1"
    with pytest.raises(ContractError, match=message):
        interpret(func, inputs(func))
    with pytest.raises(ContractError, match="its steps share elements of y"):
        verify_func(func)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("sync block", "when x[i, 0] { sync block }", "under a condition that data decide"),
        ("sync block", "thread_x for m in 0..20 { sync block }", "which not all threads enter"),
        ("sync block", "thread_x for m in 0..40 { if m < 9 { sync block } }", "where threads part"),
        ("sync block", "for m in 0..i { sync grid }", "where threads part"),
        ("thread_x for k", "thread_x for m in 0..1 { } thread_x for k", ""),
        ("thread_x for k in 0..40", "for k in 0..40", "every thread_x stores y at once"),
        ("block_x for i", "for i", ""),
        ("0..40", "0..1040", "1040 threads in a block; the limit is 1024"),
        ("shared int32[40]", "shared int32[40000]", "160000 bytes of shared memory"),
        ("thread_x for j in 0..40 {", "thread_x for j in 0..40 { thread_x for q in 0..2 {} ",
         "inside another one bound to thread_x"),
        ("thread_x for j in 0..40", "thread_x for j in i..40", "its extent is not constant"),
    ],
)  # fmt: skip
def test_contract(old: str, new: str, why: str) -> None:
    text = REVERSED.replace(old, new, 1)
    if why:
        with pytest.raises(ContractError, match=why):
            verify_func(parse_func(text))
    else:
        verify_func(parse_func(text))


def test_too_many_threads_in_all() -> None:
    func = parse_func("""
func wide(y: arena int32[64, 64]) {
  thread_x for i in 0..64 { thread_y for j in 0..64 { y[i, j] = 0 } }
}
""")
    with pytest.raises(ContractError, match="4096 threads in a block"):
        verify_func(func)


def test_what_needs_threads_without_threads() -> None:
    with pytest.raises(ContractError, match="a barrier, but no loop is bound"):
        verify_func(parse_func("func f(y: arena int32[1]) { y[0] = 0 sync block }"))
    text = "func f(y: arena int32[1]) { alloc t: shared int32[1] t[0] = 0 y[0] = t[0] }"
    with pytest.raises(ContractError, match="shared memory, but no loop is bound"):
        verify_func(parse_func(text))


def test_threads_that_part_at_a_barrier() -> None:
    func = parse_func("""
func part(x: arena int32[8], y: arena int32[8]) {
  thread_x for i in 0..4 { sync block }
  thread_x for j in 0..8 { y[j] = x[j] }
}
""")
    with pytest.raises(ContractError, match="threads of one warp part"):
        interpret(func, inputs(func))


def test_launch() -> None:
    func = parse_func(REVERSED)
    launch = launch_of(func)
    assert launch is not None
    assert (launch.blocks, launch.threads, launch.of("thread_x")) == (3, 40, 40)
    assert shared_bytes(func) == 160


MATRIX = """
func product(x: arena int32[6, 12], w: constant int32[12, 8], y: arena int32[6, 8]) {
  alloc acc: register int32[6, 8]
  for i in 0..6 { for j in 0..8 { for k in 0..12 {
    block acc(m: spatial = i, n: spatial = j, r: reduce = k) {
      init { acc[m, n] = 0 }
      acc[m, n] = acc[m, n] + x[m, r] * w[r, n]
    }
  } } }
  for p in 0..6 { for q in 0..8 {
    block y(m: spatial = p, n: spatial = q) { y[m, n] = acc[m, n] }
  } }
}
"""


def test_a_product_with_shared_tiles() -> None:
    """Bound by primitives: a block makes rows, its threads fetch what they share."""
    s = Schedule(parse_func(MATRIX))
    s.bind("p", "block_x")
    s.bind("q", "thread_x")
    s.compute_at("acc", "q")
    s.decompose_reduction("acc", "k")
    s.simplify()
    s.place_barriers()
    verify_func(s.func)
    assert not barriers(s.func)  # every thread has its own sum
    rng = np.random.default_rng(2)
    x, w = (rng.integers(-9, 9, shape).astype("int32") for shape in ((6, 12), (12, 8)))
    np.testing.assert_array_equal(interpret(s.func, {"x": x, "w": w})["y"], x @ w)
    assert replay(parse_func(MATRIX), s.trace_json()).func == s.func


def test_bind_refuses_what_steps_share() -> None:
    s = Schedule(parse_func(MATRIX))
    with pytest.raises(ScheduleError, match="block acc reduces over it"):
        s.bind("k", "thread_x")
    carried = Schedule(
        parse_func("""
func carried(x: arena int32[8], y: arena int32[1]) {
  alloc t: register int32[1]
  t[0] = 0
  for i in 0..8 { t[0] = t[0] + x[i] }
  y[0] = t[0]
}
""")
    )
    with pytest.raises(ScheduleError, match="its steps share elements of t"):
        carried.bind("i", "thread_x")


STAGES = ("{to}[{a}] = {of}[{b}] + 1", "{to}[{a}] = {of}[{b}] * {of}[{c}]")


def staged(rng: random.Random) -> PrimFunc:
    """A few stages over shared or global memory, each by all threads, at random places."""
    names = ["x", *(f"t{n}" for n in range(rng.randint(1, 3)))]
    scopes = {name: rng.choice(("shared", "scratch")) for name in names[1:]}
    params = [f"{n}: scratch int32[16]" for n in names[1:] if scopes[n] == "scratch"]
    lines = [f"alloc {n}: shared int32[16]" for n in names[1:] if scopes[n] == "shared"]
    places = ("{v}", "15 - {v}", "({v} + 5) % 16", "{v} // 2", "3")
    loop = rng.random() < 0.5
    if loop:
        lines.append("for round in 0..3 {")
    for number, (of, to) in enumerate(itertools.pairwise([*names, "y"])):
        var = f"v{number}"
        b, c = (rng.choice(places).format(v=var) for _ in "bc")
        a = rng.choice(places[:2]).format(v=var)
        body = rng.choice(STAGES).format(to=to, of=of, a=a, b=b, c=c)
        lines.append(f"thread_x for {var} in 0..16 {{ {body} }}")
    if loop:
        lines.append("}")
    head = ", ".join(["x: arena int32[16]", "y: arena int32[16]", *params])
    return parse_func(f"func staged({head}) {{ {' '.join(lines)} }}")


@pytest.mark.parametrize("seed", range(40))
def test_placed_barriers_are_enough_and_needed(seed: int) -> None:
    func = staged(random.Random(seed))
    text = print_func(func).replace("thread_x for", "for").replace(": shared", ": register")
    serial = parse_func(text)
    given = inputs(func)
    placed, _ = place_barriers(func)
    verify_func(placed)
    expected = interpret(serial, given)["y"]
    np.testing.assert_array_equal(interpret(placed, given)["y"], expected)
    for barrier in barriers(placed):
        with pytest.raises(ContractError, match=r"race|nothing wrote"):
            interpret(without(placed, barrier), given)


MIXED = """
func mixed(x: arena int32[64], t: scratch int32[1], y: arena int32[64]) {
  t[0] = x[3] * 2
  block_x for b in 0..2 { thread_x for i in 0..32 { y[b*32 + i] = x[b*32 + i] + t[0] } }
}
"""


def test_what_is_not_bound_runs_in_one_thread() -> None:
    """Its loops of one step stay: without them every thread would store the same element."""
    func = parse_func(MIXED)
    with pytest.raises(ContractError, match="stores t at once"):
        verify_func(func)
    s = Schedule(func)
    s.run_once()
    s.place_barriers()
    verify_func(simplify(s.func))
    assert simplify(s.func) == s.func
    assert [barrier.scope for barrier in barriers(s.func)] == ["grid"]
    given = inputs(func)
    np.testing.assert_array_equal(interpret(s.func, given)["y"], given["x"] + given["x"][3] * 2)
    assert replay(func, s.trace_json()).func == s.func


def test_one_thread_of_what_nothing_is_bound_in_is_left_alone() -> None:
    s = Schedule(parse_func(MATRIX))
    s.run_once()
    assert s.func == parse_func(MATRIX)


def test_no_barrier_where_threads_keep_to_themselves() -> None:
    func = simplify(
        parse_func("""
func own(x: arena int32[4, 8], t: scratch int32[4, 8], y: arena int32[4, 8]) {
  block_x for i in 0..4 { thread_x for j in 0..8 { t[i, j] = x[i, j] * 2 } }
  block_x for m in 0..4 { thread_x for n in 0..8 { y[m, n] = t[m, n] } }
}
""")
    )
    assert place_barriers(func)[0] == func


def test_blocks_that_exchange_wait_for_the_grid() -> None:
    func = parse_func(GRID.replace("sync grid", ""))
    placed, _ = place_barriers(func)
    assert [barrier.scope for barrier in barriers(placed)] == ["grid"]


def faults(text: str) -> list[str]:
    return list(why_not_bound(parse_func(text)))


def test_limits_are_exact() -> None:
    for kind, most in zip(BOUND[1:], (65_535, 65_535, 1024, 1024, 64), strict=True):
        for steps, is_fine in ((most, True), (most + 1, False)):
            body = f"{kind} for i in 0..{steps} {{ y[i] = 1i8 }}"
            found = faults(f"func f(y: arena int8[70000]) {{ {body} }}")
            words = f"loop i has {steps} steps, {kind} at most {most}"
            assert (words in found) == (not is_fine)
            assert is_fine == (not found)
    for elements, is_fine in ((12_288, True), (12_289, False)):
        found = faults(REVERSED.replace("shared int32[40]", f"shared int32[{elements}]"))
        assert is_fine == (not found)
    wide = "func f(y: arena int8[9, 999]) { thread_y for i in 0..%d { thread_x for j in 0..128 {"
    for rows in (8, 9):
        found = faults(f"{wide % rows} y[i, j] = 1i8 }} }} }}")
        assert found == ([] if rows == 8 else ["1152 threads in a block; the limit is 1024"])


def test_who_stores_at_once() -> None:
    """Each block has its own shared memory, but not its own arena; registers are a thread's."""
    text = """func f(y: arena int32[8, 40]) {{
      alloc t: {scope} int32[40]
      block_x for i in 0..8 {{ thread_x for j in 0..40 {{ y[i, j] = 1 }} }}
      {inner}
    }}"""
    inside = "thread_x for k in 0..40 { t[k] = 2 }"
    assert faults(text.format(scope="shared", inner=inside)) == []
    assert faults(text.format(scope="register", inner="t[0] = 2")) == []
    assert faults(text.format(scope="shared", inner="t[0] = 2")) == [
        "every thread_x stores t at once"
    ]
    outside = "thread_x for k in 0..40 { y[0, k] = 2 }"
    assert faults(text.format(scope="shared", inner=outside)) == ["every block_x stores y at once"]
    assert faults(text.format(scope="shared", inner="y[0, 0] = 2")) == [
        "every block_x and thread_x stores y at once"
    ]


def test_registers_of_other_threads_are_out_of_reach() -> None:
    text = "func f(y: arena int32[40]) {{ alloc r: register int32[40]\n thread_x for j in 0..40 {{"
    assert faults(text.format() + " r[0] = 1 y[j] = r[0] } }") == []
    assert faults(text.format() + " r[0] = 1 y[j] = r[j] } }") == [
        "a thread reaches for registers r of others"
    ]


def test_barriers_and_shared_memory_need_bound_loops() -> None:
    assert faults("func f(y: arena int8[4]) { for i in 0..4 { y[i] = 1i8 } sync block }") == [
        "a barrier, but no loop is bound"
    ]
    shared = "func f(y: arena int8[4]) { alloc t: shared int8[4] for i in 0..4 { t[i] = 1i8 } }"
    assert faults(shared) == ["shared memory, but no loop is bound"]
    assert faults("func f(y: arena int8[4]) { for i in 0..4 { y[i] = 1i8 } }") == []


def test_launches_and_parts() -> None:
    text = """func f(x: arena int8[4, 64], y: arena int8[4, 64]) {
      alloc a: shared int8[5]
      alloc b: shared int32[5]
      block_y for i in 2..6 { thread_x for j in 0..40 { thread_y for k in 0..3 {
        a[0] = x[i - 2, j] } } }
      sync grid
      block_x for m in 0..2 { thread_x for n in 0..64 { y[m, n] = 1i8 b[0] = 3 } }
    }"""
    func = parse_func(text)
    launch = launch_of(func)
    assert launch is not None and launch.extents == (2, 4, 1, 64, 3, 1)
    assert (launch.blocks, launch.threads, launch.of("thread_y")) == (8, 192, 3)
    first, second = kernel_parts(func)
    assert [b.name for b in (*first.params, *first.allocs)] == ["x", "a"]
    assert [b.name for b in (*second.params, *second.allocs)] == ["y", "b"]
    assert launch_of(first).extents == (1, 4, 1, 40, 3, 1)
    assert (shared_bytes(func), group_bytes(func)) == (25, 48)
    assert [(b.name, place) for b, place in shared_places(func)] == [("a", 0), ("b", 16)]
    assert does_wait(func) and not does_wait(second)
    plain = "func f(y: arena int8[4]) { for i in 0..4 { y[i] = 1i8 } }"
    assert launch_of(parse_func(plain)) is None
    (whole,) = kernel_parts(parse_func(plain))
    assert whole.body == parse_func(plain).body


@pytest.mark.parametrize(
    ("threads", "expected"),
    [
        ((40, 1, 1), (64, 1, 1)), ((32, 1, 1), (32, 1, 1)), ((1, 1, 1), (32, 1, 1)),
        ((8, 3, 1), (8, 4, 1)), ((8, 4, 1), (8, 4, 1)), ((3, 5, 1), (3, 32, 1)),
        ((4, 4, 3), (4, 4, 4)), ((33, 2, 1), (33, 32, 1)),
    ],
)  # fmt: skip
def test_whole_warps(threads: tuple[int, int, int], expected: tuple[int, int, int]) -> None:
    assert in_warps(Launch((2, 3, 1, *threads))).extents == (2, 3, 1, *expected)
