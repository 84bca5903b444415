"""Accesses of parameters: counted exactly in plain nests, in words for microkernels."""

from pathlib import Path

import pytest

from edgec.loop.parser import parse_func
from edgec.loop.traffic import traffic, wait_cycles
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.targets.core import find_core

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_int8.onnx"


def test_counts_of_a_plain_nest() -> None:
    func = parse_func("""func f(x: arena int8[8], y: arena int32[8]) {
      for i in 0..4 { unrolled for k in 0..2 { y[i*2 + k] = int32(x[i*2 + k]) * 3 + y[0] } } }""")
    assert traffic(func) == {"x": {1: 8.0}, "y": {4: 16.0}}


def test_waiting_depends_on_states_and_width() -> None:
    assert wait_cycles({1: 10.0, 4: 10.0}, 0.0, 4) == 0.0
    assert wait_cycles({1: 10.0, 4: 10.0}, 2.0, 4) == 40.0
    # Two halves of a word: two accesses of three cycles instead of one cycle.
    assert wait_cycles({1: 10.0, 4: 10.0}, 2.0, 2) == 20.0 + 50.0


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4", "cortex-m55"])
def test_every_step_of_a_model_reads_and_writes_what_it_must(core: str) -> None:
    compiled = compile_model(DIGITS, find_core(core), Options())
    for step in compiled.program.steps:
        counts = traffic(step.function, compiled.program.callees)
        for param, arg in zip(step.function.params, step.args, strict=True):
            accessed = sum(width * count for width, count in counts[param.name].items())
            # Padding of packed weights is read or not; an activation's every byte is.
            if param.scope == "arena":
                assert accessed >= compiled.program.buffers[arg] * 0.99, (step.title, param.name)
            else:
                assert accessed > 0, (step.title, param.name)
