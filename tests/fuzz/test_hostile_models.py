"""Small files that ask for much: each is compiled or refused within a minute and 2 GB."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from hostile_models import TEXTS, hostile_model

#: CPU seconds, and KiB as Linux counts them.
MOST_SECONDS, MOST_KIB = 60, 2 << 20


@pytest.mark.full  # `tests/unit/graph/test_limits.py` has the limits one by one
@pytest.mark.parametrize("name", TEXTS)
def test_a_small_file_takes_little(name: str, tmp_path: Path) -> None:
    onnx.save(hostile_model(name), tmp_path / "m.onnx")
    command = [sys.executable, "-m", "edgec", "build", "m.onnx", "--target", "cortex-m4"]
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(
            [*command, "-o", "out"], cwd=tmp_path, stdout=said, stderr=subprocess.STDOUT
        )
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    words = (tmp_path / "said").read_text()
    assert process.returncode in (0, 1, 3), words
    assert ("error: " in words) == (process.returncode != 0), words
    assert "Traceback" not in words
    assert used.ru_utime + used.ru_stime < MOST_SECONDS, words
    assert used.ru_maxrss < MOST_KIB, words
