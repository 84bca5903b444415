"""ONNX's official cases as C on a simulated Cortex-M4, in batches: the reference's bits.

PYTHONPATH=tests:tests/models python tests/ops/test_onnx_cases_on_m4.py [NAME ...]
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from m4_batch import BOARD, Case, differences, is_too_large
from official_cases import as_array, official_cases, specialized
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx_suite import KINDS, MODEL_CASES, NODE_CASES, listed

from edgec.boards.board import load_board
from edgec.graph.ir import Module
from edgec.onnx_backend import PLAN_NODES
from edgec.options import Options
from edgec.pipeline import compile_module

#: As `edgec.onnx_backend` compiles: a memory plan that is not the best, and found at once.
OPTIONS = Options(plan_nodes=PLAN_NODES)
#: Models in an image.
BATCH = 48
#: Cases whose data the board has no room for, 4 MB for each of flash and RAM: the only ones that do
#: not run.
TOO_LARGE: frozenset[str] = frozenset()


@cache
def node_cases() -> dict[str, Any]:
    return {case.name: case for case in official_cases()}


@cache
def model_folders() -> dict[str, Path]:
    return {
        case.name: Path(case.model_dir) for kind in KINDS for case in load_model_tests(kind=kind)
    }


def model_of(name: str) -> tuple[Any, list[np.ndarray]]:
    """The model of a case, and its first set of inputs."""
    if name in node_cases():
        case = node_cases()[name]
        return case.model, [as_array(value) for value in case.data_sets[0][0]]
    folder = model_folders()[name]
    files = (folder / "test_data_set_0").glob("input_*.pb")
    arrays = [numpy_helper.to_array(onnx.load_tensor(file))
              for file in sorted(files, key=lambda path: int(path.stem[6:]))]  # fmt: skip
    return onnx.load(folder / "model.onnx"), arrays


def compiled_case(name: str, number: int, folder: Path) -> Case:
    """A case for the board; its model is named by its number."""
    model, arrays = model_of(name)
    path = folder / f"case{number}.onnx"
    path.write_bytes(model.SerializeToString())
    constants = {tensor.name for tensor in model.graph.initializer}
    names = [entry.name for entry in model.graph.input if entry.name not in constants]
    main, fixed = specialized(path, dict(zip(names, arrays, strict=False)))
    free = [x for key, x in zip(names, arrays, strict=False) if key not in fixed]
    board = load_board(BOARD)
    module = Module({"main": main}, source=path.name, format="onnx")
    return Case(name, compile_module(module, board.core, OPTIONS, board_name=BOARD), free)


def findings(names: Sequence[str], folder: Path) -> dict[str, str]:
    """By name, what differs; "too large" where the board has no room."""
    cases = [compiled_case(name, number, folder) for number, name in enumerate(names)]
    small = [case for case in cases if not is_too_large(case.compiled)]
    large = {case.name: "too large" for case in cases if case not in small}
    return {**large, **differences(small, folder)}


def batches() -> list[list[str]]:
    """All official cases that run, of nodes and models."""
    names = sorted({*listed(NODE_CASES), *listed(MODEL_CASES)})
    count = -(-len(names) // BATCH)
    return [names[part::count] for part in range(count)]


@pytest.mark.full
@pytest.mark.parametrize("names", batches(), ids=lambda names: names[0])
def test_official_cases(names: list[str], tmp_path: Path) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    assert findings(names, tmp_path) == dict.fromkeys(TOO_LARGE & set(names), "too large")


if __name__ == "__main__":
    for batch in [sys.argv[1:]] if sys.argv[1:] else batches():
        with tempfile.TemporaryDirectory() as root:
            print(batch[0], findings(batch, Path(root)), flush=True)
