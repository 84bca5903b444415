"""pack_halves: floats that float16 holds are stored as such, and every result keeps its bits."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from built_models import build
from onnx_builder import OnnxBuilder
from test_same_bits import need_tools

from edgec.errors import ScheduleError
from edgec.loop.define import Definition
from edgec.loop.interpret import interpret
from edgec.loop.parser import parse_func
from edgec.loop.primitives.halves import fits_halves, packed_halves
from edgec.loop.printer import print_func
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule, replay
from edgec.loop.simplify import simplify
from edgec.loop.verify import verify_func
from edgec.options import Options
from edgec.oracle.frameworks import open_oracle
from edgec.pipeline import compile_model
from edgec.runners.engine import open_session
from edgec.targets.core import find_core

#: Primitives tried here.
WIDENING = ("pack_halves",)


def halves(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(0, 1, shape).astype(np.float16).astype(np.float32)


def dense(rows: int, depth: int, channels: int) -> Definition:
    b = Definition("f")
    x, w = b.input("x", (rows, depth), "float32"), b.constant("w", (channels, depth), "float32")
    out = b.output("out", (rows, channels), "float32")
    b.reduce(
        out, [("k", 0, depth)], init=lambda n, c: 0.0,
        update=lambda acc, n, c, k: acc + x[n, k] * w[c, k],
    )  # fmt: skip
    return b


@pytest.mark.parametrize("seed", range(12))
def test_random_schedules_keep_the_meaning(seed: int) -> None:
    choose, rng = random.Random(seed), np.random.default_rng(seed)
    rows, depth, channels = (choose.randint(1, 6) for _ in range(3))
    func = dense(rows, depth, channels).build()
    arrays = {"x": rng.normal(0, 1, (rows, depth)).astype(np.float32),
              "w": halves(rng, channels, depth)}  # fmt: skip
    expected = interpret(func, arrays)["out"]
    s = Schedule(func)
    at = choose.randint(0, 4)
    for step in range(5):
        if step == at:
            s.pack_halves("w")
        loop = choose.choice(sorted(loops_of(s.func.body)))
        with suppress(ScheduleError):
            choose.choice([s.unroll, lambda name: s.split(name, 2)])(loop)
    assert print_func(parse_func(print_func(s.func))) == print_func(s.func)
    packed = {**arrays, "w": s.repacked["w"](arrays["w"])}
    assert packed["w"].dtype == np.uint16
    for version in (s.func, simplify(s.func)):
        verify_func(version)
        assert np.array_equal(interpret(version, packed)["out"], expected)
    assert replay(func, s.trace_json()).func == s.func


def test_what_fits() -> None:
    rng = np.random.default_rng(0)
    assert fits_halves(np.array([0.0, -0.0, 65504.0, 2.0**-24, 1 / 3 * 0 + 0.25], np.float32))
    for wrong in (1 / 3, 65536.0, 2.0**-25, np.inf, np.nan):
        assert not fits_halves(np.array([1.0, wrong], np.float32))
    assert not fits_halves(rng.normal(size=4))  # float64
    assert not fits_halves(np.zeros(0, np.float32))
    numbers = halves(rng, 5)
    assert np.array_equal(packed_halves(numbers).view(np.float16).astype(np.float32), numbers)


def test_only_constants_of_float32() -> None:
    with pytest.raises(ScheduleError, match="x is arena float32, no constant float32"):
        Schedule(dense(2, 2, 2).build()).pack_halves("x")


def network(path: Path, dtype: type) -> Path:
    """A convolution and a Gemm, their weights stored as `dtype` and cast to float32."""
    rng = np.random.default_rng(3)
    model = OnnxBuilder(3, (1, 3, 6, 6))

    def weights(name: str, *shape: int) -> str:
        stored = model.constant(rng.normal(0, 0.5, shape).astype(dtype), name)
        return model.add("Cast", [stored], to=1)

    y = model.add("Conv", ["x", weights("w1", 4, 3, 3, 3)], pads=[1, 1, 1, 1])
    y = model.add("Relu", [y])
    y = model.add("Flatten", [y])
    return model.save(model.add("Gemm", [y, weights("w2", 5, 144)], transB=1), path)


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4", "cortex-m55"])
def test_half_the_bytes_but_for_time(core: str, tmp_path: Path) -> None:
    bytes_: dict[tuple[str, str], int] = {}
    for dtype in (np.float16, np.float32):
        path = network(tmp_path / f"{dtype.__name__}.onnx", dtype)
        for optimize in ("size", "balanced", "time"):
            compiled = compile_model(path, find_core(core), Options(optimize=optimize))
            constants = [a for v in compiled.chosen for a in v.constants.values() if a.size > 50]
            bytes_[dtype.__name__, optimize] = sum(array.nbytes for array in constants)
    small, large = 4 * 27, 5 * 144
    assert bytes_["float16", "size"] == 2 * (small + large)
    assert bytes_["float32", "size"] == 4 * (small + large)
    assert bytes_["float16", "time"] == bytes_["float32", "time"]
    balanced = bytes_["float16", "balanced"]
    if core == "cortex-m0":  # has no kernels
        assert balanced == bytes_["float32", "balanced"] == 4 * (small + large)
    elif core == "cortex-m4":  # loops are as fast for few weights
        assert balanced == 4 * small + 2 * large + 4 * 5
    else:
        assert balanced == 2 * (small + large) + 4 * (4 + 5)


@pytest.mark.parametrize("board", ["host", "sim_m0", "mps2_an386"])
def test_the_same_bits(board: str, tmp_path: Path) -> None:
    engine = "host" if board == "host" else "core"
    need_tools(engine, "gcc", board)
    path = network(tmp_path / "f16.onnx", np.float16)
    x = np.random.default_rng(1).normal(0, 1, (1, 3, 6, 6)).astype(np.float32)
    compiled, built = build(path, board, optimize="size")
    with open_session(engine, built) as session:
        assert session.selftest() == 0
        (found,) = session.run([x]).outputs
    assert found.tobytes() == compiled.reference([x])[0].tobytes()
    (exact,) = open_oracle(path).run([x]).outputs
    np.testing.assert_allclose(found, exact, rtol=0, atol=2e-6 * np.abs(exact).max())
