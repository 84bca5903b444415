"""Cores with the same DSP instructions take about as many of them: M7 and M33 as the M4."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from built_models import DIGITS, MODELS, build
from goals import missed_goals

from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs

#: Of the M4's instructions, at most.
MOST_SHARE = 1.05


def measure(model: Path, board: str, optimize: str = "balanced") -> dict[str, int]:
    compiled, built = build(model, board, "gcc", optimize=optimize)
    types = [(p.shape, p.dtype) for p in built.manifest.inputs]
    with open_session("core", built) as session:
        result = session.run(generate_inputs(1, types))
    assert result.instructions is not None
    return {"instructions": result.instructions, "macs": compiled.macs}


@pytest.fixture
def simulator() -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")


@pytest.mark.usefixtures("simulator")
def test_m7_and_m33_take_no_more_than_the_m4() -> None:
    most = MOST_SHARE * measure(DIGITS, "mps2_an386", "time")["instructions"]
    assert measure(DIGITS, "mps2_an500", "time")["instructions"] <= most
    assert measure(DIGITS, "mps2_an505", "time")["instructions"] <= most


@pytest.mark.usefixtures("simulator")
@pytest.mark.parametrize("name", MODELS)
def test_the_goals_of_m7_and_m33(
    name: str, shared_dir: Path, sample_model: Callable[[str], Path]
) -> None:
    model, baselines = sample_model(MODELS[name]), shared_dir / "baselines.json"
    m4, m7, m33 = (measure(model, board) for board in ("mps2_an386", "mps2_an500", "mps2_an505"))
    assert not missed_goals(name, "mps2_an500", m7, baselines)
    assert m33["instructions"] <= MOST_SHARE * m4["instructions"]
