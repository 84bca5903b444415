"""Rows that a block of threads makes together: the same bits, no race, and each barrier needed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgec.errors import ContractError, ScheduleError
from edgec.loop.bound import launch_of
from edgec.loop.interpret import interpret
from edgec.loop.ir import PrimFunc, Sync
from edgec.loop.parser import parse_func
from edgec.loop.rewrite import ReplaceStmts, walk
from edgec.loop.schedule import Schedule, replay
from edgec.loop.verify import verify_func

#: The primitive that these rows try.
TOGETHER = ("share_rows",)
#: What the largest of a row, two sums and what depends on all of them look like.
SOFTMAX = """
func softmax(x: arena {dtype}[{rows}, {steps}], out: arena {dtype}[{rows}, {steps}],
             seen: arena {dtype}[{rows}]) {{
  alloc top: register {dtype}[1]
  alloc total: register {dtype}[1]
  for m in 0..{rows} {{
    top[0] = {least}
    for k in 0..{steps} {{ top[0] = max(top[0], x[m, k]) }}
    total[0] = {zero}
    for j in 0..{steps} {{ total[0] = total[0] + (x[m, j] - top[0]) * x[m, j] }}
    seen[m] = top[0] + total[0]
    for i in 0..{steps} {{ out[m, i] = x[m, i] * total[0] - top[0] }}
  }}
}}
"""
#: A layer that remembers: each step reads what all threads wrote in the one before.
STEPS = """
func steps(x: arena int32[5, 9], state: arena int32[9], out: arena int32[5, 9],
           w: constant int32[9, 9]) {
  alloc acc: register int32[1]
  for s in 0..9 { state[s] = 0 }
  for t in 0..5 {
    for c in 0..9 {
      acc[0] = x[t, c]
      for k in 0..9 { acc[0] = acc[0] + state[k] * w[c, k] }
      out[t, c] = acc[0]
    }
    for d in 0..9 { state[d] = out[t, 8 - d] }
  }
}
"""


def softmax(dtype: str, rows: int, steps: int) -> PrimFunc:
    least, zero = ("-inff32", "0.0f32") if dtype == "float32" else ("-2147483648", "0")
    return parse_func(SOFTMAX.format(dtype=dtype, rows=rows, steps=steps, least=least, zero=zero))


def arrays_of(func: PrimFunc) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    made = (b for b in func.params if b.name in ("x", "w"))
    return {b.name: (rng.normal(size=b.shape) * 9).astype(b.dtype) for b in made}


def shared(func: PrimFunc, threads: int, free: bool = False) -> Schedule:
    schedule = Schedule(func)
    schedule.share_rows(threads, free)
    schedule.place_barriers()
    verify_func(schedule.func)
    return schedule


@pytest.mark.parametrize("dtype", ["int32", "float32"])
@pytest.mark.parametrize(
    ("rows", "steps", "threads"), [(3, 20, 8), (1, 41, 32), (2, 300, 64), (1, 600, 512)]
)
def test_rows_are_the_same(dtype: str, rows: int, steps: int, threads: int) -> None:
    """Floats, too: their sums keep their order. Races are found by the interpreter."""
    func = softmax(dtype, rows, steps)
    schedule, arrays = shared(func, threads), arrays_of(func)
    launch = launch_of(schedule.func)
    assert launch is not None and (launch.blocks, launch.threads <= threads) == (rows, True)
    found, expected = interpret(schedule.func, arrays), interpret(func, arrays)
    for name in ("out", "seen"):
        assert found[name].tobytes() == expected[name].tobytes()
    assert replay(func, schedule.trace_json()).func == schedule.func


def test_free_sums_are_near_and_always_the_same() -> None:
    func = softmax("float32", 1, 600)
    arrays = arrays_of(func)
    expected = interpret(func, arrays)["seen"]
    found = {interpret(shared(func, 64, free=True).func, arrays)["seen"].tobytes() for _ in "ab"}
    (only,) = found
    assert only != expected.tobytes()
    np.testing.assert_allclose(np.frombuffer(only, np.float32), expected, rtol=1e-5)


@pytest.mark.parametrize("text", ["softmax", "steps"])
def test_each_missing_barrier_is_found(text: str) -> None:
    func = softmax("int32", 2, 300) if text == "softmax" else parse_func(STEPS)
    schedule, arrays = shared(func, 64), arrays_of(func)
    name = "out"
    assert (
        interpret(schedule.func, arrays)[name].tobytes() == interpret(func, arrays)[name].tobytes()
    )
    barriers = [stmt for stmt, _ in walk(schedule.func.body) if isinstance(stmt, Sync)]
    assert len(barriers) >= 3
    for barrier in barriers:
        body = ReplaceStmts([(barrier, None)]).stmt(schedule.func.body)
        with pytest.raises(ContractError, match=r"race: element|nothing wrote"):
            interpret(replace(schedule.func, body=body), arrays)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("when x[m, 0] { for k in 0..9 { out[m, k] = x[m, k] } }", "control flow depends on data"),
        ("t[0] = x[m, 0] out[m, 0] = t[0]", "nothing that threads could share"),
    ],
)
def test_what_cannot_be_shared_is_refused(body: str, why: str) -> None:
    text = "func f(x: arena int32[4, 9], out: arena int32[4, 9]) { alloc t: register int32[1] "
    with pytest.raises(ScheduleError, match=why):
        Schedule(parse_func(f"{text} for m in 0..4 {{ {body} }} }}")).share_rows(32)


def test_a_largest_float_that_is_the_answer_stays_in_order() -> None:
    """Where NaNs stand in a row decides what the largest is."""
    func = parse_func("""
func largest(x: arena float32[40], out: arena float32[1], y: arena float32[40]) {
  alloc top: register float32[1]
  top[0] = -inff32
  for k in 0..40 { top[0] = max(top[0], x[k]) }
  out[0] = top[0]
  for i in 0..40 { y[i] = x[i] }
}
""")
    schedule = shared(func, 32)
    assert not any(buffer.scope == "shared" for buffer in schedule.func.allocs)
