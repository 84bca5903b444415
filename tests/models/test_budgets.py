"""Sizes, instructions and accuracy of the real models stay within `budgets.toml`.

Instruction counts are exact and repeatable, so a budget is the figure itself: when one goes
down, the file is tightened; it is never loosened to pass.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from built_models import DIGITS, MODELS, QDQ_MODELS, SEQUENCE_MODELS, figures
from goals import GOALS, missed, missed_goals

BUDGETS = tomllib.loads((Path(__file__).parent / "budgets.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("name", "board"), [(n, b) for n, boards in BUDGETS["models"].items() for b in boards]
)
def test_within_budget(
    name: str, board: str, sample_model: Callable[[str], Path], request: pytest.FixtureRequest
) -> None:
    files = {**MODELS, **QDQ_MODELS, **SEQUENCE_MODELS}
    model = DIGITS if name == "digits" else sample_model(files[name])
    found = figures(model, board)
    over = {
        key: f"{found[key]:,} > {limit:,}"
        for key, limit in BUDGETS["models"][name][board].items()
        if found[key] > limit
    }
    assert not over, f"{name} on {board} is over its budget; all figures: {found}"
    if name in MODELS:  # the goals are stated for these
        shared = request.getfixturevalue("shared_dir")
        assert not missed_goals(name, board, found, shared / "baselines.json")


@pytest.mark.parametrize(
    ("name", "board"), [(n, b) for b, names in GOALS["cycles_per_mac"].items() for n in names]
)
def test_modelled_cycles(name: str, board: str, sample_model: Callable[[str], Path]) -> None:
    found = figures(sample_model(MODELS[name]), board, "time")
    assert not missed("cycles_per_mac", name, board, found["cycles"] / found["macs"])


@pytest.mark.parametrize(
    ("optimize", "name", "board"),
    [(o, n, b) for o in ("ram", "time") for n, boards in BUDGETS[o].items() for b in boards],
)
def test_within_budget_of_an_option(
    optimize: str, name: str, board: str, sample_model: Callable[[str], Path]
) -> None:
    found = figures(sample_model(MODELS[name]), board, optimize)
    limits = BUDGETS[optimize][name][board]
    over = {key: f"{found[key]:,} > {n:,}" for key, n in limits.items() if found[key] > n}
    assert not over, f"{name} on {board} is over its budget; all figures: {found}"


@pytest.mark.parametrize("name", MODELS)
def test_against_tflite_micro(
    name: str, shared_dir: Path, sample_model: Callable[[str], Path]
) -> None:
    baselines = json.loads((shared_dir / "baselines.json").read_text(encoding="utf-8"))
    found = figures(sample_model(MODELS[name]), "mps2_an386")
    fast = baselines["tflm_cmsis_nn"]["m4"][name]
    plain = baselines["tflm_reference_kernels"]["m4"][name]
    assert found["arena_bytes"] <= fast["arena_planned_bytes"]
    assert BUDGETS["ram"][name]["mps2_an386"]["arena_bytes"] <= fast["arena_planned_bytes"]
    assert found["code_bytes"] <= fast["code_bytes"] / 2
    assert found["instructions"] <= plain["instructions"] / 2


@pytest.mark.parametrize("name", MODELS)
def test_vectors_against_tflite_micro(
    name: str, shared_dir: Path, sample_model: Callable[[str], Path]
) -> None:
    baselines = json.loads((shared_dir / "baselines.json").read_text(encoding="utf-8"))
    found = figures(sample_model(MODELS[name]), "mps3_an547")
    theirs = baselines["tflm_cmsis_nn"]["m55"][name]
    assert found["arena_bytes"] <= theirs["arena_planned_bytes"]
    assert found["code_bytes"] <= theirs["code_bytes"] / 2
