"""Sizes, instructions and accuracy of the real models stay within `budgets.toml`.

Float models are quantized first, in each format (`quantized_models.py`). Instruction counts are
exact and repeatable, so a budget is the figure itself: when one goes down, the file is tightened;
it is never loosened to pass.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from built_models import DIGITS, FLOAT_MODELS, MODELS, QDQ_MODELS, SEQUENCE_MODELS, figures
from goals import GOALS, missed, missed_goals
from quantized_models import QUANTIZED, QUICK, quantized_file, source_file, sqnr_db

BUDGETS = tomllib.loads((Path(__file__).parent / "budgets.toml").read_text(encoding="utf-8"))


def rows(table: str) -> list[Any]:
    """Names of models, and boards if there are any; slow ones are for `make test-full`."""
    found = []
    for name, limits in BUDGETS[table].items():
        marks = [pytest.mark.full] if name in QUANTIZED and name not in QUICK else []
        each = [(name, board) for board in limits] if isinstance(limits, dict) else [(name,)]
        found += [pytest.param(*values, marks=marks) for values in each]
    return found


def require_source(name: str, sample_model: Callable[[str], Path]) -> None:
    """The float model of a quantized one; skips the test where it is absent."""
    source = source_file(name)
    if not source.is_file():
        sample_model(source.name)


@pytest.mark.parametrize(("name", "board"), rows("models"))
def test_within_budget(
    name: str, board: str, sample_model: Callable[[str], Path], request: pytest.FixtureRequest
) -> None:
    files = {**MODELS, **QDQ_MODELS, **SEQUENCE_MODELS, **FLOAT_MODELS}
    if name in QUANTIZED:
        require_source(name, sample_model)
        model = quantized_file(name)
    else:
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


@pytest.mark.parametrize("name", rows("sqnr_db"))
def test_sqnr_is_within_its_budget(name: str, sample_model: Callable[[str], Path]) -> None:
    require_source(name, sample_model)
    assert sqnr_db(name) >= BUDGETS["sqnr_db"][name]


def test_quantized_models_have_budgets_of_all_figures() -> None:
    assert set(BUDGETS["sqnr_db"]) == set(QUANTIZED) and set(QUICK) <= set(QUANTIZED)
    for name in QUANTIZED:
        assert set(BUDGETS["models"][name]) == {"mps2_an386", "mps3_an547"}


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
    found = figures(sample_model((MODELS | QDQ_MODELS | FLOAT_MODELS)[name]), board, optimize)
    limits = BUDGETS[optimize][name][board]
    over = {key: f"{found[key]:,} > {n:,}" for key, n in limits.items() if found[key] > n}
    assert not over, f"{name} on {board} is over its budget; all figures: {found}"


def test_time_is_never_slower_than_the_default() -> None:
    for name, boards in BUDGETS["time"].items():
        for board, limits in boards.items():
            default = BUDGETS["models"][name][board]["instructions"]
            assert limits["instructions"] <= default, name


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
