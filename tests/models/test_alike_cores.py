"""Cores with the same DSP instructions take about as many of them: M7, M33, A7 and R5 as the M4."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from built_models import DIGITS, MODELS, figures
from goals import missed_goals

#: The others take longer, and show the same.
QUICK = ("kws", "ad")
#: Cortex-M7, M33, A7 and R5.
ALIKE = ("mps2_an500", "mps2_an505", "qemu_cortex_a7", "qemu_cortex_r5")
#: Of the M4's instructions, at most.
MOST_SHARE = 1.05


@pytest.mark.parametrize("board", ALIKE)
def test_they_take_no_more_than_the_m4(board: str) -> None:
    most = MOST_SHARE * figures(DIGITS, "mps2_an386", "time")["instructions"]
    assert figures(DIGITS, board, "time")["instructions"] <= most


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.full] * (name not in QUICK)) for name in MODELS],
)
def test_the_goals_of_m7_and_m33(
    name: str, shared_dir: Path, sample_model: Callable[[str], Path]
) -> None:
    model, baselines = sample_model(MODELS[name]), shared_dir / "baselines.json"
    m4, m7, m33 = (figures(model, board) for board in ("mps2_an386", "mps2_an500", "mps2_an505"))
    assert not missed_goals(name, "mps2_an500", m7, baselines)
    assert m33["instructions"] <= MOST_SHARE * m4["instructions"]
