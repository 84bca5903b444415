"""The tutorial of a sensor stream: its Python, its commands and its C work, in their order."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from repo_files import REPO_ROOT
from test_doc_commands import commands_of

from edgec.cli.main import main

PAGE = "sensor_stream"
DRIVER = """
static void accelerometer_wait(void) {}
static float accelerometer_read(uint32_t axis) { return axis == 2u ? 1.0f : 0.0f; }
"""


def block(language: str) -> str:
    text = (REPO_ROOT / "docs" / f"{PAGE}.md").read_text("utf-8")
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)
    return found


def edit_main(file: Path) -> None:
    """Put the page's functions, with a sensor for them, in the place of those of `edgec new`."""
    old = r"/\* Fill the model's input: replace.*?(?=^int main)"
    text, count = re.subn(old, lambda _: DRIVER + block("c"), file.read_text(), flags=re.M | re.S)
    assert count == 1
    file.write_text(text)


@pytest.mark.full
def test_every_step_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("torch", "unicorn"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    monkeypatch.chdir(tmp_path)
    Path("watch.py").write_text(block("python"))
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
            edit_main(Path("stream/main.c"))
    assert told["inspect"].count("\nstate ") == 2 and "all the same bits" in told["verify"]
    (scores,) = np.load("scores.npz").values()
    assert scores[:80].max() < 20 < scores[80:85].min()
    assert f"{scores[-1].item():.4f}"[:5] in told["run"]
