"""Every command in a fenced `sh` block of the guides works, in the order it is written.

All pages name only commands, options and make targets that exist.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from repo_files import REPO_ROOT, relative
from test_cli_docs import options_of
from test_paths import PAGES

from edgec.cli.main import COMMANDS, main

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


def faults_of_commands(text: str) -> list[str]:
    """Commands, options and targets in indented lines and inline code that do not exist."""
    targets = set(re.findall(r"^([a-z-]+):", (REPO_ROOT / "Makefile").read_text("utf-8"), re.M))
    written = re.findall(r"^ {4}((?:edgec|make) .*)", text, re.M)
    written += re.findall(r"`((?:edgec|make) [^`\n]+)`", text)
    found = []
    for line in written:
        line = line.split(" #")[0]
        for program, words in re.findall(r"\b(edgec|make) ((?:(?!\b(?:edgec|make) ).)*)", line):
            name, *rest = words.split() or [""]
            if name == "COMMAND" or name.startswith("-"):
                continue
            if program == "make":
                found += [] if name in targets else [f"make {name}"]
                continue
            if name not in COMMANDS:
                found.append(f"edgec {name}")
                continue
            known = {*options_of(name), "--help", "-h"}
            named = re.findall(r"(?<![\w-])(--?[a-z][a-z0-9-]*)", " ".join(rest))
            found += [f"edgec {name} {option}" for option in named if option not in known]
    return found


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_commands_and_options_of_every_page_exist(page: Path) -> None:
    assert faults_of_commands(page.read_text("utf-8")) == []


def test_a_wrong_command_is_seen() -> None:
    page = (
        "    edgec build m --board x --no-such  # edgec nothing\n    edgec ops   edgec nope\n"
        "`edgec run m --steps 3` `make demo` `make nothing` `edgec report d --hmtl o` edgec foo\n"
    )
    assert faults_of_commands(page) == [
        "edgec build --no-such", "edgec nope", "make nothing", "edgec report --hmtl",
    ]  # fmt: skip
