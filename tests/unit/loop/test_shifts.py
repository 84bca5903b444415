"""pack_shifts: groups of int8 that four bits and a shift hold, and every result keeps its bits."""

from __future__ import annotations

import random
from contextlib import suppress

import numpy as np
import pytest

from edgec.errors import ScheduleError
from edgec.loop.define import Definition
from edgec.loop.interpret import interpret
from edgec.loop.parser import parse_func
from edgec.loop.primitives.shifts import find_shifts, without_shifts
from edgec.loop.printer import print_func
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule, replay
from edgec.loop.simplify import simplify
from edgec.loop.values import cast
from edgec.loop.verify import verify_func

#: Primitives tried here.
SHIFTING = ("pack_shifts",)


def grouped(rng: np.random.Generator, rows: int, groups: int, size: int) -> np.ndarray:
    """Numbers of four bits, each group times a power of two."""
    numbers = rng.integers(-8, 8, (rows, groups, size))
    numbers[..., :2] = -8, 7  # all of the range, and an odd number
    shifts = rng.integers(0, 5, (rows, groups, 1))
    return np.asarray((numbers << shifts).reshape(rows, -1), np.int8)


def dense(rows: int, depth: int, channels: int) -> Definition:
    b = Definition("f")
    x, w = b.input("x", (rows, depth), "int8"), b.constant("w", (channels, depth), "int8")
    out = b.output("out", (rows, channels), "int32")
    b.reduce(
        out, [("k", 0, depth)], init=lambda n, c: 0,
        update=lambda acc, n, c, k: acc + cast(x[n, k], "int32") * cast(w[c, k], "int32"),
    )  # fmt: skip
    return b


@pytest.mark.parametrize("seed", range(12))
def test_random_schedules_keep_the_meaning(seed: int) -> None:
    choose, rng = random.Random(seed), np.random.default_rng(seed)
    rows, groups, channels = (choose.randint(1, 4) for _ in range(3))
    func = dense(rows, groups * 16, channels).build()
    arrays = {"x": rng.integers(-128, 128, (rows, groups * 16)).astype(np.int8),
              "w": grouped(rng, channels, groups, 16)}  # fmt: skip
    arrays["w"][0, 0] = -128  # four bits with a shift, or none
    arrays["w"][0, :16] &= -16
    expected = interpret(func, arrays)["out"]
    found = find_shifts(arrays["w"])
    assert found is not None
    s = Schedule(func)
    at = choose.randint(0, 4)
    for step in range(5):
        if step == at:
            s.pack_shifts("w", found[1].shape, found[1].reshape(-1).tolist())
            s.pack_int4("w")
            s.pack_int4("w_shift")
        loop = choose.choice(sorted(loops_of(s.func.body)))
        with suppress(ScheduleError):
            choose.choice([s.unroll, lambda name: s.split(name, 2)])(loop)
    assert print_func(parse_func(print_func(s.func))) == print_func(s.func)
    packed = {**arrays, "w": s.repacked["w"](arrays["w"]), "w_shift": s.packed["w_shift"].pack({})}
    assert packed["w"].nbytes == arrays["w"].size // 2
    assert packed["w_shift"].nbytes == -(-found[1].size // 2)
    for version in (s.func, simplify(s.func)):
        verify_func(version)
        assert np.array_equal(interpret(version, packed)["out"], expected)
    assert replay(func, s.trace_json()).func == s.func


def test_the_largest_groups_are_found() -> None:
    rng = np.random.default_rng(0)
    weights = grouped(rng, 3, 4, 24)
    found = find_shifts(weights)
    assert found is not None and found[0] == 24
    group, shifts = found
    rest = without_shifts(weights, shifts)
    assert rest.min() >= -8 and rest.max() <= 7
    assert np.array_equal(rest << np.repeat(shifts, group, axis=-1), weights)
    # All rows of one shift each: as large as a row.
    whole = np.asarray(rng.integers(-8, 8, (3, 64)) * np.array([[1], [4], [16]]), np.int8)
    found = find_shifts(whole)
    assert found is not None and found[0] == 64


def test_what_has_none() -> None:
    rng = np.random.default_rng(0)
    weights = grouped(rng, 3, 4, 24)
    assert find_shifts(rng.integers(-127, 128, (8, 64)).astype(np.int8)) is None
    assert find_shifts(rng.integers(-8, 8, (8, 64)).astype(np.int8)) is None  # need none
    assert find_shifts(weights.astype(np.int16)) is None
    assert find_shifts(weights.reshape(-1)) is None
    assert find_shifts(grouped(rng, 3, 4, 12)[:, :15]) is None


def test_only_constants_of_int8_and_whole_groups() -> None:
    schedule = Schedule(dense(2, 32, 2).build())
    with pytest.raises(ScheduleError, match="x is arena int8, no constant int8"):
        schedule.pack_shifts("x", (2, 2), [0] * 4)
    for shape in ((2, 3), (3, 2), ()):
        with pytest.raises(ScheduleError, match="groups"):
            schedule.pack_shifts("w", shape, [0] * 6)
