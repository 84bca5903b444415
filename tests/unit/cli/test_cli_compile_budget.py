"""--compile-budget reaches every command that reads a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

COMMANDS = {
    "build": ("--board", "host", "-o", "out"),
    "verify": ("--board", "host", "--random", 1),
    "quantize": ("--calibration", "x.npz", "-o", "q.onnx", "--no-blame"),
    "inspect": (),
}


@pytest.fixture
def steps_model(tmp_path: Path) -> Path:
    """A small model with constants that are computed in 6,000 steps while the file is read."""
    text = (
        '<ir_version: 9, opset_import: ["":17]> g (float[2] x) => (float[2] y)'
        " <int64[3] shape = {6000, 1, 1}, float[1,4,1] w = {1,1,1,1}, float[1,4,1] r = {1,1,1,1}>"
        " { c = ConstantOfShape(shape) all, last = LSTM<hidden_size=1>(c, w, r) y = Relu(x) }"
    )
    path = tmp_path / "steps.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_a_lower_budget_refuses(
    command: str, steps_model: Path, refused: Callable, work: Path
) -> None:
    np.savez("x.npz", x=np.ones((4, 2), np.float32))
    said = refused(command, steps_model, *COMMANDS[command], "--compile-budget", 0.02)
    assert "6,010 steps one after the other" in said and "--compile-budget" in said


def test_the_usual_budget_takes_it(steps_model: Path, edgec: Callable) -> None:
    assert edgec("inspect", steps_model).status == 0


@pytest.mark.parametrize("factor", ["nan", "inf", "0", "-1"])
def test_what_is_no_factor_is_refused(factor: str, steps_model: Path, edgec: Callable) -> None:
    ran = edgec("inspect", steps_model, "--compile-budget", factor)
    assert ran.status == 2 and "--compile-budget" in ran.err and "Traceback" not in ran.err
