"""`edgec verify DIR`: the project's own model, board and options."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    "words",
    [
        ("--board", "mps2_an386", "--optimize", "time=1,ram=0.5", "--max-ram", "24K"),
        ("--board", "cuda_host", "--offload", "none", "--compile-budget", "2"),
    ],
)
def test_a_folder_is_built_again_with_all_its_options(
    edgec: Callable, work: Path, words: tuple[str, ...]
) -> None:
    shutil.copy(DIGITS, work / "digits.onnx")
    assert edgec("build", "digits.onnx", *words, "-o", "out").status == 0
    engine = "host" if "cuda_host" in words else "core"
    ran = edgec("verify", "out", "--engine", engine, "--random", "1")
    assert ran.status == 0, ran


def test_a_tuned_file_beside_the_model_is_kept_in_the_folder(edgec: Callable, work: Path) -> None:
    shutil.copy(DIGITS, work / "digits.onnx")
    words = ("--board", "mps2_an386")
    assert (
        edgec("tune", "digits.onnx", *words, "--trials", "2", "-o", "digits.tune.json").status == 0
    )
    assert edgec("build", "digits.onnx", *words, "-o", "digits").status == 0
    assert (work / "digits" / "tuned.json").is_file()
    (work / "digits.tune.json").write_text("{}")  # what lies there now is not what was built
    assert edgec("verify", "digits", "--engine", "core", "--random", "1").status == 0


def test_own_kernels_are_given_again(edgec: Callable, refused: Callable, work: Path) -> None:
    own = DIGITS.parents[1] / "own_kernels"
    shutil.copy(DIGITS.with_name("digits_float.onnx"), work / "digits.onnx")
    kernels = ("--kernels", str(own / "kernels.py"))
    assert edgec("build", "digits.onnx", "--board", "mps2_an386", *kernels, "-o", "out").status == 0
    words = ("verify", "out", "--engine", "core", "--random", "1")
    assert "give these again" in refused(*words)
    assert edgec(*words, *kernels).status == 0
