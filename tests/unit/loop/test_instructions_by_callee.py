"""Where instructions are spent: the parts add up to the estimate of the whole."""

from pathlib import Path

import pytest

from edgec.loop.cost import OWN, estimate, instructions_by_callee
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.targets.core import find_core

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_int8.onnx"


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4", "cortex-m55"])
@pytest.mark.parametrize("optimize", ["time", "ram"])
def test_parts_add_up(core: str, optimize: str) -> None:
    compiled = compile_model(DIGITS, find_core(core), Options(optimize=optimize))  # type: ignore[arg-type]
    callees = compiled.program.callees
    found = [
        (step, instructions_by_callee(step.function, callees)) for step in compiled.program.steps
    ]
    for step, parts in found:
        total = estimate(step.function, callees=callees).instructions
        assert sum(parts.values()) == pytest.approx(total, rel=1e-6), step.title
        assert all(count >= 0 for count in parts.values())
    called = {name for _, parts in found for name in parts if name != OWN}
    if core != "cortex-m0" and optimize == "time":
        kernels = sum(c for _, parts in found for name, c in parts.items() if name in called)
        assert kernels > 0.5 * sum(c for _, parts in found for c in parts.values())
