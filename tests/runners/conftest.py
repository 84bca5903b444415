"""The example model, built once for each board and engine that the tests run it on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from edgec.boards.board import load_board
from edgec.deploy.project import Built, deploy
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.runners.emulator import PROGRAMS

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Built]:
    """A function from a board's name to the example model, built for it with tracing."""
    folder = tmp_path_factory.mktemp("digits")

    @cache
    def make(board_name: str, io: str = "arena") -> Built:
        board = load_board(board_name)
        options = Options(io=io)  # type: ignore[arg-type]
        compiled = compile_model(
            DIGITS / "digits_int8.onnx", board.core, options, board_name=board.name
        )
        return deploy(compiled, board, folder / f"{board_name}_{io}", traced=True)

    return make


@pytest.fixture(scope="session")
def images() -> list[np.ndarray]:
    """Some of the example's images as inputs of its model."""
    data = np.load(DIGITS / "digits_test.npz")
    stored = data[next(name for name in data.files if data[name].ndim > 1)]
    return [image[np.newaxis].astype(np.float32) for image in stored[:8]]


@pytest.fixture
def qemu() -> None:
    for program, package in PROGRAMS.values():
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (Debian package {package})")
