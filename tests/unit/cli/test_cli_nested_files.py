"""Files whose values lie in each other beyond Python's stack are refused in one line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

DEEP = "[" * 100_000
#: On lines of their own: long ones are refused before.
LINES = "x = " + "[\n" * 100_000
#: The file's name and text, and the words that make a command read it.
FILES = [
    ("edgec.toml", LINES, ["build", "dense.tflite"]),
    ("board.toml", LINES, ["build", "dense.tflite", "--board", "board.toml"]),
    ("places.toml", LINES,
     ["build", "dense.tflite", "--board", "mps2_an386", "--place", "places.toml"]),
    ("pool.toml", LINES, ["run", "dense.tflite", "--pool", "pool.toml"]),
    ("features.toml", LINES, ["build", "features.toml"]),
    ("dense.tune.json", DEEP, ["build", "dense.tflite", "--board", "mps2_an386"]),
    ("baselines.json", DEEP, ["bench", "--baselines", "baselines.json"]),
    ("manifest.json", DEEP, ["run", "."]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "command"), FILES, ids=[file[0] for file in FILES])
def test_deep_files(
    name: str, text: str, command: list[str], dense_model: Path, edgec: Callable, work: Path
) -> None:
    (work / name).write_text(text, encoding="utf-8")
    shutil.copy(dense_model, work)
    beside = {path.name for path in work.iterdir()}
    ran = edgec(*command)
    assert ran.status == 1 and ran.out == ""
    assert ran.err.startswith("error: ") and ("nested" if text is LINES else "recursion") in ran.err
    assert {path.name for path in work.iterdir()} == beside
