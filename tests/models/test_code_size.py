"""The code of the six models stays small, and what `--optimize size` shares computes the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from built_models import MODELS, build
from goals import GOALS

from edgec.runners.engine import open_session

BOARDS = ("sim_m0", "mps2_an385", "mps2_an386", "mps3_an547")
#: The core whose images for `time` are the largest; the other cores' are a little smaller.
LARGEST = "sim_m0"

CASES = [
    pytest.param(
        name, board, optimize,
        marks=[pytest.mark.full] if optimize == "time" and board != LARGEST else [],
    )
    for name in MODELS
    for board in BOARDS
    for optimize in ("size", "time")
]  # fmt: skip


@pytest.mark.parametrize(("name", "board", "optimize"), CASES)
def test_code_bytes(
    name: str, board: str, optimize: str, sample_model: Callable[[str], Path]
) -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("the bounds are stated for arm-none-eabi-gcc, which is not installed")
    _, built = build(sample_model(MODELS[name]), board, "gcc", optimize=optimize)
    assert built.image is not None
    assert built.image.code_bytes <= GOALS["code_bytes"][optimize][name]


@pytest.mark.parametrize(("name", "board"), [("vww", "sim_m0"), ("person_detect", "mps2_an386")])
def test_shared_functions_compute_the_same(
    name: str, board: str, sample_model: Callable[[str], Path]
) -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    compiled, built = build(sample_model(MODELS[name]), board, "gcc", optimize="size")
    functions = {step.function for step in built.manifest.steps}
    assert len(functions) <= len(compiled.program.steps) // 2, "hardly anything is shared"
    with open_session("core", built) as session:
        assert session.selftest() == 0  # the answers of our reference, bit by bit
