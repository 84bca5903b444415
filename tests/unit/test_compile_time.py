"""The time of a compile grows as the model does: calls of functions are counted, not seconds."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgec.boards.board import load_board
from edgec.options import Options
from edgec.pipeline import compile_model
from tests.onnx_builder import OnnxBuilder


def convolutions(count: int, path: Path) -> Path:
    """Equal layers of different weights, which could all stream in one segment."""
    b = OnnxBuilder(0, (1, 8, 12, 8))
    value = "x"
    for _ in range(count):
        weights = b.constant(b.rng.normal(size=(8, 8, 3, 3)).astype(np.float32), "w")
        bias = b.constant(np.zeros(8, np.float32), "b")
        value = b.add("Relu", [b.add("Conv", [value, weights, bias], pads=[1, 1, 1, 1])])
    return b.save(value, path)


def elements(count: int, path: Path) -> Path:
    """A chain of element-wise nodes, each a step of its own."""
    b = OnnxBuilder(0, (1, 16))
    value = "x"
    for number in range(8 * count):
        value = b.add(("Relu", "Tanh", "Sigmoid")[number % 3], [value])
    return b.save(value, path)


@pytest.mark.parametrize("build", [convolutions, elements])
def test_calls_grow_with_the_layers(build: Callable[[int, Path], Path], tmp_path: Path) -> None:
    calls, board = [], load_board("stm32")
    for count in (20, 40, 80, 160):  # the first one fills what is kept for all models
        model = build(count, tmp_path / f"{count}.onnx")
        profile = cProfile.Profile()
        profile.runcall(compile_model, model, board.core, Options(), board=board)
        calls.append(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]
    # Twice as many layers more cost twice as many calls more; four times if it were quadratic.
    assert calls[3] - calls[2] <= 2.4 * (calls[2] - calls[1])
