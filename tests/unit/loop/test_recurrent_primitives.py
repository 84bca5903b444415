"""Primitives on the loop of a recurrence: what it computes keeps its bits."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from edgec.errors import ScheduleError
from edgec.loop.define import Definition, Tensor
from edgec.loop.interpret import interpret
from edgec.loop.ir import For, PrimFunc
from edgec.loop.parser import parse_func
from edgec.loop.printer import print_func
from edgec.loop.rewrite import blocks_of, buffers_of
from edgec.loop.schedule import Schedule, replay
from edgec.loop.simplify import simplify
from edgec.loop.values import clamp, int8, int16, int32, intrinsic
from edgec.loop.verify import verify_func

#: Primitives tried here.
RECURRING = ("store_over",)
STEPS = 3
ROWS = ("part", "part", "gates", "now", "row")


def recurrence(inputs: int, units: int) -> PrimFunc:
    """s = int16(clamp(clamp(rescaled x[t] W) + rescaled h R)), h = s as int8, y[t] = h."""
    b = Definition("f")
    x, y = b.input("x", (STEPS, inputs), "int8"), b.output("y", (STEPS, units), "int8")
    h = b.output("h", (units,), "int8")
    w, r = (b.constant(*each, "int8") for each in (("w", (units, inputs)), ("r", (units, units))))
    m, s = b.constant("m", (2,), "int32"), b.constant("s", (2,), "int8")
    b.compute(h, lambda i: 0, name="start")

    def limited(name: str, count: int, read: Callable, weights: Tensor, at: int) -> Callable:
        sums = b.reduce(
            name, [("k", 0, count)], shape=(units,), dtype="int32", init=lambda t, c: 0,
            update=lambda acc, t, c, k: acc + int32(read(k)) * int32(weights[c, k]),
        )  # fmt: skip
        function = ("requantize_tflm", "requantize_tflm_right")[at]
        return lambda c: clamp(intrinsic(function, sums[c], m[at], int32(s[at])), -900, 900)

    with b.steps("steps", STEPS):
        now = b.compute("now", lambda t, k: x[t, k], shape=(inputs,), dtype="int8")
        first = limited("first", inputs, lambda k: now[k], w, 0)
        part = b.compute("part", lambda t, c: int16(first(c)), shape=(units,), dtype="int16")
        second = limited("second", units, lambda k: h[k], r, 1)
        gates = b.compute("gates", lambda t, c: int16(clamp(int32(part[c]) + second(c), -900, 900)),
                          shape=(units,), dtype="int16")  # fmt: skip
        b.compute(h, lambda t, c: int8(int32(gates[c]) >> 3), name="hidden")
        b.compute(y, lambda t, c: h[c], shape=(units,), at=lambda t, c: (t, c), name="out")
    return b.build()


def one(s: Schedule, choose: random.Random) -> str:
    """Try a primitive."""
    sums = choose.choice(["first", "second"])
    source = choose.choice([n for n in ("now", "x", "h", "row") if n in buffers_of(s.func)])
    block, made = (choose.choice(sorted(each)) for each in (blocks_of(s.func.body), ROWS))
    tries: dict[str, Callable[[], object]] = {
        "store_over": lambda: s.store_over(choose.choice([block, "gates"]), made),
        "pad_steps": lambda: s.pad_steps(sums, source, "k", 4),
        "gather": lambda: s.gather(sums, source, "row"),
        "compute_inline": lambda: s.compute_inline(block),
        "compute_at": lambda: s.compute_at(sums, choose.choice(["gates_c", "part_c"])),
    }
    name, before = choose.choice(sorted(tries)), s.func
    try:
        tries[name]()
    except ScheduleError:
        assert s.func is before
        return ""
    return name


def test_random_schedules_keep_the_meaning() -> None:
    applied: Counter[str] = Counter()
    for seed in range(60):
        choose, rng = random.Random(seed), np.random.default_rng(seed)
        func = recurrence(choose.randint(1, 6), choose.randint(1, 5))
        arrays = {
            p.name: rng.integers(-100, 100, p.shape).astype(p.dtype)
            for p in func.params if p.scope == "constant" or p.name == "x"
        }  # fmt: skip
        arrays |= {"m": np.array([1 << 30, 3 << 29], np.int32), "s": np.array([1, -3], np.int8)}
        expected = interpret(func, arrays)
        s = Schedule(func)
        for _ in range(12):
            applied[one(s, choose)] += 1
        now = {name: s.table(name, arrays) if name != "x" else arrays["x"] for name in arrays}
        for version in (s.func, simplify(s.func)):
            verify_func(version)
            assert parse_func(print_func(version)) == version
            made = interpret(version, now)
            for name in ("y", "h"):
                assert np.array_equal(made[name], expected[name]), print_func(version)
        assert replay(func, s.trace_json()).func == s.func
    assert {*RECURRING, "pad_steps", "gather", "compute_inline", "compute_at"} <= applied.keys()
    assert min(applied.values()) >= 5, applied


def test_a_row_of_a_recurrence_is_cleared_once() -> None:
    s = Schedule(recurrence(6, 5))
    s.gather("second", "h", "row")
    for sums, row in (("first", "now"), ("second", "row")):
        s.pad_steps(sums, row, "k", 4)
        assert buffers_of(s.func)[row].shape == (8,)
    loops = [stmt for stmt in s.func.body.stmts if isinstance(stmt, For)]
    assert [loop.var.name for loop in loops] == ["start_i", "now_clear_k", "row_clear_k", "steps"]
    assert {"now", "row"} <= blocks_of(loops[-1]).keys()


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (lambda s: s.store_over("gates", "now"), "gates is not like now"),
        (lambda s: s.store_over("part", "first"), "part is not like first"),
        (lambda s: s.store_over("hidden", "gates"), "not a temporary"),
    ],
)
def test_what_does_not_fit_is_refused(refused: Callable[[Schedule], object], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        refused(Schedule(recurrence(5, 5)))


def test_a_value_is_stored_only_over_what_it_alone_is_made_of() -> None:
    def stored(later: bool, moved: int) -> Schedule:
        b = Definition("f")
        x, y = b.input("x", (4,), "int32"), b.output("y", (4,), "int32")
        part = b.compute("part", lambda i: x[i] * 3, shape=(4,), dtype="int32")
        made = b.compute("made", lambda i: part[moved - i if moved else i] + 1, shape=(4,),
                         dtype="int32")  # fmt: skip
        b.compute(y, lambda i: made[i] + (part[i] if later else x[i]))
        s = Schedule(b.build())
        s.store_over("made", "part")
        return s

    assert "part" not in buffers_of(stored(False, 0).func)
    for later, moved in ((True, 0), (False, 3)):
        with pytest.raises(ScheduleError, match="does not make made of part alone"):
            stored(later, moved)
