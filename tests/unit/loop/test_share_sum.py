"""Sums of integers by several threads: the same numbers, and no race."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgec.errors import ContractError, ScheduleError
from edgec.loop.interpret import interpret
from edgec.loop.ir import PrimFunc, Sync
from edgec.loop.parser import parse_func
from edgec.loop.rewrite import ReplaceStmts, walk
from edgec.loop.schedule import Schedule, replay
from edgec.loop.verify import verify_func

#: The primitive that random sums try.
SHARING = ("share_sum",)


def total(rows: int, channels: int, joined: str, dtype: str = "int32") -> PrimFunc:
    first = "b[c]" if dtype == "int32" else "0.0f32"
    return parse_func(f"""
func total(x: arena int8[2, {rows}, 3, {channels}], out: arena {dtype}[2, {channels}],
           b: constant int32[{channels}]) {{
  alloc acc: register {dtype}[1]
  for n in 0..2 {{
    for c in 0..{channels} {{
      acc[0] = {first}
      for h in 0..{rows} {{ for w in 0..3 {{ acc[0] = {joined} }} }}
      out[n, c] = acc[0] * acc[0]
    }}
  }}
}}
""")


ADDED, LARGEST = "acc[0] + int32(x[n, h, w, c])", "max(acc[0], int32(x[n, h, w, c]))"


def shared(func: PrimFunc, parts: int, columns: int) -> Schedule:
    schedule = Schedule(func)
    schedule.share_sum("n", parts, columns)
    schedule.place_barriers()
    verify_func(schedule.func)
    return schedule


@pytest.mark.parametrize("joined", [ADDED, LARGEST])
@pytest.mark.parametrize(("rows", "parts", "channels"), [(6, 3, 8), (4, 4, 5), (7, 7, 1)])
def test_sums_are_the_same(joined: str, rows: int, parts: int, channels: int) -> None:
    func = total(rows, channels, joined)
    rng = np.random.default_rng(parts)
    given = {
        "x": rng.integers(-128, 128, (2, rows, 3, channels)).astype(np.int8),
        "b": rng.integers(-(2**31), 2**31 - 2**20, channels).astype(np.int32),
    }
    schedule = shared(func, parts, 4)
    expected = interpret(func, given)["out"]
    np.testing.assert_array_equal(interpret(schedule.func, given)["out"], expected)
    assert replay(func, schedule.trace_json()).func == schedule.func
    (barrier,) = [stmt for stmt, _ in walk(schedule.func.body) if isinstance(stmt, Sync)]
    body = ReplaceStmts([(barrier, None)]).stmt(schedule.func.body)
    with pytest.raises(ContractError, match=r"race: element|nothing wrote"):
        interpret(replace(schedule.func, body=body), given)


@pytest.mark.parametrize(
    ("func", "parts", "why"),
    [
        (total(6, 4, "acc[0] + float32(x[n, h, w, c])", "float32"), 3, "depend on their order"),
        (total(6, 4, "acc[0] + acc[0] * int32(x[n, h, w, c])"), 3, "a term depends on the sum"),
        (total(6, 4, "acc[0] - int32(x[n, h, w, c])"), 3, "neither adds numbers"),
        (total(6, 4, ADDED), 4, "4 parts do not share out h"),
    ],
)
def test_other_sums_are_refused(func: PrimFunc, parts: int, why: str) -> None:
    with pytest.raises(ScheduleError, match=why):
        Schedule(func).share_sum("n", parts, 4)
