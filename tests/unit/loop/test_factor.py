"""factor: sums over few rows of weights, then over their multiples, with the same bits."""

from __future__ import annotations

import random
from contextlib import suppress

import numpy as np
import pytest

from edgec.errors import ScheduleError
from edgec.loop.define import Definition
from edgec.loop.interpret import interpret
from edgec.loop.parser import parse_func
from edgec.loop.printer import print_func
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule, replay
from edgec.loop.simplify import simplify
from edgec.loop.values import cast
from edgec.loop.verify import verify_func

#: Primitives tried here.
FACTORING = ("factor",)
RNG = np.random.default_rng(7)
FEW = RNG.integers(-40, 41, (2, 3, 4)).astype(np.int8)
MIX = np.array([[0, 1], [1, 0], [1, 1], [-1, 0], [1, -1]], np.int8)
WEIGHTS = np.einsum("cr,rhk->chk", MIX, FEW).astype(np.int8)


def windows(dtype: str = "int8") -> Definition:
    """Sums over windows of rows of x, then a step that follows."""
    b = Definition("f")
    x, w = b.input("x", (8, 4), "int8"), b.constant("w", WEIGHTS.shape, dtype)
    bias = b.constant("bias", (5,), "int32")
    acc = b.reduce(
        "acc", [("h", 0, 3), ("k", 0, 4)], init=lambda p, c: bias[c],
        update=lambda acc, p, c, h, k: acc
        + (cast(x[p + h, k], "int32") + 3) * cast(w[c, h, k], "int32"),
        shape=(6, 5), dtype="int32",
    )  # fmt: skip
    b.compute(b.output("out", (6, 5), "int32"), lambda p, c: acc[p, c] - 1)
    return b


def test_all_sums_are_made_of_few() -> None:
    func = windows().build()
    arrays = {
        "x": RNG.integers(-128, 128, (8, 4)).astype(np.int8), "w": WEIGHTS,
        "bias": RNG.integers(-99, 99, 5).astype(np.int32),
    }  # fmt: skip
    expected = interpret(func, arrays)["out"]
    s = Schedule(func)
    assert s.factor("acc", "x", [1, 0], MIX.tolist()) == ("acc_part", "w_mix")
    tables = {name: arrays[name] for name in ("w", "bias")}
    given = {**arrays, "w": s.table("w", tables), "w_mix": s.table("w_mix", tables)}
    np.testing.assert_array_equal(given["w"], FEW)
    for version in (s.func, simplify(s.func)):
        verify_func(version)
        assert print_func(parse_func(print_func(version))) == print_func(version)
        np.testing.assert_array_equal(interpret(version, given)["out"], expected)
    assert replay(func, s.trace_json()).func == s.func


@pytest.mark.parametrize("seed", range(12))
def test_random_schedules_keep_the_meaning(seed: int) -> None:
    choose, rng = random.Random(seed), np.random.default_rng(seed)
    channels, depth, rank = choose.randint(1, 5), choose.randint(1, 6), choose.randint(1, 3)
    few, mix = rng.integers(-30, 31, (rank, depth)), rng.integers(-2, 3, (channels, rank))
    rows = rng.permutation(channels + rank)
    weights = np.concatenate([few, mix @ few])[rows].astype(np.int8)
    whole = np.concatenate([np.eye(rank, dtype=int), mix])[rows]
    b = Definition("f")
    x, w = b.input("x", (3, depth), "int8"), b.constant("w", weights.shape, "int8")
    acc = b.reduce(
        "acc", [("k", 0, depth)], init=lambda p, c: 4,
        update=lambda acc, p, c, k: acc + cast(x[p, k], "int32") * cast(w[c, k], "int32"),
        shape=(3, len(weights)), dtype="int32",
    )  # fmt: skip
    b.compute(b.output("out", acc.shape, "int32"), lambda p, c: acc[p, c] * 2)
    arrays = {"x": rng.integers(-128, 128, (3, depth)).astype(np.int8), "w": weights}
    expected = b.evaluate(arrays)["out"]
    s = Schedule(b.build())
    s.factor("acc", "x", [int(np.argmax(rows == row)) for row in range(rank)], whole.tolist())
    for _ in range(5):
        loop = choose.choice(sorted(loops_of(s.func.body)))
        with suppress(ScheduleError):
            choose.choice([s.unroll, lambda name: s.split(name, 2),
                           lambda name: s.compute_at("acc_part", name)])(loop)  # fmt: skip
    given = {**arrays, "w": s.table("w", arrays), "w_mix": s.table("w_mix", arrays)}
    for version in (s.func, simplify(s.func)):
        verify_func(version)
        assert np.array_equal(interpret(version, given)["out"], expected)
    assert replay(b.build(), s.trace_json()).func == s.func


@pytest.mark.parametrize(
    ("dtype", "block", "mix", "why"),
    [
        ("int8", "out", MIX, "out is not a sum of products"),
        ("int8", "acc", MIX[:4], "no rows of acc's channels"),
        ("int16", "acc", MIX, "no constant of int8"),
    ],
)
def test_other_sums_are_refused(dtype: str, block: str, mix: np.ndarray, why: str) -> None:
    s = Schedule(windows(dtype).build())
    with pytest.raises(ScheduleError, match=why):
        s.factor(block, "x", [1, 0], mix.tolist())
    assert s.trace == []
