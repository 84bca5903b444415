"""inline_constant and complement: what they make, and that a function keeps its meaning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgec.codegen.expand import expand
from edgec.errors import ScheduleError
from edgec.loop import values as loops
from edgec.loop.define import Definition
from edgec.loop.interpret import interpret
from edgec.loop.ir import Const, Load, Select, Seq
from edgec.loop.rewrite import loops_of, subexpressions, walk
from edgec.loop.schedule import Schedule

SHIFTS = [-3, -1, -7, -2]


def definition() -> Definition:
    define = Definition("shifted")
    x = define.input("x", (5, 4), "int32")
    shift = define.constant("shift", (4,), "int8")
    out = define.output("out", (5, 4), "int32")
    define.compute(out, lambda i, g: x[i, g] >> (-1 - loops.int32(shift[g])), name="out")
    return define


def arrays() -> dict[str, np.ndarray]:
    x = np.random.default_rng(3).integers(-(1 << 20), 1 << 20, (5, 4)).astype(np.int32)
    return {"x": x, "shift": np.asarray(SHIFTS, np.int8)}


def expressions(stmt):
    for inner, _ in walk(stmt):
        if hasattr(inner, "value"):
            yield from subexpressions(inner.value)


def test_an_unrolled_choice_leaves_one_number():
    schedule = Schedule(definition().build())
    schedule.inline_constant("shift", SHIFTS)
    schedule.unroll(list(loops_of(schedule.func.body))[-1])
    assert [p.name for p in schedule.func.params] == ["x", "out"]
    found = list(expressions(Seq(expand(schedule.func))))
    assert not any(isinstance(e, Select) for e in found)
    assert [e.value for e in found if isinstance(e, Const) and e.dtype == "int8"] == SHIFTS


@pytest.mark.parametrize("unrolled", [False, True])
def test_numbers_in_the_code_mean_the_same(unrolled):
    func = definition().build()
    expected = interpret(func, arrays())["out"]
    schedule = Schedule(func)
    schedule.inline_constant("shift", SHIFTS)
    if unrolled:
        schedule.unroll(list(loops_of(schedule.func.body))[-1])
    given = {"x": arrays()["x"]}
    assert np.array_equal(interpret(schedule.func, given)["out"], expected)
    expanded = replace(schedule.func, body=Seq(expand(schedule.func)))
    assert np.array_equal(interpret(expanded, given)["out"], expected)


def test_a_complement_means_the_same_and_is_read_as_such():
    func = definition().build()
    schedule = Schedule(func)
    schedule.complement("shift")
    given = arrays()
    stored = schedule.repacked["shift"](given["shift"])
    assert stored.tolist() == [-1 - s for s in SHIFTS]
    expected = interpret(func, given)["out"]
    assert np.array_equal(interpret(schedule.func, {**given, "shift": stored})["out"], expected)
    assert any(
        isinstance(e, Load) and e.buffer.name == "shift" for e in expressions(schedule.func.body)
    )


@pytest.mark.parametrize("buffer", ["x", "out", "nothing"])
def test_only_constants(buffer):
    schedule = Schedule(definition().build())
    before = schedule.func
    with pytest.raises(ScheduleError):
        schedule.inline_constant(buffer, SHIFTS)
    with pytest.raises(ScheduleError):
        schedule.complement(buffer)
    with pytest.raises(ScheduleError, match=r"4 numbers|3 numbers"):
        schedule.inline_constant("shift", SHIFTS[:3])
    assert schedule.func is before
