"""`examples/sklearn_forest`: the emulated board answers as scikit-learn does, from little flash."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    find_spec("skl2onnx") is None, reason="skl2onnx is not installed (edgec[test])"
)

EXAMPLE = Path(__file__).parents[2] / "examples" / "sklearn_forest"
#: Digits that are run on the board here.
DIGITS = 20
#: For a branch and its share of the leaves.
MOST_BYTES = 6.1


def test_the_board_answers_as_scikit_learn(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE / "train.py", str(DIGITS), str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = re.findall(r": ([\d.]+) % of (\d+) digits", done.stdout)
    (before, tested), (_, run) = ((float(share), int(count)) for share, count in found)
    assert (tested, run) == (450, DIGITS) and before >= 97
    assert "the same labels: True" in done.stdout
    each = re.search(r"([\d.]+) bytes each", done.stdout)
    assert each is not None and float(each[1]) <= MOST_BYTES


def test_script_and_its_page_stay_short() -> None:
    for name, most in (("train.py", 45), ("README.md", 31)):
        assert len((EXAMPLE / name).read_text("utf-8").splitlines()) <= most, name
