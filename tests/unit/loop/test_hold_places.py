"""Places that data choose, found before the loops in which they are the same."""

from __future__ import annotations

import numpy as np
import pytest

import edgec.targets.common.kernels  # noqa: F401  registers the kernel
from edgec.errors import ScheduleError
from edgec.loop.interpret import interpret
from edgec.loop.ir import Call, PrimFunc
from edgec.loop.move_rows import TAKE, kernel_for
from edgec.loop.parser import parse_func
from edgec.loop.rewrite import statements
from edgec.loop.schedule import Schedule, replay
from edgec.loop.verify import verify_func

#: The primitive that random nests try.
HOLDING = ("hold_places",)


def rows(dtype: str, count: int, row: int, place: str) -> PrimFunc:
    return parse_func(f"""
func rows(x: arena {dtype}[9, {row}], at: arena int32[{count}],
          out: arena {dtype}[{count}, {row}]) {{
  for i in 0..{count} {{
    for j in 0..{row} {{ out[i, j] = gather(x, {place}, index(j)) }}
  }}
}}
""")


def arrays_of(func: PrimFunc, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {b.name: rng.integers(0, 9, b.shape).astype(b.dtype) for b in func.params[:2]}


@pytest.mark.parametrize("seed", range(8))
def test_the_same_elements_by_a_held_place_and_by_copies(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = ("int8", "int16", "int32", "float32")[seed % 4]
    place = ("at[i]", "min(max(at[i], 2), 6)", "min(at[i] + index(i), 8)")[seed % 3]
    func = rows(dtype, int(rng.integers(1, 7)), row := int(rng.integers(1, 40)), place)
    arrays = arrays_of(func, seed)
    wanted = interpret(func, arrays)["out"]
    schedule = Schedule(func)
    assert schedule.hold_places("j") == ["place"]
    verify_func(schedule.func)
    assert np.array_equal(interpret(schedule.func, arrays)["out"], wanted)
    schedule.tensorize("j", kernel_for(dtype, TAKE), {"rows": 9, "row": row})
    assert any(isinstance(stmt, Call) for stmt in statements(schedule.func.body))
    assert np.array_equal(interpret(schedule.func, arrays)["out"], wanted)
    assert replay(func, schedule.trace_json()).func == schedule.func


@pytest.mark.parametrize("place", ["index(i)", "at[j]", "min(at[i], index(j))"])
def test_places_that_change_stay(place: str) -> None:
    with pytest.raises(ScheduleError, match="has no place that data choose"):
        Schedule(rows("int8", 3, 3, place)).hold_places("j")
