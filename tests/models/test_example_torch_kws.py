"""`examples/torch_kws`: float and int8 accuracy of both spotters, on the emulated board."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (edgec[torch])")

EXAMPLE = Path(__file__).parents[2] / "examples" / "torch_kws"
#: Words that are run on the board here.
WORDS = 40
SCRIPTS = ("ds_cnn.py", pytest.param("gru.py", marks=pytest.mark.full))


@pytest.mark.parametrize("script", SCRIPTS)
def test_integers_on_the_board_answer_as_well_as_pytorch(script: str) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE / script, str(WORDS)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = re.findall(r": ([\d.]+) % of (\d+) words", done.stdout)
    (before, tested), (after, run) = ((float(share), int(count)) for share, count in found)
    assert (tested, run) == (300, WORDS)
    assert before >= 95 and after >= 95, done.stdout


def test_scripts_and_their_page_stay_short() -> None:
    for name, most in (("ds_cnn.py", 39), ("gru.py", 39), ("README.md", 30)):
        assert len((EXAMPLE / name).read_text("utf-8").splitlines()) <= most, name
