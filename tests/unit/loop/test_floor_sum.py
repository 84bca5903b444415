"""Sums of two int8 by the upper words of products: every result keeps its bits."""

from __future__ import annotations

import random

import numpy as np
import pytest

from edgec.errors import ScheduleError
from edgec.loop.define import Definition
from edgec.loop.interpret import interpret
from edgec.loop.ir import PrimFunc
from edgec.loop.printer import print_func
from edgec.loop.schedule import Schedule, replay
from edgec.loop.values import clamp, int8, int32
from edgec.loop.verify import verify_func

#: Primitives tried here.
FLOORING = ("floor_sum",)
COUNT = 64


def linear(numbers: tuple[int, int, int, int], limits: tuple[int, int]) -> PrimFunc:
    first, constant, second, shift = numbers
    b = Definition("f")
    out = b.output("out", (COUNT,), "int8")
    x, y = (b.input(name, (COUNT,), "int8") for name in "xy")
    b.compute(out, lambda i: int8(clamp(
        (int32(x[i]) * first + constant + int32(y[i]) * second) >> shift, *limits)))  # fmt: skip
    return b.build()


def test_random_sums_keep_their_bits() -> None:
    found = 0
    for seed in range(40):
        choose, rng = random.Random(seed), np.random.default_rng(seed)
        shift = choose.randint(10, 24)
        first, second = (round(choose.uniform(-1, 1) * (1 << shift) / 2) for _ in "ab")
        constant = choose.randint(-20 << shift - 5, 20 << shift - 5)
        limits = choose.choice([(-128, 127), (-128, 90), (0, 127)])
        func = linear((first, constant, second, shift), limits)
        s = Schedule(func)
        try:
            numbers = s.floor_sum("out")
        except ScheduleError:
            continue
        found += 1
        verify_func(s.func)
        assert str(numbers.constant) in print_func(s.func)
        corners = np.array([-128, -128, 127, 127, 0], np.int8)
        arrays = {name: rng.integers(-128, 128, COUNT).astype(np.int8) for name in "xy"}
        arrays["x"][:5], arrays["y"][:5] = corners, np.roll(corners, 1)
        expected = interpret(func, arrays)["out"]
        assert np.array_equal(interpret(s.func, arrays)["out"], expected), print_func(s.func)
        assert replay(func, s.trace_json()).func == s.func
    assert found > 20


def test_what_is_no_sum_is_refused() -> None:
    b = Definition("f")
    x, out = b.input("x", (COUNT,), "int8"), b.output("out", (COUNT,), "int8")
    b.compute(out, lambda i: x[i])
    with pytest.raises(ScheduleError, match="not a sum of two int8"):
        Schedule(b.build()).floor_sum("out")
    # 200 times 2**24 is no word.
    with pytest.raises(ScheduleError, match="no numbers"):
        Schedule(linear((200 << 10, 0, 1 << 10, 10), (-128, 127))).floor_sum("out")
