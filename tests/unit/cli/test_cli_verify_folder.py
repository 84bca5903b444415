"""`edgec verify DIR`: the project's own model, board and options."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_int8.onnx"


def test_a_folder_knows_its_model_board_and_options(
    edgec: Callable, refused: Callable, work: Path
) -> None:
    shutil.copy(DIGITS, work / "digits.onnx")
    words = ("--board", "stm32", "--optimize", "size", "--io", "caller", "-o", "out")
    assert edgec("build", "digits.onnx", *words).status == 0
    ran = edgec("verify", "out", "--engine", "core", "--random", "1")
    assert ran.status == 0, ran
    assert ran.out.startswith("netduinoplus2 on core against onnx")
    assert "compiled already" not in ran.out
    assert edgec("verify", "out", "--optimize", "time").status == 2, "the folder says that"
    # Another model of that name is not what was built.
    shutil.copy(DIGITS.with_name("digits_float.onnx"), work / "digits.onnx")
    assert "the model or the project has changed" in refused("verify", "out", "--random", "1")
    (work / "digits.onnx").unlink()
    said = refused("verify", "out")
    assert "built from digits.onnx, which is not found" in said and "give the model file" in said
