"""Nests on a GPU: how many threads, and no race in what is emitted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgec.loop.bound import launch_of
from edgec.loop.interpret import interpret
from edgec.loop.ir import PrimFunc
from edgec.loop.parser import parse_func
from edgec.loop.schedule import Schedule
from edgec.loop.verify import verify_func
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.targets.core import find_core
from edgec.targets.cuda.bind import bound, threads_of

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_int8.onnx"
GPU, SERIAL = find_core("cuda-sm_75"), find_core("x86_64")


@pytest.mark.parametrize(
    ("extents", "threads"),
    [([25, 5, 64], 64), ([25, 5, 16], 16), ([48, 48, 4], 64), ([7], 7), ([1009], 64),
     ([10], 10), ([65536], 128), ([32, 32, 64], 128), ([3, 1], 3)],
)  # fmt: skip
def test_threads_of_loops(extents: list[int], threads: int) -> None:
    assert threads_of(extents) == threads


def test_statements_that_depend_wait_for_the_grid() -> None:
    func = parse_func("""
func sums(x: arena int32[6, 40], t: scratch int32[6], y: arena int32[6, 40]) {
  for i in 0..6 { t[i] = 0 for k in 0..40 { t[i] = t[i] + x[i, k] } }
  for m in 0..6 { for n in 0..40 { y[m, n] = x[m, n] - t[m] } }
}
""")
    found = bound(Schedule(func)).func
    verify_func(found)
    launch = launch_of(found)
    assert launch is not None and launch.threads > 6
    x = np.arange(240, dtype=np.int32).reshape(6, 40) % 7
    np.testing.assert_array_equal(interpret(found, {"x": x})["y"], x - x.sum(1, keepdims=True))


def test_what_carries_from_step_to_step_stays_in_one_thread() -> None:
    func = parse_func("""
func run(x: arena int32[9], y: arena int32[9]) {
  alloc t: register int32[1]
  t[0] = 0
  for i in 0..9 { t[0] = t[0] + x[i] y[i] = t[0] }
}
""")
    assert launch_of(bound(Schedule(func)).func) is None


def given(func: PrimFunc) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(4)
    found = {}
    for buffer in func.params:
        if buffer.scope != "scratch":
            low, high = (-4, 4) if buffer.scope == "constant" else (-100, 100)
            found[buffer.name] = rng.integers(low, high, buffer.shape).astype(buffer.dtype)
    return found


def races(path: Path) -> int:
    """Run every function of a model as a GPU does, each access checked; how many are bound."""
    options = Options(optimize="time")
    parallel, serial = (compile_model(path, core, options) for core in (GPU, SERIAL))
    assert len(parallel.chosen) == len(serial.chosen)
    count = 0
    for variant in parallel.chosen:
        func = variant.function
        verify_func(func)
        if launch_of(func) is None:
            continue
        arrays = {**given(func), **variant.constants}
        interpret(func, arrays)  # ContractError for a race
        count += 1
    return count


def test_no_race_in_the_example() -> None:
    assert races(DIGITS) > 2
