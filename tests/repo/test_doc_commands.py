"""Every command in a fenced `sh` block of the guides works, in the order it is written."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from repo_files import REPO_ROOT

from edgec.cli.main import main

GUIDES = ("quick_start", "own_model", "own_board")
EXAMPLE = Path("examples/digits/digits_int8.onnx")


def commands_of(page: str) -> list[list[str]]:
    text = (REPO_ROOT / "docs" / f"{page}.md").read_text("utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("page", GUIDES)
def test_commands_of_a_guide(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    (tmp_path / EXAMPLE).parent.mkdir(parents=True)
    for copy in (EXAMPLE, Path("model.onnx")):
        shutil.copy(REPO_ROOT / EXAMPLE, tmp_path / copy)
    monkeypatch.chdir(tmp_path)
    commands = commands_of(page)
    assert len(commands) >= 6
    for program, *arguments in commands:
        assert program == "edgec"
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 0, f"edgec {shlex.join(arguments)}\n{capsys.readouterr().err}"
