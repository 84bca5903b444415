"""A NaN that goes into a limit comes out of it, as in ONNX Runtime: a broken sensor shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_builder import OnnxBuilder

from edgec.boards.board import load_board
from edgec.options import Options
from edgec.oracle.verify import verify_model
from edgec.runners.emulator import missing_emulator


@pytest.mark.parametrize("channels", [3, 8])
@pytest.mark.parametrize("limit", ["Relu", "Clip"])
@pytest.mark.parametrize(
    ("board", "engine"), [("host", "host"), ("mps2_an386", "core"), ("mps3_an547", "qemu")]
)
def test_limits_keep_it(board: str, engine: str, limit: str, channels: int, tmp_path: Path) -> None:
    missing = missing_emulator(load_board(board)) if engine == "qemu" else None
    if missing is not None:
        pytest.skip(missing.message)
    if engine == "core":
        pytest.importorskip("unicorn")
    b = OnnxBuilder(3, (1, 4, 6, 6))
    weights = b.constant(b.rng.normal(size=(channels, 4, 3, 3)).astype(np.float32), "w")
    y = b.add("Conv", ["x", weights], pads=[1, 1, 1, 1])
    bounds = [b.constant(np.float32(v), "bound") for v in (-0.5, 2.0)] if limit == "Clip" else []
    path = b.save(b.add(limit, [y, *bounds]), tmp_path / "m.onnx")
    x = np.random.default_rng(1).normal(size=(1, 4, 6, 6)).astype(np.float32)
    x[0, 1, 0, 0], x[0, 2, 5, 3], x[0, 3, 4, 1] = np.nan, np.inf, -np.inf
    options = Options()
    result = verify_model(path, load_board(board), options, engine, [[x]], tmp_path / "out")
    assert result.beyond == 0, result.to_dict()["first_difference"]
