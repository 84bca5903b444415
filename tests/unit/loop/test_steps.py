"""pack_steps: floats that are multiples of a step are stored as int8; results keep their bits."""

from __future__ import annotations

import random
from contextlib import suppress

import numpy as np
import pytest
from test_halves import dense

from edgec.errors import ScheduleError
from edgec.loop.interpret import interpret
from edgec.loop.parser import parse_func
from edgec.loop.primitives.steps import find_steps, steps_along
from edgec.loop.printer import print_func
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule, replay
from edgec.loop.simplify import simplify
from edgec.loop.verify import verify_func

#: Primitives tried here.
STEPPING = ("pack_steps",)


def multiples(rng: np.random.Generator, most: int, *shape: int) -> np.ndarray:
    """int8 numbers times a step for each index of the first axis."""
    steps = rng.uniform(1e-3, 1.0, (shape[0],) + (1,) * (len(shape) - 1)).astype(np.float32)
    return rng.integers(-most, most, shape).astype(np.float32) * steps


@pytest.mark.parametrize("seed", range(12))
def test_random_schedules_keep_the_meaning(seed: int) -> None:
    choose, rng = random.Random(seed), np.random.default_rng(seed)
    rows, depth, channels = choose.randint(1, 6), choose.randint(4, 9), choose.randint(1, 6)
    func = dense(rows, depth, channels).build()
    arrays = {"x": rng.normal(0, 1, (rows, depth)).astype(np.float32),
              "w": multiples(rng, 8 if seed % 2 else 127, channels, depth)}  # fmt: skip
    expected = interpret(func, arrays)["out"]
    found = steps_along(arrays["w"], 0)
    assert found is not None
    s = Schedule(func)
    at = choose.randint(0, 4)
    for step in range(5):
        if step == at:
            s.pack_steps("w", 0, found.tolist())
        if step == 4 and seed % 2 and np.abs(s.repacked["w"](arrays["w"])).max() < 8:
            s.pack_int4("w")
        loop = choose.choice(sorted(loops_of(s.func.body)))
        with suppress(ScheduleError):
            choose.choice([s.unroll, lambda name: s.split(name, 2)])(loop)
    assert print_func(parse_func(print_func(s.func))) == print_func(s.func)
    packed = {**arrays, "w": s.repacked["w"](arrays["w"]), "w_step": s.packed["w_step"].pack({})}
    assert packed["w"].nbytes <= arrays["w"].size
    for version in (s.func, simplify(s.func)):
        verify_func(version)
        assert interpret(version, packed)["out"].tobytes() == expected.tobytes()
    assert replay(func, s.trace_json()).func == s.func


@pytest.mark.parametrize("most", [1, 2, 7, 127])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_steps_are_found(most: int, axis: int) -> None:
    rng = np.random.default_rng(most)
    weights = np.moveaxis(multiples(rng, most + 1, 6, 5, 4), 0, axis)
    weights[(slice(None),) * axis + (2,)] = 0.0
    found = steps_along(weights, axis)
    assert found is not None
    shape = [1, 1, 1]
    shape[axis] = 6
    steps = found.reshape(shape)
    counts = np.rint(weights / steps.astype(np.float64))
    assert counts.min() >= -128 and counts.max() <= 127
    assert (counts.astype(np.float32) * steps).tobytes() == weights.tobytes()


def test_what_does_not_fit() -> None:
    rng = np.random.default_rng(0)
    weights = multiples(rng, 127, 3, 20)
    assert find_steps(weights) is not None
    assert find_steps(rng.normal(size=(3, 20)).astype(np.float32)) is None
    assert find_steps(weights.astype(np.float64)) is None
    assert find_steps(weights[:, :3]) is None  # as many steps as would be saved
    nearly = weights.copy()
    nearly[1, 4] = np.nextafter(nearly[1, 4], np.float32(9))
    assert find_steps(nearly) is None
    for wrong in (np.nan, np.inf, -0.0):
        broken = weights.copy()
        broken[0, 0] = wrong
        assert find_steps(broken) is None
    wide = np.arange(-200, 200, dtype=np.float32).reshape(1, -1)
    assert find_steps(wide) is None


def test_only_constants_of_float32_and_whole_axes() -> None:
    schedule = Schedule(dense(2, 4, 2).build())
    with pytest.raises(ScheduleError, match="x is arena float32, no constant float32"):
        schedule.pack_steps("x", 0, [1.0, 1.0])
    with pytest.raises(ScheduleError, match="3 steps for axis 0"):
        schedule.pack_steps("w", 0, [1.0] * 3)
