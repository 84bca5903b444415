"""Windows of 3 x 3 summed in tiles: the same sums, in every bit where no sum is rounded."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.errors import ScheduleError
from edgec.loop.define import Definition
from edgec.loop.interpret import interpret
from edgec.loop.ir import PrimFunc
from edgec.loop.parser import parse_func
from edgec.loop.primitives.winograd import TILES
from edgec.loop.printer import print_func
from edgec.loop.schedule import Schedule, replay
from edgec.loop.simplify import simplify
from edgec.loop.verify import verify_func

#: Primitives tried here.
IN_TILES = ("winograd",)


def windows(
    rng: np.random.Generator, dtype: str = "float32", kernel: int = 3, stride: int = 1
) -> PrimFunc:
    """Sums over whole windows of images of random sizes, limited."""
    images, rows, columns, inputs, channels = map(int, rng.integers(1, (3, 6, 6, 4, 4)))
    top, left = map(int, rng.integers(0, 2, 2))
    b = Definition("f")
    height, width = (rows - 1) * stride + kernel + top, (columns - 1) * stride + kernel + left
    x = b.input("x", (images, height, width, inputs), dtype)
    w = b.constant("w", (channels, kernel, kernel, inputs), dtype)
    bias = b.constant("bias", (channels,), dtype)
    acc = b.reduce(
        "acc", [("kh", 0, kernel), ("kw", 0, kernel), ("k", 0, inputs)],
        init=lambda n, h, v, c: bias[c],
        update=lambda acc, n, h, v, c, kh, kw, k: (
            acc + x[n, h * stride + kh + top, v * stride + kw + left, k] * w[c, kh, kw, k]
        ),
        shape=(images, rows, columns, channels), dtype=dtype,
    )  # fmt: skip
    out = b.output("out", (images, rows, columns, channels), dtype)
    b.compute(out, lambda n, h, v, c: acc[n, h, v, c] * 2)
    return b.build()


def run(func: PrimFunc, given: dict[str, np.ndarray]) -> np.ndarray:
    spare = {p.name: np.zeros(p.shape, p.dtype) for p in func.params if p.name not in given}
    return interpret(func, {**given, **spare})["out"]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("outputs", TILES)
def test_sums_in_tiles_are_the_same(seed: int, outputs: int) -> None:
    """Small numbers: float32 sums are exact in tiles of two, and rounded in tiles of four."""
    rng = np.random.default_rng(seed)
    func = windows(rng)
    shapes = {p.name: p.shape for p in func.params if p.name in ("x", "w", "bias")}
    given = {n: 4 * rng.integers(-8, 9, s).astype(np.float32) for n, s in shapes.items()}
    schedule = Schedule(func)
    schedule.winograd("acc", "x", outputs)
    verify_func(schedule.func)
    assert parse_func(print_func(schedule.func)) == schedule.func
    assert replay(func, schedule.trace_json()).func == schedule.func
    made = {**given, "w": schedule.table("w", given)}
    expected = run(func, given)
    most = np.max(run(func, {name: np.abs(array) for name, array in given.items()}))
    for changed in (schedule.func, simplify(schedule.func)):
        found = run(changed, made)
        error = np.max(np.abs(found - expected))
        assert error == 0 if outputs == 2 else error <= 1e-6 * most


@pytest.mark.parametrize(
    ("made", "outputs", "why"),
    [
        ({}, 3, "no tiles of 3 outputs"),
        ({"dtype": "int32"}, 2, "multiplies no floats"),
        ({"kernel": 2}, 2, "no windows of 3 x 3"),
        ({"stride": 2}, 2, "do not step by one"),
    ],
)  # fmt: skip
def test_other_sums_are_refused(made: dict[str, object], outputs: int, why: str) -> None:
    schedule = Schedule(windows(np.random.default_rng(4), **made))  # type: ignore[arg-type]
    before = schedule.func
    with pytest.raises(ScheduleError, match=why):
        schedule.winograd("acc", "x", outputs)
    assert schedule.func is before
