"""The tutorial of a sensor stream: its Python, its commands and its C work, in their order."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from own_main import blocks, edit_main
from repo_files import REPO_ROOT
from test_doc_commands import commands_of

from edgec.cli.main import main

PAGE = "sensor_stream"
TEXT = REPO_ROOT / "docs" / f"{PAGE}.md"
DRIVER = """
static void accelerometer_wait(void) {}
static float accelerometer_read(uint32_t axis) { return axis == 2u ? 1.0f : 0.0f; }
"""


@pytest.mark.full
def test_every_step_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("torch", "unicorn"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    monkeypatch.chdir(tmp_path)
    Path("watch.py").write_text("".join(blocks(TEXT, "python")))
    subprocess.run([sys.executable, "watch.py"], check=True)
    told = {}
    for program, *arguments in commands_of(PAGE):
        assert program == "edgec"
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        shown = capsys.readouterr()
        assert stop.value.code == 0, f"edgec {shlex.join(arguments)}\n{shown.err}"
        told[arguments[0]] = shown.out
        if arguments[0] == "new":
            edit_main(Path("stream/main.c"), DRIVER + "".join(blocks(TEXT, "c")))
    assert told["inspect"].count("\nstate ") == 2 and "all the same bits" in told["verify"]
    (scores,) = np.load("scores.npz").values()
    assert scores[:80].max() < 20 < scores[80:85].min()
    assert f"{scores[-1].item():.4f}"[:5] in told["run"]
