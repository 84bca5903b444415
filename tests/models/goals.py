"""The goals of `goals.toml`: which of them a measurement misses."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

GOALS: dict[str, Any] = tomllib.loads(
    (Path(__file__).parent / "goals.toml").read_text(encoding="utf-8")
)
#: Their names in baselines.json.
BASELINE_CORES = {"mps2_an386": "m4", "mps2_an500": "m7", "mps3_an547": "m55"}


def missed_goals(name: str, board: str, found: Mapping[str, int], baselines: Path) -> list[str]:
    """One line for each goal of the model on the board that these figures are above.

    Goals that are known to be missed are left out. found: instructions and macs of one inference
    with plain options. baselines: the file that goals of kind `ratio` compare with.
    """
    figures = {"instructions_per_mac": found["instructions"] / found["macs"]}
    if board in BASELINE_CORES:
        cores = json.loads(baselines.read_text(encoding="utf-8"))["tflm_cmsis_nn"]
        theirs = cores[BASELINE_CORES[board]][name]["instructions"]
        figures["ratio"] = found["instructions"] / theirs
    return [line for kind, figure in figures.items() for line in missed(kind, name, board, figure)]


def missed(kind: str, name: str, board: str, figure: float) -> list[str]:
    """A line if there is such a goal, the figure is above it, and that is not known."""
    goal = GOALS[kind].get(board, {}).get(name)
    known = [(m["kind"], m["model"], m["board"]) for m in GOALS.get("missed", [])]
    if goal is None or figure <= goal or (kind, name, board) in known:
        return []
    return [f"{name} on {board}: {kind} is {figure:.4f}, the goal {goal}"]
